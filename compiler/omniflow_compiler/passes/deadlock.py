"""Proves that no channel can stop everything, and shows the way round where one can."""

from __future__ import annotations

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Edit, Label, Report
from omniflow_compiler.digraph import connected_parts
from omniflow_compiler.graph import Edge, Node, ProgramGraph
from omniflow_compiler.passes.branches import may_run_together
from omniflow_compiler.passes.caps import is_capped
from omniflow_compiler.passes.network import ITEMS_OF, counted_axes, lag_of, links_of, scale_of
from omniflow_compiler.passes.types import Types
from omniflow_compiler.waiting import Circle, Wait, find_circles, held_whole

MAX_SHOWN = 6
_CYCLES = (codes.SELF_LOOP.id, codes.CYCLE.id)


def check_deadlock(graph: ProgramGraph, types: Types, report: Report) -> None:
    """Reports circles of waits, and channels that must hold a stream whose length nothing bounds."""
    if any(found.code in _CYCLES for found in report):
        return
    links = links_of(graph, types)
    edges = {edge.key: edge for edge in graph.edges}
    for circle in find_circles(links):
        is_blocked = any(not wait.forward or wait.link.tokens for wait in circle)
        if is_blocked and may_run_together(graph, (wait.start.removeprefix(ITEMS_OF) for wait in circle)):
            _Circle(circle, edges, graph, types).report(report)
    held = sorted(held_whole(links, items=False))
    unbounded = _unbounded(graph, types) if held else set()
    for key in held:
        _check_bounded(edges[key], unbounded, graph, types, report)


class _Circle:
    """A circle of waits with the edges it goes over."""

    def __init__(self, circle: Circle, edges: dict[int, Edge], graph: ProgramGraph, types: Types) -> None:
        self.waits = circle
        self.edges = edges
        self.graph = graph
        self.types = types
        self.full = [edges[wait.link.key] for wait in circle if not wait.forward]

    def report(self, report: Report) -> None:
        """Says who waits for whom, at the capacity that is too small."""
        if not self.full:
            self._ring(report)
        elif len(self.waits) == 2 and self.waits[0].link is self.waits[1].link:
            self._too_small(self.full[0], report)
        else:
            self._round(report)

    def _too_small(self, edge: Edge, report: Report) -> None:
        written = edge.spec.attributes["capacity"]
        least = lag_of(edge) + 1
        report.add(
            codes.DEADLOCK,
            written.span,
            f"`{edge.spec.target}` needs {least} elements before it takes any, the channel stops at {written.value}",
            labels=[Label(span=edge.spec.span, text="the window and what must be known behind it")],
            help=[f"set `capacity: {least}` or more, or leave it out"],
            edits=[Edit(span=written.span, text=str(least))],
        )

    def _round(self, report: Report) -> None:
        edge = self.full[0]
        written = edge.spec.attributes["capacity"]
        report.add(
            codes.DEADLOCK,
            written.span,
            self._message(edge, written.value),
            labels=[self._label(wait) for wait in self.waits if self.edges[wait.link.key] is not edge][:MAX_SHOWN],
            help=self._help(edge),
        )

    def _message(self, edge: Edge, capacity: object) -> str:
        stops = f"`{edge.spec.source}` stops at {capacity} unread elements"
        far = next((wait for wait in self.waits if wait.forward and wait.link.need != "elements"), None)
        if far is None:
            lags = sum(wait.link.lag for wait in self.waits if wait.forward)
            return f"`{edge.target_node}` gets {lags} elements less over another way, and {stops} on this one"
        late = self.edges[far.link.key]
        when = "is finished" if far.link.need == "whole" else "has ended an item"
        start = "starts" if far.link.need == "whole" else "goes on"
        return f"`{late.target_node}` {start} only when `{late.spec.source}` {when}, but {stops} before"

    def _label(self, wait: Wait) -> Label:
        edge = self.edges[wait.link.key]
        if not wait.forward:
            return Label(span=edge.spec.span, text=f"`{edge.source_node}` waits for room here")
        if wait.link.need == "whole":
            return Label(span=edge.spec.span, text=f"`{edge.target_node}` waits for the end of this")
        if wait.link.need == "item":
            return Label(span=edge.spec.span, text=f"`{edge.target_node}` waits for a whole item of this")
        lag = f", {wait.link.lag} elements behind" if wait.link.lag else ""
        return Label(span=edge.spec.span, text=f"`{edge.target_node}` waits for this{lag}")

    def _help(self, edge: Edge) -> list[str]:
        if any(wait.forward and wait.link.need == "whole" for wait in self.waits):
            return ["leave `capacity` out: the channel is then sized for the whole stream"]
        if any(wait.forward and wait.link.need == "item" for wait in self.waits):
            return ["leave `capacity` out: the channel then holds a whole item"]
        lags = sum(wait.link.lag for wait in self.waits if wait.forward)
        room = sum(wait.link.capacity or 0 for wait in self.waits if not wait.forward)
        more = int((lags + 1 - room) * scale_of(edge, self.types))
        return [f"set `capacity: {edge.attribute('capacity', 0) + max(more, 1)}` or more, or leave it out"]

    def _ring(self, report: Report) -> None:
        """Back edges whose first values do not reach round."""
        back = next(self.edges[wait.link.key] for wait in self.waits if wait.link.tokens)
        lags = sum(wait.link.lag for wait in self.waits)
        report.add(
            codes.DEADLOCK,
            back.spec.span,
            f"this ring never moves: its readers wait for {lags + 1} elements, `initial` gives one",
            labels=[self._label(wait) for wait in self.waits if self.edges[wait.link.key] is not back][:MAX_SHOWN],
            help=["leave `chunk` and `right_context` out on the edges of the ring"],
        )


