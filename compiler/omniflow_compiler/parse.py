"""Turns a validated tree into the spec it describes; what cannot be read is reported and left out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from collections.abc import Mapping as MappingOf
from collections.abc import Sequence as SequenceOf
from dataclasses import replace
from itertools import islice

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Edit, Report
from omniflow_compiler.load import Entry, Mapping, Scalar, ScalarValue, Sequence, Tree, plain, read_levels
from omniflow_compiler.made import MADE, RESERVED
from omniflow_compiler.names import MAX_FILE_NAME, is_file_name
from omniflow_compiler.params import Value, substitute, values
from omniflow_compiler.quantities import parse_bytes
from omniflow_compiler.source import Span
from omniflow_compiler.spec import (
    Attribute,
    CacheSpec,
    CardSpec,
    ComponentSpec,
    EdgeSpec,
    InnerSpec,
    InputSpec,
    Limit,
    LoopSpec,
    Name,
    NodeSpec,
    OutputSpec,
    PortRef,
    ProgramSpec,
    StageOfWorkflow,
    WorkflowSpec,
)
from omniflow_compiler.suggest import did_you_mean, nearest
from omniflow_compiler.validate import first_line, schema, validate

KINDS = ("card", "program", "graph", "workflow", "config")
MAX_NODES = 200_000

_NAME = r"[^\s.:>~-][^\s.:>~]*"
_EDGE = re.compile(rf"\s*(?P<source>{_NAME}(?:\.{_NAME})?)\s*(?P<arrow>->|~>)\s*(?P<target>{_NAME}(?:\.{_NAME})?)\s*\Z")
_WORD = re.compile(rf"{_NAME}(?:\.{_NAME})?")
_ID = re.compile(r"[^\s.:>~/-][^\s.:>~/]{0,127}\Z")


def kind_of(document: Mapping, report: Report) -> str | None:
    """The kind of spec, or None with the reason in the report. What the file says of lints holds from here on."""
    read_levels(document, report)
    version, kind = document.entries.get("omniflow"), document.entries.get("kind")
    if version is None:
        if not nearest("omniflow", document.entries):  # a misspelt key is reported as such
            help = ["begin the file with `omniflow: 1`"]
            report.add(codes.VERSION, document.span.start, "no language version", help=help)
    elif not isinstance(version.value, Scalar) or version.value.value != 1 or version.value.value is True:
        found = version.value.written if isinstance(version.value, Scalar) else "something else"
        help = ["this compiler reads `omniflow: 1`"]
        report.add(codes.VERSION, version.value.span, f"language version is `{found}`, not 1", help=help)
    if kind is None:
        close = nearest("kind", document.entries, most=1)
        span = document.entries[close[0]].key if close else document.span.start
        help = [f"write `kind:` instead of `{close[0]}:`" if close else "add `kind: card` or `kind: program`"]
        report.add(codes.KIND, span, "no kind of spec", help=help)
        return None
    made = MADE.get(str(kind.value.value)) if isinstance(kind.value, Scalar) else None
    if made is not None:
        report.add(codes.KIND, kind.value.span, f"this is {made[0]}, no spec", help=[made[1]])
        return None
    if not isinstance(kind.value, Scalar) or kind.value.value not in KINDS:
        found = kind.value.written if isinstance(kind.value, Scalar) else "something else"
        report.add(codes.KIND, kind.value.span, f"unknown kind `{found}`", help=did_you_mean(found, KINDS, "kind"))
        return None
    return str(kind.value.value)


def parse_card(document: Mapping, overrides: MappingOf[str, Scalar], report: Report) -> CardSpec:
    """The card a document describes; entries that cannot be read are reported and left out."""
    params = values(document, "card", overrides, report)
    document = substitute(document, params, report)
    validate(document, "card", "", report, "the card")
    return CardSpec(
        id=_name(document, "id"),
        title=_text(document, "title"),
        capabilities=tuple(
            Name(text=str(item.value), span=item.span)
            for item in _items(document, "capabilities")
            if isinstance(item, Scalar)
        ),
        includes=tuple(
            Name(text=str(item.value), span=item.span)
            for item in _items(document, "include")
            if isinstance(item, Scalar)
        ),
        params=_values(params),
        origins={name: param.span for name, param in params.items()},
        components={name: _component(name, e) for name, e in _entries(document, "components", "use")},
        loops={name: _loop(name, e) for name, e in _entries(document, "loops", "kind", "binds")},
        caches=dict(_caches(document, report)),
        parity=_plain_mapping(document, "parity"),
        span=document.span,
        declared=_declared(document),
        unread=frozenset(_unread(document)),
    )


def parse_program(
    document: Mapping, overrides: MappingOf[str, Scalar], report: Report, *, kind: str = "program"
) -> ProgramSpec:
    """The program (or graph) a document describes; nodes and edges that cannot be read are reported and left out."""
    params = values(document, "program", overrides, report)
    document = substitute(document, params, report)
    validate(document, kind, "", report, f"the {kind}")
    nodes, broken = _nodes(document, report)
    edges, mentioned = _edges(document, report)
    is_connected = _check_connected(document, nodes, report)
    outputs, unclear = _outputs(document)
    if kind == "program":
        _check_outputs(outputs, report)
    return ProgramSpec(
        id=_name(document, "id"),
        title=_text(document, "title"),
        card=_name(document, "card"),
        params=_values(params),
        origins={name: param.span for name, param in params.items()},
        inputs=dict(_inputs(document)),
        outputs=outputs,
        nodes=nodes,
        broken_nodes=frozenset(broken | _meant_by_repeats(document, nodes.keys() | broken, edges, outputs)),
        edges=edges,
        mentioned=mentioned | unclear,
        shows_all=len(outputs) == _count(document, "outputs"),
        is_whole=is_connected and _is_whole(document),
        span=document.span,
        declared=_declared(document),
    )


def _meant_by_repeats(
    document: Mapping, known: Set[str], edges: SequenceOf[EdgeSpec], outputs: MappingOf[str, OutputSpec]
) -> set[str]:
    """Names that edges and outputs use and no node has, as many as ids of nodes were written twice."""
    section = document.get("nodes")
    if not isinstance(section, Mapping) or not section.repeats:
        return set()
    refs = [ref for edge in edges for ref in (edge.source, edge.target)] + [output.ref for output in outputs.values()]
    absent = dict.fromkeys(ref.node for ref in refs if ref.port and ref.node and ref.node not in known)
    return set(islice(absent, section.repeats))


def _count(document: Mapping, section: str) -> int:
    entries = document.get(section)
    return len(entries.entries) if isinstance(entries, Mapping) else 0


def _declared(document: Mapping) -> dict[str, Span]:
    section = document.get("params")
    return {name: entry.key for name, entry in section.entries.items()} if isinstance(section, Mapping) else {}


def parse_workflow(document: Mapping, overrides: MappingOf[str, Scalar], report: Report) -> WorkflowSpec:
    """The workflow a document describes; stages and edges that cannot be read are reported and left out."""
    document = substitute(document, values(document, "program", overrides, report), report)
    validate(document, "workflow", "", report, "the workflow")
    edges, _ = _edges(document, report)
    outputs, _ = _outputs(document)
    _check_outputs(outputs, report)
    return WorkflowSpec(
        id=_name(document, "id"),
        title=_text(document, "title"),
        inputs=dict(_inputs(document)),
        outputs=outputs,
        stages={name: _stage(name, entry) for name, entry in _entries(document, "stages", "program")},
        edges=edges,
        span=document.span,
    )


def _values(params: MappingOf[str, Value]) -> dict[str, ScalarValue]:
    return {name: param.value if isinstance(param, Scalar) else None for name, param in params.items()}


def _unread(document: Mapping) -> Iterator[str]:
    """What of a card was written but cannot be used: whole sections, and entries of sections."""
    needs = {"components": ("use",), "loops": ("kind", "binds"), "caches": ("kind", "max_bytes")}
    for section, keys in needs.items():
        found = document.get(section)
        is_repeated = isinstance(found, Mapping) and found.repeats > 0  # a name that is missing may have been meant
        if is_repeated or not _is_readable(document, section, Mapping, is_required=section == "components"):
            yield section
        if isinstance(found, Mapping):
            known = {name for name, _ in _entries(document, section, *keys)}
            yield from (f"{section}.{name}" for name in found.entries if name not in known)


def _check_connected(document: Mapping, nodes: MappingOf[str, NodeSpec], report: Report) -> bool:
    """Whether there are edges at all, where there are nodes to connect; without any, each node would be at fault."""
    edges = document.entries.get("edges")
    if edges is None or not isinstance(edges.value, Sequence) or edges.value.items or len(nodes) < 2:
        return True
    help = ["connect them: `- node.port -> node.port`"]
    report.add(codes.BAD_VALUE, edges.key, f"there are {len(nodes)} nodes and no edges", help=help)
    return False


def _is_whole(document: Mapping) -> bool:
    """Whether each section of a program can be read, whatever its entries are."""
    sections = {"nodes": Mapping, "edges": Sequence, "outputs": Mapping, "inputs": Mapping}
    return all(_is_readable(document, key, kind, is_required=key != "inputs") for key, kind in sections.items())


def _is_readable(document: Mapping, key: str, kind: type[Mapping] | type[Sequence], *, is_required: bool) -> bool:
    value = document.get(key)
    if value is None:
        known = schema("program")["properties"].keys() | schema("card")["properties"].keys()
        return not is_required and not nearest(key, (name for name in document.entries if name not in known))
    if isinstance(value, Mapping) and is_required and not value.entries:
        return False
    return isinstance(value, kind)


def _stage(name: str, entry: Entry) -> StageOfWorkflow:
    tree = _mapping(entry)
    params = tree.get("params")
    entries = params.entries if isinstance(params, Mapping) else {}
    return StageOfWorkflow(
        name=Name(text=name, span=entry.key),
        program=_name(tree, "program"),
        params={key: e.value for key, e in entries.items() if isinstance(e.value, Scalar)},
        param_keys={key: e.key for key, e in entries.items()},
    )


def _name(document: Mapping, key: str) -> Name:
    value = document.get(key)
    if isinstance(value, Scalar):
        return Name(text=str(value.value), span=value.span)
    return Name(text="", span=document.span.start)


def _text(document: Mapping, key: str) -> str:
    value = document.get(key)
    return str(value.value) if isinstance(value, Scalar) and value.value is not None else ""


def _items(document: Mapping, key: str) -> tuple[Tree, ...]:
    value = document.get(key)
    return value.items if isinstance(value, Sequence) else ()


def _plain_mapping(document: Mapping, key: str) -> dict[str, object]:
    value = document.get(key)
    return {k: plain(e.value) for k, e in value.entries.items()} if isinstance(value, Mapping) else {}


def _entries(document: Mapping, key: str, *needed: str) -> Iterator[tuple[str, Entry]]:
    """Entries of a mapping of mappings that have the keys needed to go on."""
    section = document.get(key)
    if not isinstance(section, Mapping):
        return
    for name, entry in section.entries.items():
        tree = entry.value
        if not isinstance(tree, Mapping) or not all(_is_name(tree.get(k), k) for k in needed):
            continue
        if "inner" not in tree.entries or _inner(tree.get("inner")) is not None:
            yield name, entry


def _is_name(tree: Tree | None, key: str) -> bool:
    if not isinstance(tree, Scalar) or isinstance(tree.value, bool):
        return False
    return isinstance(tree.value, str | int if key == "max_bytes" else str)


def _attributes(tree: Mapping, *own: str) -> dict[str, Attribute]:
    return {
        key: Attribute(value=plain(entry.value), key_span=entry.key, span=entry.value.span)
        for key, entry in tree.entries.items()
        if key not in own
    }


def _component(name: str, entry: Entry) -> ComponentSpec:
    tree = _mapping(entry)
    source = tree.get("from")
    return ComponentSpec(
        name=Name(text=name, span=entry.key),
        use=_name(tree, "use"),
        source=str(source.value) if isinstance(source, Scalar) else None,
        source_span=tree.entries["from"].key if "from" in tree.entries else None,
        dtype=_text(tree, "dtype") or "float32",
        device=_text(tree, "device") or "cpu",
        dtype_span=_span_of(tree, "dtype"),
        device_span=_span_of(tree, "device"),
        attributes=_attributes(tree, "use", "from", "dtype", "device"),
        span=tree.span,
    )


def _span_of(tree: Mapping, key: str) -> Span | None:
    value = tree.get(key)
    return None if value is None else value.span


def _loop(name: str, entry: Entry) -> LoopSpec:
    tree = _mapping(entry)
    return LoopSpec(
        name=Name(text=name, span=entry.key),
        kind=_name(tree, "kind"),
        binds=_name(tree, "binds"),
        cache=_name(tree, "cache") if tree.get("cache") is not None else None,
        inner=_inner(tree.get("inner")),
        attributes=_attributes(tree, "kind", "binds", "cache", "inner"),
        span=tree.span,
    )


def _inner(tree: Tree | None) -> InnerSpec | None:
    """The inner loop; None when there is none or the schema has reported it."""
    feed = tree.get("feed") if isinstance(tree, Mapping) else None
    if not isinstance(tree, Mapping) or not isinstance(feed, Mapping) or not {"loop", "back"} <= set(tree.entries):
        return None
    return InnerSpec(
        loop=_name(tree, "loop"),
        feed={port: replace(_name(feed, port), span=entry.key) for port, entry in feed.entries.items()},
        back=_name(tree, "back"),
    )


def _mapping(entry: Entry) -> Mapping:
    assert isinstance(entry.value, Mapping)
    return entry.value


def _caches(document: Mapping, report: Report) -> Iterator[tuple[str, CacheSpec]]:
    for name, entry in _entries(document, "caches", "kind", "max_bytes"):
        tree = _mapping(entry)
        size = tree.entries["max_bytes"].value
        assert isinstance(size, Scalar)
        max_bytes = parse_bytes(size.value) if isinstance(size.value, str | int) else None
        if max_bytes is None:
            help = ["write a number of bytes, or a size such as `256 MiB`"]
            report.add(codes.BAD_VALUE, size.span, f"`{size.written}` is no size in bytes", help=help)
        block = tree.get("block_tokens")
        yield (
            name,
            CacheSpec(
                name=Name(text=name, span=entry.key),
                kind=_text(tree, "kind"),
                max_bytes=max_bytes or 1 << 20,
                bytes_span=size.span,
                block_tokens=block.value if isinstance(block, Scalar) and isinstance(block.value, int) else 16,
                reuse="" if _text(tree, "kind") == "features" else _text(tree, "reuse"),
            ),
        )
        _check_keys(name, tree, report)


def _check_keys(name: str, tree: Mapping, report: Report) -> None:
    """Features are kept whole and by content: nothing of theirs is in blocks or begins another."""
    for key in ("block_tokens", "reuse") if _text(tree, "kind") == "features" else ():
        if key in tree.entries:
            message = f"`{key}` in cache `{name}`, which is of kind `features`"
            report.add(codes.UNKNOWN_KEY, tree.entries[key].key, message, help=["it is for `kind: paged_kv` alone"])


def _inputs(document: Mapping) -> Iterator[tuple[str, InputSpec]]:
    section = document.get("inputs")
    if not isinstance(section, Mapping):
        return
    for name, entry in section.entries.items():
        label = Name(text=name, span=entry.key)
        if isinstance(entry.value, Scalar):
            written = Name(text=str(entry.value.value), span=entry.value.span)
            yield name, InputSpec(name=label, type=written, has_default=False, default=None, help="")
        else:
            tree = entry.value if isinstance(entry.value, Mapping) else Mapping({}, entry.value.span)
            default = tree.get("default")
            yield (
                name,
                InputSpec(
                    name=label,
                    type=_name(tree, "type"),
                    has_default=isinstance(default, Scalar),
                    default=default.value if isinstance(default, Scalar) else None,
                    default_span=None if default is None else default.span,
                    help=_text(tree, "help"),
                    limits=dict(_limits(tree.get("limits"))),
                ),
            )


def _limits(section: Tree | None) -> Iterator[tuple[str, Limit]]:
    for name, entry in section.entries.items() if isinstance(section, Mapping) else ():
        value = entry.value.value if isinstance(entry.value, Scalar) else None
        if isinstance(value, int) and not isinstance(value, bool):  # the schema has said so of others
            yield name, Limit(axis=Name(text=name, span=entry.key), most=value)


def _outputs(document: Mapping) -> tuple[dict[str, OutputSpec], frozenset[str]]:
    """The outputs, and what those that cannot be read mention."""
    section = document.get("outputs")
    outputs: dict[str, OutputSpec] = {}
    mentioned: set[str] = set()
    for name, entry in section.entries.items() if isinstance(section, Mapping) else ():
        value = entry.value
        if isinstance(value, Scalar) and isinstance(value.value, str) and value.value.count(".") == 1:
            node, port = value.value.split(".")
            ref = PortRef(node=node, port=port, span=value.span)
            outputs[name] = OutputSpec(name=Name(text=name, span=entry.key), ref=ref)
        else:
            mentioned.update(_WORD.findall(_all_text(value)))
    return outputs, frozenset(mentioned)


def _check_outputs(outputs: MappingOf[str, OutputSpec], report: Report) -> None:
    """Outputs are files in the folder of a run, beside those that every run has."""
    for name, output in outputs.items():
        span = output.name.span
        if not is_file_name(name):
            help = [f"no spaces, dots, colons, slashes, or dashes at the front; {MAX_FILE_NAME} bytes in UTF-8 at most"]
            report.add(codes.BAD_VALUE, span, f"`{name[:80]}` cannot be an output's name", help=help)
        elif name.lower() in RESERVED:
            message = f"output `{name}` would have the file that {RESERVED[name.lower()]} of a run has"
            report.add(codes.RESERVED, span, message, help=["name the output for what it holds"])


def _all_text(tree: Tree) -> str:
    """Every text in a tree, keys too."""
    if isinstance(tree, Scalar):
        return tree.written
    if isinstance(tree, Mapping):
        return " ".join(f"{key} {_all_text(entry.value)}" for key, entry in tree.entries.items())
    return " ".join(_all_text(item) for item in tree.items) if isinstance(tree, Sequence) else ""


def _nodes(document: Mapping, report: Report) -> tuple[dict[str, NodeSpec], set[str]]:
    nodes: dict[str, NodeSpec] = {}
    broken: set[str] = set()
    section = document.get("nodes")
    if not isinstance(section, Mapping):
        return nodes, broken
    if len(section.entries) > MAX_NODES:
        report.add(codes.BAD_VALUE, section.span.start, f"{len(section.entries)} nodes, the limit is {MAX_NODES}")
        return nodes, set(section.entries)
    for name, entry in section.entries.items():
        node = None if report.is_full else _node(name, entry, report)
        if node is None:
            broken.add(name)
        else:
            nodes[name] = node
    return nodes, broken


def _node(name: str, entry: Entry, report: Report) -> NodeSpec | None:
    if not _ID.match(name):
        help = ["no spaces, dots, colons, slashes, arrows, or dashes at the front"]
        report.add(codes.BAD_VALUE, entry.key, f"`{name}` cannot be a node's id", help=help)
        return None
    tree = entry.value
    if not validate(tree, "program", "node", report, f"node `{name}`") or not isinstance(tree, Mapping):
        return None
    written = [kind for kind in tree.entries if kind in ("op", "loop", "graph")]
    if not written:
        keys = () if report.is_crowded else tree.entries
        names = [key for key in keys if nearest(key, ("op", "loop", "graph"), most=1)]
        span = tree.entries[names[0]].key if names else entry.key
        report.add(codes.MISSING_KEY, span, f"node `{name}` has no `op`, `loop` or `graph`")
        return None
    if len(written) > 1:
        span = tree.entries[written[1]].key
        report.add(codes.BAD_VALUE, span, f"node `{name}` has both `{written[0]}` and `{written[1]}`")
        return None
    when = tree.entries.get("when")
    each = tree.get("each")
    return NodeSpec(
        id=Name(text=name, span=entry.key),
        kind=written[0],
        name=_name(tree, written[0]),
        component=_name(tree, "with") if "with" in tree.entries else None,
        each=isinstance(each, Scalar) and each.value is True,
        when=None if when is None else Attribute(value=plain(when.value), key_span=when.key, span=when.value.span),
        attributes=_attributes(tree, "op", "loop", "graph", "with", "each", "when"),
        span=tree.span,
    )


def _edges(document: Mapping, report: Report) -> tuple[tuple[EdgeSpec, ...], frozenset[str]]:
    """The edges, and everything that a line which is no edge mentions: it may be what was meant."""
    edges: list[EdgeSpec] = []
    mentioned: set[str] = set()
    for order, item in enumerate(_items(document, "edges")):
        if report.is_full:
            break
        written = _written_edge(item, report)
        edge = None if written is None else _edge(*written, order, report)
        if edge is not None:
            edges.append(edge)
        else:
            mentioned.update(_WORD.findall(_all_text(item)))
    return tuple(edges), frozenset(mentioned)


def _written_edge(item: Tree, report: Report) -> tuple[str, Span, dict[str, Attribute] | None] | None:
    """An edge's text, its place and its attributes; these are None when they are faulty."""
    if isinstance(item, Scalar) and isinstance(item.value, str):
        return item.value, item.span, {}
    if isinstance(item, Mapping) and len(item.entries) == 1:
        ((text, entry),) = item.entries.items()
        if isinstance(entry.value, Scalar) and entry.value.value is None:
            help = ["leave the colon out, or write attributes: `{chunk: 32}`"]
            report.add(codes.BAD_EDGE, entry.key, "the edge ends with a colon but has no attributes", help=help)
            return text, entry.key, None
        is_sound = validate(entry.value, "program", "edge", report, "the edge")
        attributes = _attributes(entry.value) if is_sound and isinstance(entry.value, Mapping) else None
        return text, entry.key, attributes
    help = ["write `- a.x -> b.y`, with attributes `- a.x ~> b.y: {chunk: 32}`"]
    if isinstance(item, Mapping) and item.entries:
        help = ["indent the attributes below the edge, or write them behind it: `- a.x ~> b.y: {chunk: 32}`"]
    report.add(codes.BAD_EDGE, first_line(item), "an entry of `edges` is no edge", help=help)
    return None


