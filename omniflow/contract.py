"""Holds what a schedule says of an expert against the module that was loaded for it.

The compiler believes an expert's signature; here a lie comes out, before a request meets it. What an expert can tell of
itself is compared at once; what it does is tried with a few zeros, on whatever device its weights are, the `meta`
device included, where nothing is computed and shapes are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from omniflow.loops.chunk_rollout import ACTIONS
from omniflow.roles import ChunkRow, DecoderRows, Embedder
from omniflow.values import dtype_of, is_starred
from omniflow_compiler.schedule import Expert, Node, Place, PortType, Schedule
from omniflow_compiler.sizes import parse_size

TRIED = 6  # elements of an axis whose length a request decides
CANNOT_TELL = (ValueError, RuntimeError, IndexError, NotImplementedError, AttributeError, TypeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing in which a module is not what the schedule says; `place` is that of the component in its card."""

    place: Place
    component: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: component {self.component}: {self.message}"


@runtime_checkable
class _HasVocabulary(Protocol):
    vocab_size: int


def contract_faults(schedule: Schedule, experts: Mapping[str, Any], *, tries: bool = True) -> list[Fault]:
    """All faults of all experts of a schedule, in its order. tries: also run each expert once on a few zeros."""
    faults: list[Fault] = []
    seen: set[tuple[str, str]] = set()
    for spec in schedule.experts:
        faults += number_faults(spec, experts[spec.name])
    specs = {spec.name: spec for spec in schedule.experts}
    for node in schedule.nodes:
        if node.kind != "loop" or node.expert is None or (node.expert, node.name) in seen:
            continue
        seen.add((node.expert, node.name))
        faults += port_faults(specs[node.expert], node, experts[node.expert], tries=tries)
    return list(dict.fromkeys(faults))


def number_faults(spec: Expert, expert: Any) -> list[Fault]:
    """What an expert tells of itself: its vocabulary, the dtype and the device of its weights."""
    return [Fault(place=spec.place, component=spec.name, message=m) for m in _number_faults(spec, expert)]


def _number_faults(spec: Expert, expert: Any) -> Iterator[str]:
    declared = spec.sizes.get("vocabulary")
    if declared is not None and isinstance(expert, _HasVocabulary) and expert.vocab_size > declared:
        yield f"it emits ids up to {expert.vocab_size - 1}, its signature says {declared} ids"
    weights = [tensor for tensor in weights_of(expert) if tensor.is_floating_point()]
    dtypes = sorted({str(tensor.dtype).removeprefix("torch.") for tensor in weights})
    if dtypes and spec.dtype not in dtypes:
        yield f"its weights are {' and '.join(dtypes)}, the card says {spec.dtype}"
    devices = sorted({tensor.device.type for tensor in weights} - {"meta"})
    if devices and torch.device(spec.device).type not in devices:
        yield f"its weights are on {' and '.join(devices)}, the card says {spec.device}"


def weights_of(expert: Any) -> list[Tensor]:
    """The tensors that an expert holds, itself or in the modules and experts it is made of."""
    found: list[Tensor] = []
    stack, seen = [(expert, 0)], {id(expert)}
    while stack:
        value, depth = stack.pop()
        if isinstance(value, Tensor):
            found.append(value)
            continue
        if isinstance(value, nn.Module):
            found += value.parameters()
        elif depth < 3 and type(value).__module__.partition(".")[0] == "omniflow":
            parts = [part for part in _attributes(value) if id(part) not in seen]
            seen |= {id(part) for part in parts}
            stack += [(part, depth + 1) for part in parts]
    return found


def _attributes(value: Any) -> list[Any]:
    names = [name for kind in type(value).__mro__ for name in kind.__dict__.get("__slots__", ())]
    slots = [object.__getattribute__(value, name) for name in names if name in dir(value) and hasattr(value, name)]
    return [*slots, *(vars(value).values() if hasattr(value, "__dict__") else ())]


