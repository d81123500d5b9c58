"""How many items of an `each` node may be in work at once, and what they hold besides their channels."""

from __future__ import annotations

import math

from omniflow_compiler.graph import Node, ProgramGraph
from omniflow_compiler.passes.lengths import Lengths
from omniflow_compiler.passes.types import Types


def lanes_of(node: Node, lengths: Lengths) -> int:
    """As many as its op or loop kind allows, or fewer where no request has more; 1 for a node without `each`."""
    most = node.loop.lanes if node.loop is not None else node.op.lanes if node.op is not None else 1
    if not node.each:
        return 1
    for port in node.outputs:
        axes = lengths.types.outputs[node.id, port].axes
        if axes and axes[0].items and lengths.is_bound(axes[0].size):
            most = min(most, max(1, math.ceil(axes[0].size.evaluate(lengths.of))))
    return most


def waiting_bytes(node: Node, graph: ProgramGraph, types: Types, lengths: Lengths) -> int:
    """What later items have made and keep until the first one in work is through, at the ports that somebody reads."""
    later = lanes_of(node, lengths) - 1
    if not later:
        return 0
    read = {edge.spec.source.port for edge in graph.outgoing[node.id]}
    read |= {output.ref.port for output in graph.program.outputs.values() if output.ref.node == node.id}
    made = [types.outputs[node.id, port] for port in node.outputs if port in read]
    return later * sum(lengths.bytes(type.item() if type.is_items else type) for type in made)
