"""Linear layers on prepared weights: oneDNN's packed layout, int8 or int4 on CPUs, plain matrices elsewhere."""

from __future__ import annotations

from typing import Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

Quantize = Literal["none", "int8", "int4"]  # how matrices are held beside the dtype of everything else


class Linear(Protocol):
    """y = x @ weight.T + bias for x: [rows, K]."""

    def __call__(self, x: Tensor) -> Tensor:
        """[rows, N]."""


class PlainLinear:
    """An ordinary matrix."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight = weight
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        """[rows, N]."""
        return F.linear(x, self._weight, self._bias)


class GeluLinear(PlainLinear):
    """An ordinary matrix with tanh-approximated GELU behind it."""

    def __call__(self, x: Tensor) -> Tensor:
        """[rows, N]."""
        return F.gelu(super().__call__(x), approximate="tanh")


class PackedLinear:
    """oneDNN's own weight layout, made once; 1.4 to 1.7 times the speed of F.linear at few rows.

    The call is the one that TorchInductor emits for frozen weights (torch/_inductor/mkldnn_lowerings.py).
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, *, gelu: bool = False) -> None:
        """gelu: its tanh approximation follows in the same pass."""
        self._weight: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, 8)
        self._bias = bias
        self._follows = ("gelu", "tanh") if gelu else ("none", "")

    def __call__(self, x: Tensor) -> Tensor:
        """[rows, N]."""
        name, way = self._follows
        result: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, name, [], way)
        return result


class Int8Linear:
    """int8 weights with a scale per row, activations as int8 with a scale per token, sums in int32 by oneDNN.

    Sums are exact and no scale is shared between rows of x, so a row does not depend on the others. The native step
    (omniflow/native) does it with a scale per token and 64 columns, which is nearer to full weights.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        steps, scales = _int8_rows(weight.float())
        self._weight = steps.t()
        self._scales = scales.t()
        self._bias = None if bias is None else bias.float()

    def __call__(self, x: Tensor) -> Tensor:
        """[rows, N]."""
        steps, scales = _int8_rows(x.float())
        product = torch._int_mm(steps, self._weight).float() * scales * self._scales
        return (product if self._bias is None else product + self._bias).to(x.dtype)


def _int8_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """[R, K] as int8 and the size of a step of each row, [R, 1]."""
    scales = rows.abs().amax(dim=-1, keepdim=True).clamp(min=1e-12) / 127
    return (rows / scales).round().to(torch.int8), scales


_GROUP = 32  # columns that share a scale and an offset
_LEVELS = 15  # steps between the least and the largest weight of a group


class Int4Linear:
    """torch's packed int4 weights with float activations: a scale and an offset per row and group of columns.

    w = (q - 8) * scale + offset with q from 0 to 15, between the least and the largest weight of each group.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        rows, columns = weight.shape
        groups = weight.float().view(rows, columns // _GROUP, _GROUP)
        least, largest = groups.aminmax(dim=-1, keepdim=True)
        scale = ((largest - least) / _LEVELS).clamp(min=1e-8)
        steps = ((groups - least) / scale).round().clamp(0, _LEVELS).to(torch.int32)
        offset = least + scale * 8
        self._weight: Tensor = torch.ops.aten._convert_weight_to_int4pack_for_cpu(steps.view(rows, columns), 1)
        self._scales = torch.cat((scale, offset), dim=-1).transpose(0, 1).to(weight.dtype).contiguous()
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        """[rows, N]."""
        product: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(x, self._weight, _GROUP, self._scales)
        return product if self._bias is None else product + self._bias


def takes_int4(weight: Tensor) -> bool:
    """Whether a weight [N, K] can be packed: on a CPU, N a multiple of 16, K of a group."""
    return weight.device.type == "cpu" and weight.shape[0] % 16 == 0 and weight.shape[1] % _GROUP == 0


# Below this size the weight sits in the cache and the layout does not matter; the plain call has less overhead.
_PACK_FROM_ELEMENTS = 64 * 1024


def pays_to_pack(weight: Tensor) -> bool:
    """Whether a weight is large, and oneDNN is there for its device and dtype."""
    known = weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.bfloat16)
    return known and weight.numel() >= _PACK_FROM_ELEMENTS and torch._C._has_mkldnn


def prepare(weight: Tensor, bias: Tensor | None, *, quantize: Quantize = "none") -> Linear:
    """The linear layer to use for a weight [N, K] where it lies, in its dtype, or in fewer bits where that can be."""
    if quantize == "int8":
        return Int8Linear(weight, bias)
    if quantize == "int4" and takes_int4(weight):
        return Int4Linear(weight, bias)
    if pays_to_pack(weight):
        return PackedLinear(weight, bias)
    return PlainLinear(weight, bias)


def prepare_gelu(weight: Tensor, bias: Tensor | None) -> Linear:
    """The same for a weight in its own dtype, with tanh-approximated GELU behind it."""
    return PackedLinear(weight, bias, gelu=True) if pays_to_pack(weight) else GeluLinear(weight, bias)
