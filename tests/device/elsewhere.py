"""A device that is not there: tensors that say they are on `cuda:0`, refuse to meet the CPU's, and compute on the CPU.

What an accelerator would refuse (two devices in one op, NumPy of its memory, a pointer) is refused here as well, and
what makes the host wait for it is counted. What it cannot show: kernels of its own, graphs and speed.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = "cuda:0"
aten = torch.ops.aten
GUARD = """
#include <c10/core/impl/DeviceGuardImplInterface.h>

struct Guard : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA> {
  c10::Device getDevice() const override { return c10::Device(c10::DeviceType::CUDA, 0); }
  c10::Device exchangeDevice(c10::Device) const override { return getDevice(); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};
C10_REGISTER_GUARD_IMPL(CUDA, Guard);
"""
CROSSES = {aten.copy_.default, aten._to_copy.default}  # ops that may see two devices
TAKES_INDEX = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default}  # indices may stay on the CPU
WAITS = {aten._local_scalar_dense.default, aten.nonzero.default, aten.masked_select.default, aten.equal.default}


class MixedDevices(RuntimeError):
    """An op met tensors of both devices, as no accelerator allows."""


class Elsewhere(Tensor):
    """A tensor on the device; `inner` holds its numbers."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> Elsewhere:
        made = Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            layout=inner.layout,
            device=DEVICE,
        )
        made.inner = inner
        return made

    def __init__(self, inner: Tensor) -> None:
        pass

    def tolist(self) -> Any:
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _compute(func, args, kwargs or {}, Counter())


class Device(TorchDispatchMode):
    """While it is entered, `cuda:0` can be used. `waits` counts by op how often the host had to wait for it."""

    _mode_key = torch._C._TorchDispatchModeKey.FAKE  # under which torch does not look for a real one

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _compute(func, args, kwargs or {}, self.waits)


@cache
def _build_guard() -> None:
    """Gives torch's CPU build the device guard that indexing on a device asks for; it guards nothing.

    Skips the test where there is no C++ compiler.
    """
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    torch_folder = Path(torch.__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "guard.cpp", Path(folder) / "guard.so"
        source.write_text(GUARD)
        flags = ["-O0", "-shared", "-fPIC", "-std=c++20", f"-I{torch_folder / 'include'}", f"-L{torch_folder / 'lib'}"]
        subprocess.run([compiler, *flags, str(source), "-o", str(library), "-lc10"], check=True)
        ctypes.CDLL(str(library))


@contextmanager
def elsewhere() -> Iterator[Device]:
    """`cuda:0` on a machine without one."""
    if not torch.cuda.is_available():
        _build_guard()
    there = patch.multiple(torch.cuda, is_available=lambda: True, device_count=lambda: 1)
    # Subclasses keep a version counter that inference mode does not give their numbers.
    plain = patch.multiple(torch.inference_mode, __enter__=lambda _: None, __exit__=lambda *_: None)
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)  # `torch.tensor` moves its numbers where this mode sees it
    try:
        with there, plain, torch.no_grad(), Device() as device:
            yield device
    finally:
        torch._C._set_only_lift_cpu_tensors(before)


def _compute(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], waits: Counter[str]) -> Any:
    tensors = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, Tensor)]
    there = [tensor for tensor in tensors if isinstance(tensor, Elsewhere)]
    _check(func, tensors, args)
    wanted = kwargs.get("device")
    goes = bool(there) if wanted is None else torch.device(wanted).type == "cuda"
    if there and (func in WAITS or not goes):
        waits[str(func)] += 1
    inner_args, inner_kwargs = tree_map(_inner, (tuple(args), dict(kwargs)))
    out = OWN_KERNELS.get(func, func)(*inner_args, **inner_kwargs)
    if func._schema.is_mutable:
        return _same(out, tensors)
    return tree_map(lambda leaf: Elsewhere(leaf) if isinstance(leaf, Tensor) else leaf, out) if goes else out


def _lstm_cell(
    from_input: Tensor, from_state: Tensor, cell: Tensor, bias: Tensor | None = None, bias_state: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """What an accelerator computes in one kernel, with the gates that a backward pass would need."""
    gates = from_input + from_state
    gates = gates if bias is None or bias_state is None else gates + bias + bias_state
    enters, keeps, new, leaves = gates.chunk(4, dim=1)
    cell = keeps.sigmoid() * cell + enters.sigmoid() * new.tanh()
    return leaves.sigmoid() * cell.tanh(), cell, gates


OWN_KERNELS = {aten._thnn_fused_lstm_cell.default: _lstm_cell}  # which the CPU does not have


def _check(func: Any, tensors: Sequence[Tensor], args: Sequence[Any]) -> None:
    """Errors: MixedDevices. A CPU tensor without axes counts as a number."""
    if func in CROSSES:
        return
    meeting = [args[0], *([args[2]] if len(args) > 2 else [])] if func in TAKES_INDEX else tensors
    kinds = {isinstance(tensor, Elsewhere) for tensor in meeting if tensor.dim() or isinstance(tensor, Elsewhere)}
    if len(kinds) > 1:
        raise MixedDevices(f"{func}: {[(tuple(t.shape), t.device.type) for t in tensors]}")
    if func in TAKES_INDEX and kinds == {False} and any(isinstance(tensor, Elsewhere) for tensor in tensors):
        raise MixedDevices(f"{func}: the index is on the device, what it reads is not")


def _inner(leaf: Any) -> Any:
    if isinstance(leaf, Elsewhere):
        return leaf.inner
    return torch.device("cpu") if isinstance(leaf, torch.device) else leaf


def _same(out: Any, tensors: Sequence[Tensor]) -> Any:
    """Results of an op that writes: the tensors it wrote, as its caller holds them."""
    held = {id(_inner(tensor)): tensor for tensor in tensors}
    return tree_map(lambda leaf: held.get(id(leaf), leaf), out)
