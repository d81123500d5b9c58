"""The most elements of a length that a node decides, where its signature says so: `F/4 + 1` embeddings of F frames,

`height/8` rows of a latent whose `height` is a number of the request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from omniflow_compiler.graph import Edge, Node, ProgramGraph
from omniflow_compiler.passes.types import Types
from omniflow_compiler.prescribed import with_sizes
from omniflow_compiler.sizes import Size, parse_size


def caps_of(node: Node) -> Mapping[str, Size]:
    """By the name of a length in the node's signature, its most in names of its inputs' lengths and of numbers."""
    owner = node.op or (None if node.component is None else node.component.signature)
    sizes, declared = {} if node.component is None else node.component.sizes, {} if owner is None else owner.most
    return {name: parse_size(with_sizes(text, sizes)) for name, text in declared.items()}


def cap_of(node: Node, symbol: str, graph: ProgramGraph, types: Types) -> Size | None:
    """The most of one of a node's own lengths, in symbols of the graph; None where nothing is said."""
    cap = caps_of(node).get(symbol.removeprefix(f"{node.id}."))
    return None if cap is None else cap.substitute(_arriving(node, graph, types))


def is_capped(node: Node, types: Types) -> bool:
    """Whether a cap is known of every length that the node decides."""
    caps, own = caps_of(node), f"{node.id}."
    symbols = {s for port in node.outputs for axis in types.outputs[node.id, port].axes for s in axis.size.symbols}
    decided = {symbol.removeprefix(own) for symbol in symbols if symbol.startswith(own)}
    return bool(caps) and decided <= set(caps)


def sizing(node: Node, graph: ProgramGraph) -> Iterator[Edge]:
    """The edges over which a request's numbers come that decide a length."""
    names = {name for cap in caps_of(node).values() for name in cap.symbols}
    for edge in graph.incoming[node.id] if names else ():
        port = edge.target_port
        if edge.source_node is None and port is not None and port.name in names and port.pattern.base == "scalar":
            yield edge


def number(name: str) -> str:
    """The symbol for the number at a program input."""
    return f"inputs.{name}"


def _arriving(node: Node, graph: ProgramGraph, types: Types) -> dict[str, Size]:
    """The size that came for each length that the node's inputs name, and for each number."""
    found = {edge.spec.target.port: Size.of(number(edge.spec.source.port)) for edge in sizing(node, graph)}
    for edge in graph.incoming[node.id]:
        actual = types.inputs.get((node.id, edge.spec.target.port))
        if edge.target_port is None or actual is None:
            continue
        axes = actual.axes[1:] if node.each and actual.is_items else actual.axes
        for pattern, axis in zip(edge.target_port.pattern.axes, axes, strict=False):
            if pattern.size.symbol is not None:
                found.setdefault(pattern.size.symbol, axis.size)
    return found