def _edge(
    text: str, span: Span, attributes: MappingOf[str, Attribute] | None, order: int, report: Report
) -> EdgeSpec | None:
    match = _EDGE.match(text)
    if match is None:
        fixed = _fixed_edge(text)
        help = [f"write `{fixed or 'node.port -> node.port` for a finished value, `node.port ~> node.port'}`"]
        edits = [Edit(span=span, text=fixed)] if fixed else []
        report.add(codes.BAD_EDGE, span, f"`{text[:80]}` is no edge", help=help, edits=edits)
        return None
    offset = 1 if span.end_column - span.column == len(text) + 2 else 0  # a quoted edge
    target = _ref(match, "target", span, offset)
    return EdgeSpec(
        source=_ref(match, "source", span, offset),
        target=target if target.node is not None else replace(target, node=target.port, port=""),
        streams=match["arrow"] == "~>",
        attributes=attributes or {},
        is_sound=attributes is not None,
        order=order,
        span=span,
    )


def _fixed_edge(text: str) -> str | None:
    """What was probably meant by a text that is no edge."""
    for wrong, right in (("=>", "->"), ("-->", "->"), ("~~>", "~>"), ("→", "->"), ("- >", "->"), ("~ >", "~>")):
        if wrong in text and _EDGE.match(text.replace(wrong, right)):
            return text.replace(wrong, right)
    for wrong, right in (("<-", "->"), ("<~", "~>")):
        target, arrow, source = text.partition(wrong)
        if arrow and _EDGE.match(f"{source} {right} {target}"):
            return f"{source.strip()} {right} {target.strip()}"
    return None


def _ref(match: re.Match[str], group: str, span: Span, offset: int) -> PortRef:
    text = match[group]
    node, dot, port = text.partition(".")
    where = span.part(offset + match.start(group), len(text)) if span.line == span.end_line else span
    return PortRef(node=node if dot else None, port=port if dot else node, span=where)


__all__ = ["KINDS", "kind_of", "parse_card", "parse_program", "schema"]
