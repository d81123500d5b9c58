"""Packed layers compute what nn.Linear does, and a row never depends on how many rows there are."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from omniflow.experts.packed import PackedLinear, pack_linears, packs

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this build of torch has no oneDNN")


@pytest.mark.parametrize(("columns", "rows"), [(64, 2048), (512, 512), (2560, 512)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_has_the_same_bits_alone_and_among_any_number(columns: int, rows: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(columns, rows, dtype=dtype)
    packed = PackedLinear(linear)
    x = torch.randn(150, columns, dtype=dtype)
    with torch.inference_mode():
        whole = packed(x)
        torch.testing.assert_close(whole, linear(x), atol=2e-2 if dtype is torch.bfloat16 else 1e-5, rtol=1e-2)
        for height in (1, 2, 3, 8, 16, 37, 64, 149):
            assert torch.equal(packed(x[:height]), whole[:height]), height
        assert torch.equal(packed(x.view(3, 50, columns))[1], whole[50:100])
        assert packed(x[:1, None]).shape == (1, 1, rows)


def test_large_layers_are_packed_and_small_ones_stay() -> None:
    module = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 4))
    pack_linears(module)
    assert [type(part) for part in module] == [PackedLinear, nn.ReLU, nn.Linear]
    assert not packs(nn.Linear(512, 512, dtype=torch.float64))


def test_layers_that_share_a_weight_share_the_packed_one() -> None:
    linear = nn.Linear(512, 512)
    module = pack_linears(nn.Sequential(linear, nn.ReLU(), linear))
    assert module[0] is module[2]


def test_a_model_of_packed_layers_still_tells_its_dtype() -> None:
    module = pack_linears(nn.Sequential(nn.Linear(512, 512, dtype=torch.bfloat16)))
    assert [parameter.dtype for parameter in module.parameters()] == [torch.bfloat16]