def port_faults(spec: Expert, node: Node, expert: Any, *, tries: bool = True) -> list[Fault]:
    """What a loop's ports say against what the expert gives for a few zeros at its inputs."""
    trial = _Trial(node, expert)
    checks = _TRIALS.get(node.name)
    messages = [
        *_prompt_faults(spec, node, expert),
        *_choice_faults(spec, node, expert),
        *_embedding_faults(node, expert),
    ]
    if tries and checks is not None:
        try:
            with torch.inference_mode():
                messages += checks(trial)
        except KeyError as error:
            messages.append(f"it reads {error}, which is no port of {node.name}")
        except CANNOT_TELL:
            pass  # zeros are nothing this expert can work on, so they tell nothing
    return [Fault(place=spec.place, component=spec.name, message=message) for message in messages]


def _prompt_faults(spec: Expert, node: Node, expert: Any) -> Iterator[str]:
    """Ids that its signature lets in as a prompt and that it does not know."""
    declared = spec.sizes.get("vocabulary")
    if node.name != "ar_decode" or declared is None or not isinstance(expert, _HasVocabulary):
        return
    if expert.vocab_size < declared and any(port.name == "prompt" for port in node.inputs):
        yield f"it knows {expert.vocab_size} ids, its signature says {declared}"


def _choice_faults(spec: Expert, node: Node, expert: Any) -> Iterator[str]:
    """Ids that may come by its port, or of its vocabulary where others can be forced upon it, that it cannot choose."""
    if node.name != "ar_decode" or not isinstance(expert, _HasVocabulary):
        return
    is_forced = any(port.name == "forced" for port in node.inputs)
    written = next((port.type.vocabulary for port in node.outputs if port.name == "tokens"), None)
    said = spec.sizes.get("vocabulary") if is_forced else written
    if said is not None and expert.vocab_size < said:
        yield f"it chooses among {expert.vocab_size} ids, its {'signature' if is_forced else 'port tokens'} says {said}"


def _embedding_faults(node: Node, expert: Any) -> Iterator[str]:
    """Rows that an expert makes of ids against those its ports carry."""
    if node.name != "ar_decode" or node.inner is not None or not isinstance(expert, Embedder):
        return
    try:
        row = expert.embed(torch.zeros(1, dtype=torch.int64, device=_device_of(expert)))
    except CANNOT_TELL:
        return
    for port in (*node.inputs, *node.outputs):
        if port.name in ("prompt_embeds", "embeds"):
            yield from _value_faults(port.name, _item(port.type), row, {})


class _Trial:
    """Zeros for the inputs of a node, and the lengths they were given."""

    def __init__(self, node: Node, expert: Any) -> None:
        self.node = node
        self.expert = expert
        self.device = _device_of(expert)
        self.lengths: dict[str, Fraction] = {}
        self.outputs = {port.name: _item(port.type) for port in node.outputs}

    def inputs(self) -> dict[str, Any]:
        """A value for each input: zeros, an empty text."""
        return {port.name: self.zeros(_item(port.type)) for port in self.node.inputs}

    def zeros(self, kind: PortType) -> Any:
        """A value of the type."""
        if kind.base in ("text", "json", "record", "scalar", "kv"):
            return "" if kind.base == "text" else None
        shape = [self.size(axis) for axis in kind.axes]
        return torch.zeros(shape, dtype=dtype_of(kind), device=self.device)

    def size(self, axis: str) -> int:
        """An axis' elements; each length that a request decides is `TRIED`."""
        size = parse_size(axis.removesuffix("*"))
        for symbol in size.symbols:
            self.lengths.setdefault(symbol, Fraction(TRIED))
        return max(0, int(size.evaluate(self.lengths.__getitem__)))


def _encoded(trial: _Trial) -> list[str]:
    given = trial.expert.encode([trial.inputs()])[0]
    missing = [f"it gives no {name}" for name in trial.outputs if name not in given]
    return missing + [
        message
        for name, kind in trial.outputs.items()
        if name in given
        for message in _value_faults(name, kind, given[name], trial.lengths)
    ]


