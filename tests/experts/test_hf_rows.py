"""Rows are kept apart where a layer is not packed, and only there."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from omniflow.experts.hf_rows import RowByRow, keep_rows_apart
from omniflow.experts.packed import PackedLinear, pack_linears

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this build of torch has no oneDNN")


def test_rows_go_one_by_one_through_what_is_not_packed() -> None:
    small = nn.Sequential(nn.Linear(16, 16), nn.SiLU())
    mixed = nn.Sequential(nn.Linear(16, 512), nn.SiLU(), nn.Linear(512, 512))
    module = nn.ModuleDict({"small": small, "mixed": mixed, "other": nn.Linear(16, 16)})
    keep_rows_apart(pack_linears(module), lambda name: name in ("small", "mixed"), torch.device("cpu"))
    assert isinstance(module["small"], RowByRow)
    assert [type(part) for part in mixed] == [RowByRow, nn.SiLU, PackedLinear]
    assert type(module["other"]) is nn.Linear
    x = torch.randn(5, 16)
    with torch.inference_mode():
        for part in (module["small"], mixed):
            assert torch.equal(part(x)[3:], torch.cat([part(x[3:4]), part(x[4:])]))
