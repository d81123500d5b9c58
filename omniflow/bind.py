"""Binds a schedule to experts: loads what it names, once per process, and checks that it fits before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omniflow.contract import contract_faults
from omniflow.errors import BindError, InputError
from omniflow.loaders import cache_of, load_expert
from omniflow.loops.ar_decode import ARDecode
from omniflow.loops.audio_decode import AudioDecode
from omniflow.loops.base import Loop
from omniflow.loops.chunk_rollout import ChunkRollout
from omniflow.loops.diffusion_denoise import DiffusionDenoise
from omniflow.loops.encode import Encode
from omniflow.loops.inner import NestedDecode
from omniflow.loops.op import RunOp
from omniflow.loops.score import Score
from omniflow.loops.vae_tile import VaeTile
from omniflow.node import BoundNode, starred_ports
from omniflow.ops.table import OPS
from omniflow.pool import Pools
from omniflow.roles import TurnTokenizer
from omniflow.stores import Stores, make_stores
from omniflow.vocabulary import attributes_of, outside
from omniflow_compiler.schedule import Channel, Node, Schedule

PREFILL_CHUNK = 64

NEEDS: Mapping[str, tuple[str, ...]] = {  # what a loop kind calls of its expert (omniflow.roles)
    "ar_decode": ("vocab_size", "start_ids", "open", "step", "close"),
    "score": ("vocab_size", "open", "step", "close"),
    "encode": ("encode",),
    "audio_decode": ("open", "decode"),
    "diffusion_denoise": ("initial", "velocity"),
    "chunk_rollout": ("initial", "velocity", "keep"),
    "vae_tile": ("scale", "decode_tiles"),
}

LOOPS: Mapping[str, Callable[[Node, Any], Loop[Any]]] = {  # kinds that need nothing but their expert
    "audio_decode": AudioDecode,
    "chunk_rollout": ChunkRollout,
    "diffusion_denoise": DiffusionDenoise,
    "vae_tile": VaeTile,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A schedule with everything that its nodes run on."""

    schedule: Schedule
    nodes: tuple[BoundNode, ...]
    experts: Mapping[str, Any]
    stores: Stores
    pools: Pools
    leading: Mapping[str, int]  # by output: the nodes that lead to it, as bits
    vocabularies: Mapping[str, int]  # of experts that choose ids, by component


def bind(schedule: Schedule, given: Mapping[str, Any] | None = None) -> Bound:
    """Loads the experts that the schedule names, except those `given` by component name.

    Errors: BindError, with the YAML place of the component or node.
    """
    experts = dict(given or {})
    for spec in schedule.experts:
        if spec.name not in experts:
            experts[spec.name] = load_expert(spec, cache_of(spec, schedule))
    faults = [f for f in contract_faults(schedule, experts, tries=False) if f.component not in (given or {})]
    if faults:
        raise BindError("; ".join(map(str, faults)))
    stores = make_stores(schedule, experts)
    downstream = _downstream(schedule)
    late = _late(schedule, downstream)
    nodes = tuple(
        _bind_node(i, downstream[node.id], node, schedule, experts, stores, is_early=not late >> i & 1)
        for i, node in enumerate(schedule.nodes)
    )
    vocabularies = {name: pool.expert.vocab_size for name, pool in stores.pools.items()}
    _check_ids(schedule, vocabularies)
    return Bound(
        schedule=schedule,
        nodes=nodes,
        experts=experts,
        stores=stores,
        pools=Pools(stores.pools.values()),
        leading={output.name: _leading(nodes, output.node) for output in schedule.outputs},
        vocabularies=vocabularies,
    )


def check_loops(bound: Bound, own: Mapping[str, Mapping[str, Any]]) -> None:
    """Asks the loops whether they could run with a request's attributes, by node. Errors: InputError."""
    for node in bound.nodes if own else ():
        mine = own.get(node.spec.id)
        if mine:
            try:
                node.loop.check({**node.spec.attributes, **mine})
            except ValueError as error:
                names = ", ".join(f"{node.spec.id}.{name}" for name in mine)
                raise InputError(f"param {names}: {error} ({node.spec.place} has the node)") from None


def _downstream(schedule: Schedule) -> dict[str, int]:
    """The nodes behind each node, as bits by position."""
    bits = {node.id: 1 << i for i, node in enumerate(schedule.nodes)}
    behind = dict.fromkeys(bits, 0)
    readers: dict[str, list[str]] = {}
    for channel in schedule.channels:
        if channel.back_edge is None:
            readers.setdefault(channel.source.rpartition(".")[0], []).append(channel.node)
    for node in reversed(schedule.nodes):
        for reader in readers.get(node.id, ()):
            behind[node.id] |= bits[reader] | behind[reader]
    return behind


def _check_ids(schedule: Schedule, vocabularies: Mapping[str, int]) -> None:
    """Errors: BindError for a loop's attribute that names an id beyond what its expert knows."""
    for node in schedule.nodes:
        for called, name, value, expert in attributes_of(node):
            problem = outside(name, value, expert, vocabularies.get(expert))
            if problem is not None:
                raise BindError(f"{node.place}: node {node.id}: {called} {problem}")


