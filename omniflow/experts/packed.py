"""Linear layers of a module on weights as oneDNN lays them out: faster, and no row depends on how many there are.

An ordinary matrix product may round a row differently when there are more rows. oneDNN's product over prepared weights
adds a row's terms up in one order at any height but one, so rows of many requests go through these layers as one.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from omniflow.experts.lean import linear


class PackedLinear(nn.Module):
    """nn.Linear for inference on a CPU, with tanh-approximated GELU behind it or not: x [..., K] to [..., N]."""

    def __init__(self, layer: nn.Linear, *, gelu: bool = False) -> None:
        super().__init__()
        self.columns = layer.in_features
        self.weight = nn.Parameter(layer.weight.new_empty(0), requires_grad=False)  # which models ask for their dtype
        self._product = linear.PackedLinear(layer.weight.detach(), layer.bias, gelu=gelu)

    def forward(self, x: Tensor) -> Tensor:
        """[..., N]. A single row has a twin beside it: alone it would be summed in another order."""
        if x.numel() == self.columns:
            twins = x.reshape(1, -1).expand(2, -1).contiguous()
            return self._product(twins)[:1].view(*x.shape[:-1], -1)
        return self._product(x)


def packs(layer: nn.Linear) -> bool:
    """Whether it pays and can be done: a large weight in float32 or bfloat16, on a CPU with oneDNN."""
    return linear.pays_to_pack(layer.weight)


def pack_linears(module: nn.Module) -> nn.Module:
    """The module with every nn.Linear packed that can be; layers that share a weight share the packed one."""
    made: dict[int, PackedLinear] = {}
    for name, child in list(module.named_modules(remove_duplicate=False)):
        if type(child) is nn.Linear and packs(child):
            key = id(child.weight)
            made[key] = made.get(key) or PackedLinear(child)
            module.set_submodule(name, made[key])
    return module


def pack_feed_forward(part: Any) -> None:
    """The FeedForward of diffusers with its first layer and the GELU behind it in one pass, where that is packed."""
    if packs(part.net[0].proj):
        part.net[0] = PackedLinear(part.net[0].proj, gelu=True)