def _unbounded(graph: ProgramGraph, types: Types) -> set[str]:
    """Lengths (`voice.F`), and nodes that write text, that nothing bounds before the run.

    A loop over tokens has a bound of its own, an input is there before the run, and an op makes of bounded values a
    bounded one; how much any other expert gives is its own affair, unless its signature says the most.
    """
    found: set[str] = set()
    for part in connected_parts(graph.graph):
        for name in part:
            node = graph.nodes[name]
            if node.loop is not None and node.loop.kind == "ar_decode":
                continue
            is_told = node.op is not None or is_capped(node, types)
            if not is_told or any(_lengths(edge, types) & found for edge in graph.incoming[name]):
                found |= _own_lengths(node, types)
    return found


def _lengths(edge: Edge, types: Types) -> set[str]:
    """The lengths that say how much comes over an edge; for text the node that writes it."""
    type = types.inputs.get((edge.target_node, edge.spec.target.port))
    if type is None or not type.axes:
        return {edge.source_node or ""}
    return {symbol for axis in counted_axes(type) for symbol in axis.size.symbols}


def _own_lengths(node: Node, types: Types) -> set[str]:
    symbols = {s for port in node.outputs for axis in types.outputs[node.id, port].axes for s in axis.size.symbols}
    return {node.id, *(symbol for symbol in symbols if symbol.startswith(f"{node.id}."))}


def _check_bounded(edge: Edge, unbounded: set[str], graph: ProgramGraph, types: Types, report: Report) -> None:
    loose = sorted({symbol.rpartition(".")[0] or symbol for symbol in _lengths(edge, types) & unbounded})
    if not loose:
        return
    report.add(
        codes.UNBOUNDED,
        edge.spec.span,
        f"`{edge.target_node}` starts after the end of `{edge.spec.source}`, and nothing bounds how much that is",
        note="this channel must hold all of it",
        labels=[Label(span=graph.nodes[name].span, text=f"`{name}` decides how long it is") for name in loose[:2]],
        help=[f"carry it as a finished value: `{edge.spec.source} -> {edge.spec.target}`"],
    )
