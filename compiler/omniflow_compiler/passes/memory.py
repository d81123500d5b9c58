"""Memory per device: weights and caches that stay, what loops and channels hold, finished values."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from omniflow_compiler.codebooks import lag_of, sequences_of
from omniflow_compiler.graph import Component, Edge, Node, ProgramGraph
from omniflow_compiler.passes.buffers import live_buffers, share_places
from omniflow_compiler.passes.lanes import lanes_of, waiting_bytes
from omniflow_compiler.passes.lengths import DEFAULT_ITEMS, DEFAULT_LENGTH, Lengths
from omniflow_compiler.passes.network import Needs, channel_needs, takes_items
from omniflow_compiler.passes.order import edges_into
from omniflow_compiler.passes.types import Types
from omniflow_compiler.passes.units import SCORED
from omniflow_compiler.schedule import Buffer, Holder, Memory
from omniflow_compiler.spec import LoopSpec
from omniflow_compiler.types import DTYPE_BYTES, Type

DEFAULT_CAPACITY = 256
EVERYTHING = 1 << 30  # capacity of a channel whose reader starts after its end and whose length has no bound
MAX_HOLDERS = 12  # listed in a schedule
PROMPTS = ("prompt", "prompt_embeds")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """Capacities and bytes of `~>` edges by key, bytes of loops' own state by node, buffers, peak per device."""

    capacities: Mapping[int, int]
    channel_bytes: Mapping[int, int]
    state_bytes: Mapping[str, int]
    buffers: tuple[Buffer, ...]
    devices: tuple[Memory, ...]


def plan_memory(
    graph: ProgramGraph,
    types: Types,
    order: Sequence[str],
    lengths: Lengths,
    bounds: Mapping[str, int],
    budgets: Mapping[str, int],
) -> MemoryPlan:
    """The plan for these nodes; `budgets` has bytes per device where a limit was given."""
    streams = [edge for edge in edges_into(graph, order) if edge.spec.streams]
    needs = channel_needs(graph, types)
    capacities = {edge.key: _capacity(edge, needs, graph, types, lengths) for edge in streams}
    held = {edge.key: _channel_bytes(edge, capacities[edge.key], graph, types, lengths) for edge in streams}
    state = {name: size for name in order if (size := _state_bytes(graph.nodes[name], graph, types, lengths, bounds))}
    buffers = tuple(live_buffers(graph, types, order, lengths))
    device_of = {name: device for name in order if (device := _device(graph.nodes[name])) is not None}
    resident: dict[str, list[Holder]] = defaultdict(list)
    for device, holder in _residents(graph, order):
        resident[device].append(holder)
    for name, size in state.items():
        resident[device_of.get(name, "cpu")].append(Holder(name=name, kind="state", bytes=size))
    for edge in streams:
        name = f"{edge.spec.source} ~> {edge.spec.target}"
        holder = Holder(name=name, kind="channel", bytes=held[edge.key])
        resident[device_of.get(edge.target_node, "cpu")].append(holder)
    return MemoryPlan(
        capacities=capacities,
        channel_bytes=held,
        state_bytes=state,
        buffers=buffers,
        devices=tuple(_peaks(graph, order, buffers, device_of, resident, budgets)),
    )


def _device(node: Node) -> str | None:
    return None if node.component is None else node.component.spec.device


QUANTIZED_BITS = {"int8": 8, "int4": 6}  # int4: and a scale and an offset of up to four bytes per 32 columns


def weight_bytes(component: Component) -> int:
    """Bytes of a component's weights in its dtype, but for those that are quantized."""
    plain = component.num_parameters - component.num_quantized
    bits = QUANTIZED_BITS.get(str(component.attributes.get("quantize")), 0)
    return plain * DTYPE_BYTES.get(component.spec.dtype, 4) + component.num_quantized * bits // 8


def _residents(graph: ProgramGraph, order: Sequence[str]) -> Iterator[tuple[str, Holder]]:
    """Weights once per component, pools once per device that leases from them."""
    found: dict[tuple[str, str, str], int] = {}
    for name in order:
        node = graph.nodes[name]
        for component in node.components:
            found[component.spec.device, "weights", component.spec.name.text] = weight_bytes(component)
        for loop, component in zip(node.loop_specs, node.components, strict=False):
            if loop.cache is not None and loop.cache.text in graph.card.caches:
                size = graph.card.caches[loop.cache.text].max_bytes
                found[component.spec.device, "cache", loop.cache.text] = size
    for (device, kind, holder), size in found.items():
        if size:
            yield device, Holder(name=holder, kind=kind, bytes=size)


def _state_bytes(node: Node, graph: ProgramGraph, types: Types, lengths: Lengths, bounds: Mapping[str, int]) -> int:
    """What the items in work hold: keys and values of loops that lease from no cache, logits of given tokens, and what

    waits for its turn.
    """
    of_one = _kv_bytes(node, types, lengths, bounds) + _logit_bytes(node, types, lengths)
    return lanes_of(node, lengths) * of_one + waiting_bytes(node, graph, types, lengths)


def _kv_bytes(node: Node, types: Types, lengths: Lengths, bounds: Mapping[str, int]) -> int:
    """Keys and values of one item, where no cache holds them."""
    return sum(
        _held_tokens(node, loop, types, lengths, bounds) * component.kv_bytes_per_token
        for loop, component in zip(node.loop_specs, node.components, strict=False)
        if loop.cache is None and component.kv_bytes_per_token
    )


