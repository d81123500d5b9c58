"""Words for edges whose ends do not fit: both ends, where each side's claim comes from, what can be done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.equations import is_count
from omniflow_compiler.graph import Component, Edge, Node, ProgramGraph
from omniflow_compiler.library.ops import OPS
from omniflow_compiler.library.signature import Port
from omniflow_compiler.passes.trace import Aspect, Trace
from omniflow_compiler.source import Span
from omniflow_compiler.spec import InputSpec, Name
from omniflow_compiler.types import ANY, Axis, Type
from omniflow_compiler.unify import Mismatch, pattern_of

_ASPECTS: dict[str, Aspect] = {
    "size": "size", "fraction": "size", "alignment": "size", "rate": "rate", "vocabulary": "vocabulary",
    "dtype": "dtype", "base": "base", "axes": "base",
}  # fmt: skip
_CODES = {
    "base": codes.BASE_MISMATCH, "dtype": codes.DTYPE_MISMATCH, "size": codes.AXIS_SIZE, "fraction": codes.AXIS_SIZE,
    "axes": codes.AXIS_COUNT, "rate": codes.RATE_MISMATCH, "vocabulary": codes.VOCABULARY,
    "alignment": codes.AXIS_ALIGNMENT, "items": codes.ITEMS,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Reporter:
    """Reports what inference finds."""

    graph: ProgramGraph
    report: Report
    trace: Trace

    def edge(self, edge: Edge, mismatch: Mismatch, actual: Type | None) -> None:
        """An edge whose ends differ, with the way each side's claim came."""
        node, port = self.graph.nodes[edge.target_node], edge.target_port
        assert port is not None
        message, help = self._words(edge, node, mismatch)
        aspect = _ASPECTS.get(mismatch.kind)
        labels = []
        if aspect is not None:
            shift = 1 if node.each and edge.spec.streams else 0
            labels += self.trace.of_edge(edge, aspect, mismatch.axis + shift)
        labels.append(Label(span=edge.spec.target.span, text=f"takes {self._takes(node, port)}"))
        if aspect is not None and mismatch.kind not in ("base", "axes"):
            labels += self.trace.of_port(node, port, aspect, mismatch.axis)
        self._add(mismatch, edge.spec.source.span, message, "" if actual is None else actual.short, labels, help)

    def contract(self, edge: Edge, declared: Name, mismatch: Mismatch, actual: Type) -> None:
        """What does not fit the declared input of a graph or stage on the way."""
        message, help = self._words(edge, self.graph.nodes[edge.target_node], mismatch)
        labels = [Label(span=declared.span, text=f"takes {declared.text}")]
        self._add(mismatch, edge.spec.source.span, message, actual.short, labels, help)

    def over(self, edge: Edge, contract: InputSpec, axis: Axis, count: int, most: int) -> None:
        """More elements than the input of a graph or stage on the way lets in."""
        self.report.add(
            codes.AXIS_SIZE,
            edge.spec.source.span,
            f"`{edge.spec.source}` has {count} elements along `{axis.short}`, and input `{contract.name.text}` lets in "
            f"{most}",
            labels=[Label(span=contract.name.span, text=f"its limit is {most}")],
            help=["hand on fewer, or raise the limit"],
        )

    def items(self, edge: Edge, first: Edge, expected: str, found: str) -> None:
        """Streams of one `each` node whose items do not belong together."""
        labels = [Label(span=first.spec.source.span, text=f"its items: {expected}")]
        labels += self.trace.of_edge(edge, "size", 0)
        message = f"items of `{edge.spec.source}` do not belong to those of `{first.spec.source}`"
        help = ["streams into a node with `each: true` must have the same items: take both from one op or stream"]
        note = f"its items: {found}"
        self.report.add(codes.AXIS_ALIGNMENT, edge.spec.source.span, message, note=note, labels=labels, help=help)

    def no_items(self, edge: Edge, node: Node, actual: Type) -> None:
        """A stream of one item into an `each` node."""
        self.report.add(
            codes.ITEMS,
            edge.spec.source.span,
            f"node `{node.id}` runs for each item, `{edge.spec.source}` is a stream of one item",
            note=actual.short,
            labels=[Label(span=node.span, text="has `each: true`")],
            help=["carry it with `->` to share it by all items, or remove `each: true`"],
        )

    def nothing_to_run_for(self, node: Node) -> None:
        """An `each` node to which no stream brings items."""
        self.report.add(
            codes.ITEMS,
            node.span,
            f"node `{node.id}` runs for each item, and no stream brings it any",
            help=["carry a stream of items to it with `~>`, or remove `each: true`"],
        )

    def odd_size(self, node: Node, port: Port, type: Type) -> None:
        """An output whose size divides what does not divide."""
        axis = next(i for i, axis in enumerate(type.axes) if not axis.size.terms and not is_count(axis.size))
        labels = self.trace.of_port(node, port, "size", axis) if axis < len(port.pattern.axes) else []
        self.report.add(
            codes.AXIS_SIZE,
            node.span,
            f"`{node.id}.{port.name}` would have {type.axes[axis].size} elements",
            note=f"gives {port.type}",
            labels=labels,
            help=["the size that arrives must be a multiple of what its type divides by"],
        )

    def _takes(self, node: Node, port: Port) -> str:
        """An input's type as far as it is settled before this edge."""
        frame = self.trace.frames[node.id]
        pattern = pattern_of(port, node)
        axes = tuple(replace(axis, size=axis.size.substitute(frame.names)) for axis in pattern.axes)
        known = pattern.vocabulary
        vocabulary = None if known is None else known.substitute(frame.names)
        captured = frame.captured.get(pattern.base)
        rate = pattern.rate if pattern.rate is not None and pattern.rate.variable is None else None
        if captured is not None:
            return replace(captured, axes=(*axes, *captured.axes), vocabulary=vocabulary, rate=rate).short
        shown = replace(pattern, axes=axes, vocabulary=vocabulary, rate=rate).short
        return f"anything of the form {shown.removeprefix(pattern.base)}" if pattern.base.startswith(ANY) else shown

    def initial(self, edge: Edge, node: Node, value: object, span: Span) -> None:
        """The initial value of a back edge that its port cannot take."""
        assert edge.target_port is not None
        problem = _misfit(value, edge.target_port.pattern, node)
        if problem:
            label = Label(span=edge.spec.target.span, text=f"takes {edge.target_port.pattern.short}")
            message = f"the first round cannot read {value!r}: `{edge.spec.target}` {problem}"
            self.report.add(codes.BACK_EDGE, span, message, labels=[label])

    def _add(
        self, mismatch: Mismatch, span: Span, message: str, note: str, labels: Iterable[Label], help: list[str]
    ) -> None:
        self.report.add(_CODES[mismatch.kind], span, message, note=note, labels=dict.fromkeys(labels), help=help)

    def _words(self, edge: Edge, node: Node, mismatch: Mismatch) -> tuple[str, list[str]]:
        source, target = f"`{edge.spec.source}`", f"`{edge.spec.target}`"
        expected, found = mismatch.expected, mismatch.found
        match mismatch.kind:
            case "dtype":
                return f"{source} gives {found}, {target} takes {expected}", self._dtype_help(edge, node)
            case "size":
                return (
                    f"{self._axis(edge, mismatch)}{source} has size {found}, {target} takes {expected}",
                    self._accepting(node, edge, mismatch),
                )
            case "fraction":
                help = ["the size that arrives must be a multiple of what the type divides by"]
                return (
                    f"{self._axis(edge, mismatch)}{source} has size {found}, which {target} cannot take: {expected}",
                    help,
                )
            case "alignment":
                help = ["values that are combined element by element must come from the same loop or stream"]
                return f"{source} runs along {found}, {target} along {expected}", help
            case "axes":
                return f"{source} is {found}, {target} takes {expected}", self._ports_that_fit(edge, node)
            case "vocabulary":
                help = ["leave the extra ids out with `strip`, or replace them with `clamp`"]
                more = self._accepting(node, edge, mismatch)
                return f"{source} has ids up to {int(found) - 1}, {target} knows {expected} ids", help + more
            case "rate":
                return f"{source} runs at {found}, {target} at {expected}", []
            case "items" if expected == "one item":
                help = [f"give node `{node.id}` `each: true`, or put a `join` before it"]
                return f"{source} is a stream of items, {target} takes one", help
            case "items":
                return f"{source} is one item, {target} takes a stream of items", ["cut it with `segment`"]
        return f"{source} is {found}, {target} takes {expected}", self._ports_that_fit(edge, node)

    def _axis(self, edge: Edge, mismatch: Mismatch) -> str:
        axes = edge.target_port.pattern.axes if edge.target_port is not None else ()
        name = axes[mismatch.axis].name if 0 <= mismatch.axis < len(axes) else ""
        return f"axis {name} of " if name.isidentifier() else ""

    def _dtype_help(self, edge: Edge, node: Node) -> list[str]:
        source = self.graph.nodes.get(edge.source_node or "")
        names = [n.component.spec.name.text for n in (source, node) if n is not None and n.component is not None]
        if len(set(names)) == 2:
            return [f"set the same `dtype` for `{names[0]}` and `{names[1]}`"]
        return [f"change the `dtype` of `{names[0]}`"] if names else []

    def _accepting(self, node: Node, edge: Edge, mismatch: Mismatch) -> list[str]:
        """Other components of the card that take what arrives."""
        if node.component is None or node.loop is None or edge.target_port is None:
            return []
        fitting = sorted(
            name
            for name, other in self.graph.components.items()
            if other is not node.component
            and other.spec.dtype == node.component.spec.dtype
            and _takes(other, node.loop.kind, edge.target_port.name, mismatch)
        )
        return [f"component `{name}` accepts it" for name in fitting[:3]]

    def _ports_that_fit(self, edge: Edge, node: Node) -> list[str]:
        """Ports near the edge's ends that fit, and ops that lead from one base to the other."""
        assert edge.target_port is not None
        wanted = edge.target_port.pattern
        source = self.graph.nodes.get(edge.source_node or "")
        given = self.graph.inputs[edge.spec.source.port] if source is None else None
        help = []
        if source is not None and edge.source_port is not None:
            given = edge.source_port.pattern
            near = [p.name for p in source.outputs.values() if p is not edge.source_port and _alike(p.pattern, wanted)]
            help += [f"`{source.id}.{name}` fits" for name in near[:3]]
        if given is None or given.base.startswith(ANY) or given.base == wanted.base:
            return help
        near = [p.name for p in node.inputs.values() if p is not edge.target_port and _alike(given, p.pattern)]
        help += [f"`{node.id}.{name}` takes {given.base}" for name in near[:3]]
        ops = [name for name, op in OPS.items() if _leads(op.ports.inputs, op.ports.outputs, given.base, wanted.base)]
        return help + [f"op {' or '.join(f'`{name}`' for name in ops[:3])} makes {wanted.base} of {given.base}"] * bool(
            ops
        )


