"""Accounts for a schedule: for every node why it is there, where it runs, what it costs and what memory it holds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from omniflow_compiler.schedule import Buffer, Channel, Memory, Node, Output, Place, Schedule, UnitTemplate

MAX_PATH = 24
MAX_NAMED = 6  # nodes named as sharing an expert or a cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """An output that needs the node, and a shortest path to it: ids of nodes, this one first.

    Of a path longer than `MAX_PATH` only its beginning is there; `hops` is its whole length.
    """

    output: str
    path: tuple[str, ...]
    hops: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """A port of the node with its type and the other ends of its edges: `source -> port`, `port ~> target`."""

    port: str
    type: str
    ends: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Memory that the node uses. `note` says how long, or with whom."""

    kind: str
    name: str
    bytes: int
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """A node that it streams from and that still runs when it starts: for that many seconds."""

    node: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAccount:
    """Everything a person may ask of one node."""

    id: str
    what: str
    place: Place
    why: tuple[Reason, ...]
    each: bool
    when: str | None
    attributes: Mapping[str, object]
    expert: str | None
    runs_on: str
    units: tuple[UnitTemplate, ...]
    seconds: float
    share: float  # of the work of all nodes
    starts_at: float
    ends_at: float
    is_critical: bool
    overlaps: tuple[Overlap, ...]
    memory: tuple[Share, ...]
    inputs: tuple[Wire, ...]
    outputs: tuple[Wire, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstPiece:
    """When the first piece of an output can be there."""

    output: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A whole schedule: `work` is the sum over all nodes, `least` the time when everything that can overlap does."""

    program: str
    card: str
    schedule: str
    work: float
    least: float
    first: tuple[FirstPiece, ...]
    critical_path: tuple[str, ...]
    memory: tuple[Memory, ...]
    lengths: Mapping[str, int]
    assumed: tuple[str, ...]
    nodes: tuple[NodeAccount, ...]


def account_for(schedule: Schedule) -> Account:
    """The account of a schedule."""
    books = _Books(schedule)
    return Account(
        program=schedule.program,
        card=schedule.card,
        schedule=schedule.content_hash,
        work=books.work,
        least=schedule.critical_seconds,
        first=tuple(books.first(output) for output in schedule.outputs),
        critical_path=schedule.critical_path,
        memory=schedule.memory,
        lengths=schedule.lengths,
        assumed=schedule.assumed,
        nodes=tuple(books.node(node) for node in schedule.nodes),
    )


def work_of(node: Node) -> float:
    """Seconds of all units of a node."""
    return sum(unit.expected * unit.seconds for unit in node.units)


class _Books:
    """Look-ups over a schedule."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.nodes = {node.id: node for node in schedule.nodes}
        self.experts = {expert.name: expert for expert in schedule.experts}
        self.work = sum(work_of(node) for node in schedule.nodes)
        self.incoming: dict[str, list[Channel]] = {node.id: [] for node in schedule.nodes}
        self.outgoing: dict[str, list[Channel]] = {}
        self.users: dict[str, list[str]] = {}
        self.buffers: dict[str, list[Buffer]] = {}
        for buffer in schedule.buffers:
            self.buffers.setdefault(_node_of(buffer.port), []).append(buffer)
        for channel in schedule.channels:
            self.incoming[channel.node].append(channel)
            self.outgoing.setdefault(channel.source, []).append(channel)
        for node in schedule.nodes:
            for name in _held(node):
                self.users.setdefault(name, []).append(node.id)
        self.towards = {output.name: self._towards(output) for output in schedule.outputs}
        self.critical = frozenset(schedule.critical_path)

    def _towards(self, output: Output) -> dict[str, tuple[str, int]]:
        """For every node that the output needs, the next one on a shortest path to it and that path's length."""
        after = {output.node: ("", 1)}
        queue = deque([output.node])
        while queue:
            name = queue.popleft()
            for channel in self.incoming[name]:
                source = _node_of(channel.source)
                if source in self.nodes and source not in after and channel.back_edge is None:
                    after[source] = name, after[name][1] + 1
                    queue.append(source)
        return after

    def first(self, output: Output) -> FirstPiece:
        node = self.nodes[output.node]
        first = node.starts_at + sum(unit.seconds for unit in node.units)
        return FirstPiece(output=output.name, seconds=min(first, node.ends_at) if output.streams else node.ends_at)

    def node(self, node: Node) -> NodeAccount:
        expert = self.experts.get(node.expert or "")
        seconds = work_of(node)
        return NodeAccount(
            id=node.id,
            what=_what(node),
            place=node.place,
            why=tuple(self._why(node)),
            each=node.each,
            when=node.when,
            attributes=node.attributes,
            expert=node.expert,
            runs_on="cpu" if expert is None else expert.device,
            units=node.units,
            seconds=seconds,
            share=seconds / self.work if self.work else 0.0,
            starts_at=node.starts_at,
            ends_at=node.ends_at,
            is_critical=node.id in self.critical,
            overlaps=tuple(self._overlaps(node)),
            memory=tuple(self._memory(node)),
            inputs=tuple(self._inputs(node)),
            outputs=tuple(self._outputs(node)),
        )

    def _why(self, node: Node) -> Iterator[Reason]:
        for output, after in self.towards.items():
            if node.id in after:
                path = [node.id]
                while after[path[-1]][0] and len(path) < MAX_PATH:
                    path.append(after[path[-1]][0])
                yield Reason(output=output, path=tuple(path), hops=after[node.id][1])

    def _overlaps(self, node: Node) -> Iterator[Overlap]:
        sources = {_node_of(c.source) for c in self.incoming[node.id] if c.streams and c.back_edge is None}
        for name in sorted(sources & self.nodes.keys()):
            seconds = min(self.nodes[name].ends_at, node.ends_at) - node.starts_at
            if seconds > 0:
                yield Overlap(node=name, seconds=seconds)

    def _memory(self, node: Node) -> Iterator[Share]:
        for name in _experts(node):
            expert = self.experts[name]
            if expert.weight_bytes:
                kind = f"weights, {expert.dtype}"
                yield Share(kind=kind, name=name, bytes=expert.weight_bytes, note=self._shared(node, f"expert {name}"))
        for cache in self.schedule.caches:
            if f"cache {cache.name}" in _held(node):
                note = self._shared(node, f"cache {cache.name}")
                yield Share(kind="cache", name=cache.name, bytes=cache.max_bytes, note=note)
        if node.state_bytes:
            note = "of all its items in work" if node.each else "keys and values of its own"
            yield Share(kind="state", name=node.id, bytes=node.state_bytes, note=note)
        for buffer in self.buffers.get(node.id, ()):
            last = self.schedule.nodes[buffer.last_use].id
            note = f"from {node.id} to {last}" if last != node.id else "to the end"
            yield Share(kind="buffer", name=buffer.port, bytes=buffer.bytes, note=note)
        for channel in self.incoming[node.id]:
            if channel.bytes:
                note = f"capacity {channel.capacity}"
                yield Share(kind="channel", name=channel.id, bytes=channel.bytes, note=note)

    def _shared(self, node: Node, held: str) -> str:
        users = self.users[held]
        others = [name for name in users[: MAX_NAMED + 1] if name != node.id][:MAX_NAMED]
        more = len(users) - 1 - len(others)
        shown = ", ".join(others) + (f" and {more} more" if more else "")
        return f"shared with {shown}" if others else ""

    def _inputs(self, node: Node) -> Iterator[Wire]:
        for port in node.inputs:
            mine = [c for c in self.incoming[node.id] if c.port == port.name]
            ends = tuple(f"{c.source} {'~>' if c.streams else '->'}" for c in mine)
            yield Wire(port=port.name, type=port.type.text, ends=ends)

    def _outputs(self, node: Node) -> Iterator[Wire]:
        for port in node.outputs:
            name = f"{node.id}.{port.name}"
            ends = [f"{'~>' if c.streams else '->'} {c.node}.{c.port}" for c in self.outgoing.get(name, ())]
            ends += [f"= output {o.name}" for o in self.schedule.outputs if (o.node, o.port) == (node.id, port.name)]
            yield Wire(port=port.name, type=port.type.text, ends=tuple(ends))


def _node_of(port: str) -> str:
    return port.rpartition(".")[0]


def _experts(node: Node) -> list[str]:
    names = [] if node.expert is None else [node.expert]
    return names if node.inner is None else [*names, node.inner.expert]


def _held(node: Node) -> list[str]:
    """What it uses that other nodes may use too."""
    held = [f"expert {name}" for name in _experts(node)]
    held += [f"cache {cache}" for cache in (node.cache, node.inner and node.inner.cache) if cache]
    return held


def _what(node: Node) -> str:
    what = f"op {node.name}" if node.kind == "op" else f"loop {node.loop} ({node.name})"
    return what if node.inner is None else f"{what} around loop {node.inner.loop}"