def _held_tokens(node: Node, loop: LoopSpec, types: Types, lengths: Lengths, bounds: Mapping[str, int]) -> int:
    """A prompt and as many tokens as may be decoded; of a world, the chunks of its window."""
    if node.inner is not None and loop is node.inner.spec:
        return max(len(node.inner.feed), 1) + node.inner.length
    if loop.kind.text == "chunk_rollout":
        window = node.attributes.get("window")
        return window if isinstance(window, int) else DEFAULT_LENGTH
    given = _given_tokens(node, PROMPTS, types, lengths)
    return sequences_of(node.attributes) * (given + _own_tokens(node, types, lengths, bounds))


def _logit_bytes(node: Node, types: Types, lengths: Lengths) -> int:
    """Logits of all positions of one unit of `score`, and what a softmax makes of them, in float32."""
    if node.loop is None or node.loop.kind != "score" or node.component is None:
        return 0
    positions = sum(_given_tokens(node, ports, types, lengths) for ports in (PROMPTS, ("tokens",)))
    return 2 * min(positions, SCORED) * node.component.sizes.get("vocabulary", 0) * DTYPE_BYTES["float32"]


def _own_tokens(node: Node, types: Types, lengths: Lengths, bounds: Mapping[str, int]) -> int:
    """How many tokens a loop has behind its prompt: as many as it may decode, or those that it scores."""
    if node.loop is not None and node.loop.kind == "score":
        return _given_tokens(node, ("tokens",), types, lengths)
    return bounds.get(node.id, DEFAULT_LENGTH) + lag_of(node.attributes)


def _given_tokens(node: Node, ports: Sequence[str], types: Types, lengths: Lengths) -> int:
    """How many tokens a loop is given at one of the ports; one, where it starts by itself."""
    prompts = [type for port in ports if (type := types.inputs.get((node.id, port))) is not None]
    items = [type.item() if type.is_items else type for type in prompts]
    return max((math.ceil(item.axes[0].size.evaluate(lengths.of)) for item in items if item.axes), default=1)


def _arriving(edge: Edge, types: Types) -> Type | None:
    return types.inputs.get((edge.target_node, edge.spec.target.port))


def _capacity(edge: Edge, needs: Needs, graph: ProgramGraph, types: Types, lengths: Lengths) -> int:
    written = edge.attribute("capacity", 0)
    if written:
        return written
    type = _arriving(edge, types)
    by_items = takes_items(edge, graph)
    default = _most_items(type, lengths) if by_items else DEFAULT_CAPACITY
    if edge.key in needs.held:
        counted = () if type is None else type.axes[:1] if not type.is_items else type.axes[: 1 if by_items else 2]
        if not counted or not all(lengths.is_bound(axis.size) for axis in counted):
            return EVERYTHING
        return max(default, math.prod(math.ceil(axis.size.evaluate(lengths.of)) for axis in counted))
    window = edge.attribute("chunk", 0) + edge.attribute("left_context", 0) + edge.attribute("right_context", 0)
    return max(default, 2 * window, needs.least.get(edge.key, 0))


def _most_items(type: Type | None, lengths: Lengths) -> int:
    """As many items as usual, or fewer where no request has more."""
    if type is None or not type.is_items or not lengths.is_bound(type.axes[0].size):
        return DEFAULT_ITEMS
    return max(1, min(DEFAULT_ITEMS, math.ceil(type.axes[0].size.evaluate(lengths.of))))


def _channel_bytes(edge: Edge, capacity: int, graph: ProgramGraph, types: Types, lengths: Lengths) -> int:
    """What a full channel holds, with the items that its reader has taken or is putting together."""
    type = _arriving(edge, types)
    if type is None:
        return 0
    item = type.item() if type.is_items else type
    if capacity == EVERYTHING:
        return lengths.bytes(type)
    if takes_items(edge, graph):
        return (capacity + lanes_of(graph.nodes[edge.target_node], lengths)) * lengths.bytes(item)
    if not item.axes:
        return capacity * (4 if type.base == "text" else lengths.bytes(item))
    row = Type(item.base, item.dtype, item.axes[1:])
    context = edge.attribute("left_context", 0) + edge.attribute("right_context", 0)
    return (capacity + context) * lengths.bytes(row)


def _peaks(
    graph: ProgramGraph,
    order: Sequence[str],
    buffers: tuple[Buffer, ...],
    device_of: Mapping[str, str],
    resident: Mapping[str, list[Holder]],
    budgets: Mapping[str, int],
) -> Iterator[Memory]:
    places = share_places(graph, order, buffers, device_of)
    for device in sorted({*resident, *places.at, *budgets, "cpu"}):
        mine = [slot for slot in places.slots if slot.device == device]
        holders = [*resident.get(device, ())]
        holders += [Holder(name=slot.name, kind="buffer", bytes=slot.bytes) for slot in mine]
        holders.sort(key=lambda holder: (-holder.bytes, holder.kind, holder.name))
        yield Memory(
            device=device,
            peak_bytes=sum(holder.bytes for holder in holders),
            budget_bytes=budgets.get(device),
            at=places.at.get(device, 0),
            holders=tuple(holders[:MAX_HOLDERS]),
        )
