"""The things that stand in a spec: where, what is told of them, where they are declared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omniflow_compiler.editor import hover
from omniflow_compiler.editor.reading import Reading
from omniflow_compiler.library.signature import Attribute as Declared
from omniflow_compiler.load.tree import Mapping as Tree
from omniflow_compiler.load.tree import Scalar, Sequence, plain
from omniflow_compiler.load.tree import Tree as AnyTree
from omniflow_compiler.source import Span
from omniflow_compiler.spec import Attribute, EdgeSpec, LoopSpec, Name, NodeSpec, OutputSpec, PortRef
from omniflow_compiler.validate import schema

_LENGTH = re.compile(r"([A-Za-z_]\w*)\.([A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where something is declared: a span of a file, or the beginning of one."""

    path: Path
    span: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """A thing at a place."""

    span: Span
    hover: str
    target: Target | None = None


def symbols(reading: Reading) -> list[Symbol]:
    """All things that stand in the spec's own file, smaller places before the larger ones they lie in."""
    book = _Book(reading)
    found = [symbol for symbol in book.all() if symbol.span.file == reading.name]
    return sorted(found, key=lambda s: (s.span.end_line - s.span.line, s.span.end_column - s.span.column))


def symbol_at(found: Iterable[Symbol], line: int, column: int) -> Symbol | None:
    """The smallest thing at a 1-based line and column."""
    for symbol in found:
        span = symbol.span
        if (span.line, span.column) <= (line, column) <= (span.end_line, span.end_column):
            return symbol
    return None


