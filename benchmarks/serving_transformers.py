"""transformers: `generate` one after another, `generate` of one static batch, and its continuous batching."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import decoder_peers as generate
import torch
from serving_clock import Clock
from serving_contestant import Form, answer
from workload import Outcome, Request


def make(arguments: Sequence[str]) -> tuple[str, Mapping[str, Form]]:
    import transformers

    folder, dtype, threads, _ = arguments
    torch.set_num_threads(int(threads))
    model = generate.load(Path(folder), getattr(torch, dtype))
    return transformers.__version__, {
        "one after another": partial(generate.one_after_another, model),
        "static batch": partial(generate.static_batch, model),
        "static batch at once": partial(generate.static_batch_at_once, model),
        "continuous batching": partial(continuous, model),
    }


def continuous(model: Any, requests: Sequence[Request]) -> Outcome:
    """Its own manager in its own thread; pages and batch are bounded, or it would take most of the memory."""
    from transformers import ContinuousBatchingConfig, GenerationConfig

    settings = GenerationConfig(max_new_tokens=1024, do_sample=False, eos_token_id=-1, pad_token_id=0)
    bounds = ContinuousBatchingConfig(num_blocks=64, page_size=256, max_batch_tokens=256)
    manager = model.init_continuous_batching(generation_config=settings, continuous_batching_config=bounds)
    manager.start()
    try:
        clock, seen = Clock(requests), [0] * len(requests)
        while not clock.is_over:
            for index, request in clock.due():
                manager.add_request(list(request.prompt), str(index), max_new_tokens=request.new, streaming=True)
            found = manager.get_result(timeout=0.005)
            if found is not None:
                index = int(found.request_id)
                clock.tokens(index, list(found.generated_tokens[seen[index] :]))
                seen[index] = len(found.generated_tokens)
        return clock.outcome()
    finally:
        manager.stop(block=True)


if __name__ == "__main__":
    answer(make)
