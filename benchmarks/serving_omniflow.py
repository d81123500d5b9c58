"""OmniFlow as a user has it: `omniflow.load`, `submit`, `step`, on the program `llama.tokens`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import torch
from serving_clock import Clock
from serving_contestant import Form, answer
from workload import Outcome, Request

import omniflow
from omniflow.catalog import find_spec


def make(arguments: Sequence[str]) -> tuple[str, Mapping[str, Form]]:
    folder, dtype, threads, quantize = arguments
    torch.set_num_threads(int(threads))
    params = {"weights": folder, "dtype": dtype, "max_tokens": "1024"}
    if quantize != "none":
        params["quantize"] = quantize
    engine = omniflow.load(omniflow.compile(find_spec("llama.tokens"), outputs=["tokens"], params=params))
    return f"torch {torch.__version__}", {"engine": partial(serve, engine)}


def serve(engine: omniflow.Engine, requests: Sequence[Request]) -> Outcome:
    """Every request when it arrives; its tokens as they leave."""
    engine.bound.stores.drop()  # no run begins with what the one before has read
    for pool in engine.bound.pools.pools:
        pool.clear()  # prompts of an earlier repeat
    clock = Clock(requests)

    def hear(index: int, piece: omniflow.Piece) -> None:
        clock.tokens(index, piece.data.tolist())

    while not clock.is_over:
        _raise_failures(engine)
        for index, request in clock.due():
            engine.submit(
                {"tokens": torch.tensor(request.prompt)},
                params={"think.max_tokens": request.new, "think.stop": []},
                listener=partial(hear, index),
                keep=False,
            )
        if engine.is_idle:
            clock.sleep()
        else:
            engine.step()
    outcome = clock.outcome()
    while not engine.is_idle:
        engine.step()
    _raise_failures(engine)
    return outcome


def _raise_failures(engine: omniflow.Engine) -> None:
    for request in list(engine.results):
        result = engine.result(request)
        if result is not None and result.error is not None:
            raise RuntimeError(result.error)


if __name__ == "__main__":
    answer(make)