class _Book:
    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.files = {name: source.path for name, source in reading.sources.sources.items()}

    def all(self) -> Iterator[Symbol]:
        reading = self.reading
        if reading.tree is None or reading.kind is None:
            return
        yield from self._keys(reading.tree, schema(reading.kind), schema(reading.kind))
        yield from self._params(reading.tree)
        if reading.program is not None:
            yield from self._program()
        if reading.workflow is not None:
            yield from self._workflow()
        if reading.kind == "card":
            yield from self._card()

    def _target(self, span: Span) -> Target | None:
        path = self.files.get(span.file)
        return None if path is None else Target(path=path, span=span)

    def _beside(self, name: str) -> Target | None:
        """A file named by a path relative to this one."""
        path = (self.files[self.reading.name].parent / name).resolve()
        return Target(path=path) if path.is_file() else None

    def _keys(self, tree: AnyTree, described: Any, whole: Any) -> Iterator[Symbol]:
        """Keys that the schema describes, at any depth."""
        if isinstance(described, dict) and "$ref" in described:
            described = whole["$defs"][described["$ref"].rpartition("/")[2]]
        if isinstance(tree, Sequence):
            for item in tree.items:
                yield from self._keys(item, described.get("items", {}), whole)
        elif isinstance(tree, Tree):
            known = described.get("properties", {})
            others = described.get("additionalProperties")
            for key, entry in tree.entries.items():
                inner = known.get(key, others if isinstance(others, dict) else {})
                if key in known and "description" in known[key]:
                    yield Symbol(span=entry.key, hover=f"`{key}`: {known[key]['description']}")
                yield from self._keys(entry.value, inner, whole)

    def _params(self, tree: Tree) -> Iterator[Symbol]:
        """`$name` anywhere, and the declarations themselves."""
        declared = tree.get("params")
        known: dict[str, tuple[Span, str]] = {}
        values = self._param_values()
        if isinstance(declared, Tree):
            for name, entry in declared.entries.items():
                fields = plain(entry.value)
                told = hover.of_param(name, values.get(name), fields if isinstance(fields, dict) else {})
                known[name] = entry.key, told
                yield Symbol(span=entry.key, hover=told, target=self._target(entry.key))
        stack: list[AnyTree] = [entry.value for key, entry in tree.entries.items() if key != "params"]
        while stack:
            current = stack.pop()
            if isinstance(current, Tree):
                stack += [entry.value for entry in current.entries.values()]
            elif isinstance(current, Sequence):
                stack += current.items
            elif not isinstance(current, Scalar):
                continue  # nothing that could be read
            elif isinstance(current.value, str) and current.value.startswith("$") and current.value[1:] in known:
                span, told = known[current.value[1:]]
                yield Symbol(span=current.span, hover=told, target=self._target(span))

    def _param_values(self) -> Mapping[str, object]:
        reading = self.reading
        card = {} if reading.card is None else reading.card.params
        return dict(card if reading.kind == "card" else {} if reading.program is None else reading.program.params)

    def _program(self) -> Iterator[Symbol]:
        program = self.reading.program
        assert program is not None
        card = self.reading.card
        if card is not None and program.card.text:
            told = f"card **{card.id.text}**\n\n{card.title}"
            yield Symbol(span=program.card.span, hover=told, target=self._target(card.id.span))
        yield from self._inputs()
        yield from self._outputs(program.outputs.values())
        for node in program.nodes.values():
            yield from self._node(node)
        yield from self._edges(program.edges)

    def _workflow(self) -> Iterator[Symbol]:
        workflow = self.reading.workflow
        assert workflow is not None
        yield from self._inputs()
        yield from self._outputs(workflow.outputs.values())
        for name, stage in workflow.stages.items():
            told = hover.of_part(name, self.reading.parts[name])
            yield Symbol(span=stage.name.span, hover=told, target=self._target(stage.name.span))
            yield Symbol(span=stage.program.span, hover=told, target=self._beside(stage.program.text))
        yield from self._edges(workflow.edges)

    def _inputs(self) -> Iterator[Symbol]:
        for spec in self.reading.inputs.values():
            yield Symbol(span=spec.name.span, hover=hover.of_input(spec), target=self._target(spec.name.span))

    def _outputs(self, outputs: Iterable[OutputSpec]) -> Iterator[Symbol]:
        for output in outputs:
            yield from self._ref(output.ref)

    def _edges(self, edges: Iterable[EdgeSpec]) -> Iterator[Symbol]:
        described = schema("program")["$defs"]["edge"]["properties"]
        for edge in edges:
            yield from self._ref(edge.source)
            yield from self._ref(edge.target)
            for name, written in edge.attributes.items():
                if name in described and "description" in described[name]:
                    yield Symbol(span=written.key_span, hover=f"`{name}`: {described[name]['description']}")

    def _ref(self, ref: PortRef) -> Iterator[Symbol]:
        """Both halves of `node.port`, or a program input."""
        if ref.node is None:
            spec = self.reading.inputs.get(ref.port)
            if spec is not None:
                yield Symbol(span=ref.span, hover=hover.of_input(spec), target=self._target(spec.name.span))
            return
        part, target = self.reading.parts.get(ref.node), self._declared(ref.node)
        if part is None or ref.span.line != ref.span.end_line:
            return
        yield Symbol(span=ref.span.part(0, len(ref.node)), hover=hover.of_part(ref.node, part), target=target)
        port = ref.span.part(len(ref.node) + 1, len(ref.port))
        yield Symbol(span=port, hover=hover.of_port(ref.node, ref.port, part), target=target)

    def _declared(self, part: str) -> Target | None:
        reading = self.reading
        if reading.program is not None and part in reading.program.nodes:
            return self._target(reading.program.nodes[part].id.span)
        if reading.workflow is not None and part in reading.workflow.stages:
            return self._target(reading.workflow.stages[part].name.span)
        return None

    def _node(self, node: NodeSpec) -> Iterator[Symbol]:
        reading = self.reading
        told = hover.of_part(node.id.text, reading.parts[node.id.text])
        yield Symbol(span=node.id.span, hover=told, target=self._target(node.id.span))
        op = reading.library.ops.get(node.name.text) if node.kind == "op" else None
        if op is not None:
            yield Symbol(span=node.name.span, hover=hover.of_op(op))
            yield from self._attributes(node.attributes, op.attributes)
        elif node.kind == "loop" and reading.card is not None:
            yield from self._loop_name(node.name)
        elif node.kind == "graph":
            yield Symbol(span=node.name.span, hover=told, target=self._beside(node.name.text))
        if node.component is not None:
            yield from self._component_name(node.component)

    def _attributes(self, written: Mapping[str, Attribute], declared: Iterable[Declared]) -> Iterator[Symbol]:
        known = {attribute.name: attribute for attribute in declared}
        for name, given in written.items():
            if name in known:
                yield Symbol(span=given.key_span, hover=hover.of_attribute(known[name]))

    def _loop_name(self, name: Name) -> Iterator[Symbol]:
        card = self.reading.card
        loop = None if card is None else card.loops.get(name.text)
        if loop is not None:
            yield Symbol(span=name.span, hover=self._loop_told(loop), target=self._target(loop.name.span))

    def _loop_told(self, loop: LoopSpec) -> str:
        kind = self.reading.library.loops.get(loop.kind.text)
        values = ", ".join(f"{key}: {attribute.value}" for key, attribute in loop.attributes.items())
        head = f"loop **{loop.name.text}**: {loop.kind.text} over `{loop.binds.text}`"
        return "\n\n".join(text for text in (head, values, "" if kind is None else kind.doc) if text)

    def _component_name(self, name: Name) -> Iterator[Symbol]:
        card = self.reading.card
        spec = None if card is None else card.components.get(name.text)
        if spec is not None:
            expert = self.reading.library.expert(spec.use.text)
            told = f"component **{name.text}** uses `{spec.use.text}`, {spec.dtype} on {spec.device}"
            if expert is not None:
                told += f"\n\n{hover.of_expert(expert)}"
            yield Symbol(span=name.span, hover=told, target=self._target(spec.name.span))

    def _card(self) -> Iterator[Symbol]:
        card, library = self.reading.card, self.reading.library
        assert card is not None
        for name in card.includes:
            yield Symbol(span=name.span, hover=f"includes `{name.text}`", target=self._beside(name.text))
        for component in card.components.values():
            yield from self._component_name(component.name)
            expert = library.expert(component.use.text)
            if expert is not None:
                yield Symbol(span=component.use.span, hover=hover.of_expert(expert))
                yield from self._attributes(component.attributes, expert.attributes)
        for cache in card.caches.values():
            yield Symbol(span=cache.name.span, hover=hover.of_cache(cache), target=self._target(cache.name.span))
        for loop in card.loops.values():
            yield from self._loop(loop)

    def _loop(self, loop: LoopSpec) -> Iterator[Symbol]:
        card = self.reading.card
        assert card is not None
        yield from self._loop_name(loop.name)
        yield from self._component_name(loop.binds)
        kind = self.reading.library.loops.get(loop.kind.text)
        if kind is not None:
            yield Symbol(span=loop.kind.span, hover=hover.of_loop_kind(kind))
            yield from self._attributes(loop.attributes, kind.attributes)
        if loop.cache is not None and loop.cache.text in card.caches:
            cache = card.caches[loop.cache.text]
            yield Symbol(span=loop.cache.span, hover=hover.of_cache(cache), target=self._target(cache.name.span))
        if loop.inner is not None:
            yield from self._loop_name(loop.inner.loop)
        for attribute in loop.attributes.values():
            yield from self._lengths(attribute)

    def _lengths(self, attribute: Attribute) -> Iterator[Symbol]:
        """Names of loops in an expression such as `12 * think.tokens + 64`."""
        span = attribute.span
        if not isinstance(attribute.value, str) or span.end_column - span.column != len(attribute.value):
            return
        for match in _LENGTH.finditer(attribute.value):
            name = Name(text=match[1], span=span.part(match.start(), len(match[0])))
            yield from self._loop_name(name)