def _alike(given: Type, wanted: Type) -> bool:
    return given.base == wanted.base and len(given.axes) == len(wanted.axes) and given.is_items == wanted.is_items


def _leads(inputs: Iterable[Port], outputs: Iterable[Port], given: str, wanted: str) -> bool:
    needed = [port.pattern.base for port in inputs if port.required]
    return needed == [given] and any(port.pattern.base == wanted for port in outputs)


def _takes(component: Component, kind: str, port: str, mismatch: Mismatch) -> bool:
    ports = component.signature.serves.get(kind)
    for entry in ports.inputs if ports is not None else ():
        pattern = entry.pattern
        if entry.name != port or not 0 <= max(mismatch.axis, 0) < max(len(pattern.axes), 1):
            continue
        size = pattern.vocabulary if mismatch.kind == "vocabulary" else pattern.axes[mismatch.axis].size
        if size is not None:
            known = [component.sizes.get(symbol) for symbol in size.symbols]
            if len(known) <= 1 and str(known[0] if known else size) == mismatch.found:
                return True
    return False


def _misfit(value: object, pattern: Type, node: Node) -> str:
    """Why a written value cannot stand at a port; empty when it can."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    rows = node.component.signature.rows if node.component is not None else ()
    match pattern.base:
        case "text":
            return "" if isinstance(value, str) else "takes a text"
        case "json":
            return ""
        case "tokens" | "codes":
            return "" if isinstance(value, int) and value >= 0 else "takes ids"
        case "kv" | "record":
            return "takes what only a node can make"
    if is_number or (isinstance(value, str) and value in rows):
        return ""
    return f"takes numbers{' or ' + ', '.join(f'`{row}`' for row in rows) if rows else ''}"