def _late(schedule: Schedule, downstream: Mapping[str, int]) -> int:
    """The nodes that a loop comes before which is no encoder, or a back edge, as bits."""
    fed_back = {channel.node for channel in schedule.channels if channel.back_edge is not None}
    late = 0
    for i, node in enumerate(schedule.nodes):
        if node.kind == "loop" and node.name != "encode":
            late |= downstream[node.id]
        if node.id in fed_back:
            late |= downstream[node.id] | 1 << i
    return late


def _leading(nodes: Sequence[BoundNode], node_id: str) -> int:
    """The nodes that lead to one, itself among them, as bits."""
    bit = next(1 << node.index for node in nodes if node.spec.id == node_id)
    return bit | sum(1 << node.index for node in nodes if node.downstream & bit)


def _bind_node(
    index: int,
    downstream: int,
    node: Node,
    schedule: Schedule,
    experts: Mapping[str, Any],
    stores: Stores,
    *,
    is_early: bool,
) -> BoundNode:
    entering: dict[str, list[Channel]] = {}
    for channel in schedule.channels:
        if channel.node == node.id and channel.back_edge is not None and not channel.streams:
            raise BindError(f"{channel.place}: back edge {channel.id} carries a stream: write ~> for ->")
    for channel in sorted(schedule.channels, key=lambda channel: channel.order):
        if channel.node == node.id:
            entering.setdefault(channel.port, []).append(channel)
    wanted = {channel.source.rpartition(".")[2] for channel in schedule.channels if _from(channel.source, node.id)}
    wanted |= {output.port for output in schedule.outputs if output.node == node.id}
    onward = _onward(index, downstream, schedule)
    _check_turns(node, onward, experts)
    return BoundNode(
        index=index,
        downstream=downstream,
        spec=node,
        place=str(node.place),
        loop=_loop(node, experts, entering, stores, schedule),
        expert=experts[node.expert] if node.expert else None,
        inputs={port: tuple(channels) for port, channels in entering.items()},
        wanted=frozenset(wanted),
        starred=starred_ports(node),
        onward=onward,
        is_early=is_early,
    )


def _onward(index: int, downstream: int, schedule: Schedule) -> frozenset[str]:
    """The loops that keep sessions among a node and those behind it."""
    bits = downstream | 1 << index
    return frozenset(
        node.id
        for i, node in enumerate(schedule.nodes)
        if bits >> i & 1 and node.kind == "loop" and node.attributes.get("session")
    )


CHATS = ("chat_tokenize", "conversation_tokenize")


def _check_turns(node: Node, onward: frozenset[str], experts: Mapping[str, Any]) -> None:
    """Errors: BindError for a chat that must go on from turn to turn over a tokenizer that cannot."""
    if onward and node.name in CHATS and not isinstance(experts[node.expert or ""], TurnTokenizer):
        raise BindError(
            f"{node.place}: node {node.id} leads to {', '.join(sorted(onward))}, which keeps sessions, and "
            f"{node.expert} cannot encode a turn by itself"
        )


def _from(source: str, node_id: str) -> bool:
    return source.rpartition(".")[0] == node_id


def _loop(
    node: Node,
    experts: Mapping[str, Any],
    entering: Mapping[str, list[Channel]],
    stores: Stores,
    schedule: Schedule,
) -> Loop[Any]:
    expert = experts[node.expert] if node.expert else None
    if node.kind == "op":
        if node.name not in OPS:
            raise BindError(f"{node.place}: node {node.id}: this runtime has no op {node.name}")
        return RunOp(node, OPS[node.name], expert)
    missing = [name for name in NEEDS.get(node.name, ()) if not hasattr(expert, name)]
    if missing:
        raise BindError(
            f"{node.place}: node {node.id}: {node.name} cannot bind {node.expert}, it has no {', '.join(missing)}"
        )
    try:
        sizes = next((spec.sizes for spec in schedule.experts if spec.name == node.expert), {})
        return _make_loop(node, expert, experts, entering, stores, sizes)
    except (KeyError, ValueError) as error:
        raise BindError(f"{node.place}: node {node.id}: {error}") from error


def _make_loop(
    node: Node,
    expert: Any,
    experts: Mapping[str, Any],
    entering: Mapping[str, list[Channel]],
    stores: Stores,
    sizes: Mapping[str, int],
) -> Loop[Any]:
    if node.name == "ar_decode":
        assert node.expert is not None
        holds = {port: channels[0].when_empty for port, channels in entering.items()}
        outer = _decode(node, node.expert, expert, stores, holds)
        if node.inner is None:
            return outer
        return NestedDecode(node.inner, outer, _decode(node, node.inner.expert, experts[node.inner.expert], stores, {}))
    if node.name == "score":
        assert node.expert is not None
        return Score(expert, pool=stores.pools[node.expert])
    if node.name == "encode":
        return Encode(node, expert, shelf=stores.shelf(node), vocabulary=sizes.get("vocabulary"))
    if node.name in LOOPS:
        return LOOPS[node.name](node, expert)
    raise ValueError(f"this runtime has no loop {node.name}")


def _decode(node: Node, name: str, expert: Any, stores: Stores, holds: Mapping[str, Any]) -> ARDecode:
    return ARDecode(node, expert, pool=stores.pools[name], holds=holds, chunk=PREFILL_CHUNK)
