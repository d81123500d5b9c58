"""Linear layers of a module on weights as oneDNN lays them out: faster, and no row depends on how many there are.

An ordinary matrix product may round a row differently when there are more rows. oneDNN's product over prepared weights
adds a row's terms up in one order at any height but one, so rows of many requests go through these layers as one.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

_ROWS = 64  # for which the layout is chosen
_LEAST = 64 * 1024  # elements; a smaller weight lies in the processor's cache in any layout
Activation = Literal["none", "gelu_tanh"]


class PackedLinear(nn.Module):
    """nn.Linear for inference on a CPU, and what follows it: y = act(x @ weight.T + bias), x [..., K], y [..., N].

    The call is the one that TorchInductor emits for frozen weights (torch/_inductor/mkldnn_lowerings.py).
    """

    weight: Tensor

    def __init__(self, linear: nn.Linear, activation: Activation = "none") -> None:
        super().__init__()
        self.columns = linear.in_features
        weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), _ROWS)
        self.register_buffer("weight", weight, persistent=False)
        self.bias = linear.bias
        self._act, self._way = ("gelu", "tanh") if activation == "gelu_tanh" else ("none", "")

    def forward(self, x: Tensor) -> Tensor:
        """[..., N]. A single row has a twin beside it: alone it would be summed in another order."""
        if x.numel() == self.columns:
            twins = x.reshape(1, -1).expand(2, -1).contiguous()
            return self._product(twins)[:1].view(*x.shape[:-1], -1)
        return self._product(x)

    def _product(self, x: Tensor) -> Tensor:
        found: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, self._act, [], self._way)
        return found


def packs(linear: nn.Linear) -> bool:
    """Whether it pays and can be done: a large weight in float32 or bfloat16, on a CPU with oneDNN."""
    weight = linear.weight
    known = weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.bfloat16)
    return known and weight.numel() >= _LEAST and torch.backends.mkldnn.is_available()


def pack_linears(module: nn.Module) -> nn.Module:
    """The module with every nn.Linear packed that can be; layers that share a weight share the packed one."""
    made: dict[int, PackedLinear] = {}
    for name, child in list(module.named_modules(remove_duplicate=False)):
        if type(child) is nn.Linear and packs(child):
            module.set_submodule(name, made.setdefault(id(child.weight), PackedLinear(child)))
    return module


def is_packed(module: nn.Module) -> bool:
    """Whether all matrix products of a module are packed, so that rows may go through it together."""
    parts = list(module.modules())
    products = any(isinstance(part, PackedLinear) for part in parts)
    return products and not any(isinstance(part, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d) for part in parts)
