"""transformers on the same checkpoint and requests: one after another, and as one static batch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from workload import Outcome, Request


def load(folder: Path, dtype: torch.dtype) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()


def one_after_another(model: Any, requests: Sequence[Request]) -> Outcome:
    """`generate` per request; all are there from the start, which is kinder than arrivals."""
    start = time.perf_counter()
    ids = []
    for request in requests:
        prompt = torch.tensor([request.prompt])
        out = _generate(model, prompt, torch.ones_like(prompt), request.new)
        ids.append(out[0, prompt.shape[1] :].tolist())
    return Outcome(ids=ids, seconds=time.perf_counter() - start)


def static_batch(model: Any, requests: Sequence[Request]) -> Outcome:
    """One left-padded `generate` of all requests for the longest answer; each keeps as much as it wanted."""
    start = time.perf_counter()
    longest = max(len(request.prompt) for request in requests)
    prompts = torch.zeros(len(requests), longest, dtype=torch.int64)
    mask = torch.zeros_like(prompts)
    for row, request in enumerate(requests):
        prompts[row, longest - len(request.prompt) :] = torch.tensor(request.prompt)
        mask[row, longest - len(request.prompt) :] = 1
    out = _generate(model, prompts, mask, max(request.new for request in requests))
    ids = [out[row, longest : longest + request.new].tolist() for row, request in enumerate(requests)]
    return Outcome(ids=ids, seconds=time.perf_counter() - start)


def _generate(model: Any, prompts: torch.Tensor, mask: torch.Tensor, new: int) -> torch.Tensor:
    with torch.no_grad():
        out: torch.Tensor = model.generate(
            prompts, attention_mask=mask, max_new_tokens=new, do_sample=False, eos_token_id=None, pad_token_id=0
        )
    return out
