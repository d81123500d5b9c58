"""Attention made as a whole equals torch's fused one, and no bit of a request depends on its company."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from omniflow.experts.attention import attend


def _heads(tokens: int) -> Tensor:
    return torch.randn(5, tokens, 8, 64)


@pytest.mark.parametrize(("asking", "asked"), [(16, 16), (160, 160), (512, 17), (512, 512)])
def test_attention_equals_the_fused_one_and_knows_no_neighbours(asking: int, asked: int) -> None:
    torch.manual_seed(0)
    q, k, v = _heads(asking), _heads(asked), _heads(asked)
    mixed = attend(q, k, v)
    fused = F.scaled_dot_product_attention(*(part.transpose(1, 2) for part in (q, k, v)))
    torch.testing.assert_close(mixed, fused.transpose(1, 2).flatten(2), atol=2e-6, rtol=1e-5)
    for some in (slice(0, 1), slice(1, 3), slice(2, 5)):
        assert torch.equal(attend(q[some], k[some], v[some]), mixed[some])


def test_a_mask_is_obeyed() -> None:
    torch.manual_seed(0)
    q, k, v = _heads(160), _heads(160), _heads(160)
    mask = torch.ones(160, 160, dtype=torch.bool).tril()
    torch.testing.assert_close(attend(q, k, v, mask)[:, 0], v[:, 0].flatten(1))
