"""Finished values: what each weighs, between which nodes it lives, and which of them may share a place in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from omniflow_compiler.graph import ProgramGraph
from omniflow_compiler.passes.lengths import Lengths
from omniflow_compiler.passes.types import Types
from omniflow_compiler.schedule import Buffer


def live_buffers(graph: ProgramGraph, types: Types, order: Sequence[str], lengths: Lengths) -> Iterator[Buffer]:
    """The program's inputs that are read, then the values of each node that are kept for a reader or the client."""
    position = {name: i for i, name in enumerate(order)}
    inputs: dict[str, int] = {}
    for name in order:
        for edge in graph.incoming[name]:
            if edge.source_node is None:
                inputs[edge.spec.source.port] = position[name]
    for port, use in sorted(inputs.items()):
        yield Buffer(port=port, bytes=lengths.bytes(graph.inputs[port]), first_use=0, last_use=use)
    kept = {(output.ref.node, output.ref.port) for output in graph.program.outputs.values()}
    for name in order:
        uses: dict[str, int] = {}
        for edge in graph.outgoing[name]:
            if not edge.spec.streams and edge.target_node in position:
                port = edge.spec.source.port
                uses[port] = max(uses.get(port, 0), position[edge.target_node])
        for port in graph.nodes[name].outputs:
            if (name, port) in kept:
                uses[port] = len(order) - 1
        for port, use in sorted(uses.items()):
            type = types.outputs.get((name, port))
            if type is not None:
                yield Buffer(port=f"{name}.{port}", bytes=lengths.bytes(type), first_use=position[name], last_use=use)


@dataclass(slots=True)
class Slot:
    """A place that buffers take one after another: as large as the largest, which also names it."""

    device: str
    name: str
    bytes: int


@dataclass(slots=True)
class Places:
    """All slots of a plan, and per device the position at which the last one was made or grew."""

    slots: list[Slot] = field(default_factory=list)
    at: dict[str, int] = field(default_factory=dict)


def share_places(
    graph: ProgramGraph, order: Sequence[str], buffers: Iterable[Buffer], device_of: Mapping[str, str]
) -> Places:
    """Slots that are enough whatever the order in which nodes really run.

    A buffer that one node alone reads is gone when that node ends, and what waits for a value of that node starts only
    then: its slot is handed down that way, to one heir. Other buffers keep theirs to the end.
    """
    places = Places()
    position = {name: i for i, name in enumerate(order)}
    readers = _sole_readers(graph, position)
    made: dict[str, list[Buffer]] = {}
    ended: dict[str, list[Slot]] = {}  # by the node whose end frees them
    inherited: dict[str, list[Slot]] = {}
    for buffer in buffers:
        made.setdefault(buffer.port.rpartition(".")[0], []).append(buffer)
    for name in ("", *order):
        free = inherited.pop(name, [])
        for buffer in made.get(name, ()):
            slot = _take(buffer, device_of.get(name, "cpu"), free, places, position.get(name, 0))
            reader = readers.get(buffer.port)
            if reader is not None:
                ended.setdefault(reader, []).append(slot)
        if name:
            _hand_down(name, free, ended.pop(name, []), graph, position, inherited)
    return places


def _sole_readers(graph: ProgramGraph, position: Mapping[str, int]) -> dict[str, str]:
    """The reader of each port that one node alone reads, as a finished value, and the client does not."""
    counts: Counter[str] = Counter(str(output.ref) for output in graph.program.outputs.values())
    reader: dict[str, str] = {}
    for name in position:
        for edge in graph.incoming[name]:
            counts[str(edge.spec.source)] += 1
            if not edge.spec.streams:
                reader[str(edge.spec.source)] = name
    return {port: name for port, name in reader.items() if counts[port] == 1}


def _take(buffer: Buffer, device: str, free: list[Slot], places: Places, at: int) -> Slot:
    """The free slot that fits best, grown if need be; a new one when none is free."""
    fitting = [slot for slot in free if slot.device == device]
    if not fitting:
        slot = Slot(device, buffer.port, buffer.bytes)
        places.slots.append(slot)
        places.at[device] = at
        return slot
    large = [slot for slot in fitting if slot.bytes >= buffer.bytes]
    slot = min(large, key=lambda s: s.bytes) if large else max(fitting, key=lambda s: s.bytes)
    free.remove(slot)
    if slot.bytes < buffer.bytes:
        slot.name, slot.bytes = buffer.port, buffer.bytes
        places.at[device] = at
    return slot


def _hand_down(
    name: str,
    free: list[Slot],
    ended: list[Slot],
    graph: ProgramGraph,
    position: Mapping[str, int],
    inherited: dict[str, list[Slot]],
) -> None:
    after = [edge for edge in graph.outgoing[name] if edge.target_node in position and not edge.is_back]
    for slots, heirs in ((free, after), (ended, [edge for edge in after if not edge.spec.streams])):
        if slots and heirs:
            heir = min((edge.target_node for edge in heirs), key=position.__getitem__)
            inherited.setdefault(heir, []).extend(slots)