def _decoded(trial: _Trial) -> list[str]:
    frames = trial.inputs()
    generator = torch.Generator().manual_seed(0)
    row = DecoderRows(
        state=trial.expert.open(generator=generator), frames=frames, left=0, new=TRIED, right=0, is_last=True
    )
    ((name, kind),) = trial.outputs.items()
    return list(_value_faults(name, kind, trial.expert.decode([row])[0], trial.lengths))


def _painted(trial: _Trial) -> list[str]:
    (latent,) = trial.inputs().values()
    ((name, kind),) = trial.outputs.items()
    return list(_value_faults(name, kind, trial.expert.decode_tiles([latent])[0], trial.lengths))


def _denoised(trial: _Trial) -> list[str]:
    given = trial.expert.initial(trial.inputs(), generator=torch.Generator().manual_seed(0))
    latents = given if isinstance(given, Mapping) else {next(iter(trial.outputs)): given}
    return [
        message
        for name, value in latents.items()
        for message in (
            _value_faults(name, trial.outputs[name], value, trial.lengths)
            if name in trial.outputs
            else [f"it gives {name}, which is no port of {trial.node.name}"]
        )
    ]


def _rolled(trial: _Trial) -> list[str]:
    given = trial.inputs()
    actions = given.pop(ACTIONS, None)
    latent = trial.expert.initial(given, generator=torch.Generator().manual_seed(0))
    row = ChunkRow(latent, 0.0, (), 0, given, None if actions is None else actions[0])
    (kept,) = trial.expert.keep([row._replace(time=1.0)])
    (velocity,) = trial.expert.velocity([row._replace(past=(kept,), number=1)])
    ((name, kind),) = trial.outputs.items()
    return list(_value_faults(name, kind, velocity, trial.lengths))


_TRIALS = {
    "encode": _encoded,
    "audio_decode": _decoded,
    "vae_tile": _painted,
    "diffusion_denoise": _denoised,
    "chunk_rollout": _rolled,
}


def _item(kind: PortType) -> PortType:
    """The type of one item of a stream of items."""
    return replace(kind, axes=kind.axes[1:]) if is_starred(kind) else kind


def _value_faults(port: str, kind: PortType, value: Any, lengths: Mapping[str, Fraction]) -> Iterator[str]:
    """What is wrong with a tensor that should be of the type; lengths that nothing told may be anything, once."""
    if not isinstance(value, Tensor):
        if kind.base not in ("text", "json", "record", "scalar", "kv"):
            yield f"{port} is a {type(value).__name__}, its port says {kind.text}"
        return
    if value.dtype != dtype_of(kind) and value.is_floating_point() != dtype_of(kind).is_floating_point:
        yield f"{port} is {str(value.dtype).removeprefix('torch.')}, its port says {kind.text}"
    if value.ndim != len(kind.axes):
        yield f"{port} has shape {list(value.shape)}, its port says {kind.text}"
        return
    known = dict(lengths)
    for axis, found in zip(kind.axes, value.shape, strict=True):
        expected = _expected(axis, found, known)
        if expected is not None and expected != found:
            yield f"{port} has shape {list(value.shape)}, its port says {kind.text}: {expected} elements, not {found}"


def _expected(axis: str, found: int, known: dict[str, Fraction]) -> Fraction | None:
    """The size an axis must have; one length that is not known yet is taken from what was found."""
    size = parse_size(axis)
    open_symbols = [symbol for symbol in size.symbols if symbol not in known]
    if len(open_symbols) > 1:
        return None
    for symbol in open_symbols:
        factor = dict(size.terms)[symbol]
        rest = size.constant + sum((f * known[s] for s, f in size.terms if s != symbol), Fraction(0))
        known[symbol] = (found - rest) / factor
        if known[symbol].denominator != 1:
            return factor * round(known[symbol]) + rest
    return size.evaluate(known.__getitem__)


def _device_of(expert: Any) -> torch.device:
    weights = weights_of(expert)
    return weights[0].device if weights else torch.device("cpu")


__all__: Sequence[str] = ["Fault", "contract_faults", "number_faults", "port_faults", "weights_of"]
