"""transformers on the same checkpoint and requests: one after another, and as one static batch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from workload import Outcome, Request


def load(folder: Path, dtype: torch.dtype) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()


def one_after_another(model: Any, requests: Sequence[Request]) -> Outcome:
    """`generate` per request, none before it arrives."""
    start = time.perf_counter()
    ids = []
    for request in requests:
        _wait(start, request.arrives)
        prompt = torch.tensor([request.prompt])
        out = _generate(model, prompt, torch.ones_like(prompt), request.new)
        ids.append(out[0, prompt.shape[1] :].tolist())
    return Outcome(ids=ids, seconds=time.perf_counter() - start)


def static_batch(model: Any, requests: Sequence[Request]) -> Outcome:
    """One left-padded `generate` of all requests for the longest answer; each keeps as much as it wanted.

    It begins when the last request has arrived.
    """
    start = time.perf_counter()
    _wait(start, max(request.arrives for request in requests))
    longest = max(len(request.prompt) for request in requests)
    prompts = torch.zeros(len(requests), longest, dtype=torch.int64)
    mask = torch.zeros_like(prompts)
    for row, request in enumerate(requests):
        prompts[row, longest - len(request.prompt) :] = torch.tensor(request.prompt)
        mask[row, longest - len(request.prompt) :] = 1
    out = _generate(model, prompts, mask, max(request.new for request in requests))
    ids = [out[row, longest : longest + request.new].tolist() for row, request in enumerate(requests)]
    return Outcome(ids=ids, seconds=time.perf_counter() - start)


def static_batch_at_once(model: Any, requests: Sequence[Request]) -> Outcome:
    """The same where all requests are there from the start, which no other form is given."""
    return static_batch(model, [replace(request, arrives=0.0) for request in requests])


def _wait(start: float, arrives: float) -> None:
    time.sleep(max(0.0, start + arrives - time.perf_counter()))


def _generate(model: Any, prompts: torch.Tensor, mask: torch.Tensor, new: int) -> torch.Tensor:
    with torch.no_grad():
        out: torch.Tensor = model.generate(
            prompts, attention_mask=mask, max_new_tokens=new, do_sample=False, eos_token_id=None, pad_token_id=0
        )
    return out
