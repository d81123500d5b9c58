"""What may be written at a place of a spec. It works on the text up to the cursor, which need not be sound YAML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from omniflow_compiler.editor import hover
from omniflow_compiler.editor.reading import Reading
from omniflow_compiler.library.signature import Attribute
from omniflow_compiler.parse.kind import KINDS
from omniflow_compiler.types import BASES, DTYPES
from omniflow_compiler.validate import schema

_SECTION = re.compile(r"([a-z_]+):")
_KIND = re.compile(r"^kind:\s*([a-z]+)", re.MULTILINE)
_VALUE = re.compile(r"(?:^\s*|[{,]\s*)([\w-]+):\s+[^,{}\[\]]*\Z")
_ITEM = re.compile(r"([\w-]+):\s*\[[^\]]*\Z")
_ENTRY = re.compile(r"  ([^\s#:][^:]*):(?:\s|\Z)")
_KEYS = re.compile(r"(?:^\s*|[{,]\s*)([\w-]+):", re.MULTILINE)
_ARROW = re.compile(r"\s*(?:->|~>)\s*")
_ENTRIES = {  # section: its entry in the base schema
    "components": "component", "loops": "loop", "caches": "cache", "params": "param", "nodes": "node",
    "stages": "stage", "inputs": "input",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Something that may be written: `kind` is `key`, `value`, `node`, `port`, `input`, `param` or `name`."""

    label: str
    kind: str
    detail: str = ""
    doc: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cursor:
    """Where the cursor is: the line up to it, the section, and the whole text of the entry it is in."""

    prefix: str
    section: str
    entry: str
    has_entry: bool
    kind: str
    written: frozenset[str]  # keys at the top


def complete(text: str, line: int, column: int, reading: Reading, cards: Iterable[str]) -> list[Proposal]:
    """Proposals at a 1-based line and column. `reading` is of the last text that could be read; `cards` near by."""
    lines = text.splitlines() or [""]
    cursor = _cursor(lines, min(line, len(lines)), column, text)
    return list(_proposals(cursor, reading, cards))


def _cursor(lines: list[str], line: int, column: int, text: str) -> _Cursor:
    prefix = lines[line - 1][: column - 1]
    section, entry, found = "", [prefix], False
    for above in range(line - 1, -1, -1):
        current = lines[above]
        match = _SECTION.match(current)
        if match:
            section = match[1]
            break
        if not found:
            found = bool(_ENTRY.match(current))
            if above != line - 1:
                entry.insert(0, current)
    if found:
        for below in lines[line:]:
            if not below.startswith("   "):
                break
            entry.append(below)
        entry.append(lines[line - 1][column - 1 :])
    kind = _KIND.search(text)
    written = {
        match[1] for number, other in enumerate(lines) if number != line - 1 and (match := _SECTION.match(other))
    }
    return _Cursor(
        prefix=prefix,
        section=section,
        entry="\n".join(entry),
        has_entry=found,
        kind=kind[1] if kind else "program",
        written=frozenset(written),
    )


def _proposals(cursor: _Cursor, reading: Reading, cards: Iterable[str]) -> Iterator[Proposal]:
    if re.search(r"[:,\[]\s*\$\w*\Z", cursor.prefix):
        yield from _params(reading)
    elif not cursor.prefix[:1].isspace() and not cursor.prefix.startswith("-"):
        yield from _top_level(cursor, cards)
    elif cursor.section == "edges":
        yield from _edge(cursor.prefix, reading)
    elif cursor.section == "outputs":
        proposals = _port(cursor.prefix.rpartition(":")[2].strip(), reading, outputs=True)
        yield from (proposal for proposal in proposals if proposal.kind != "input")
    elif cursor.section == "capabilities":
        yield from _plain(_described(schema("card")["$defs"]["capability"]))
    elif cursor.section in _ENTRIES and cursor.has_entry:
        yield from _entry(cursor, reading)


def _top_level(cursor: _Cursor, cards: Iterable[str]) -> Iterator[Proposal]:
    key, colon, _ = cursor.prefix.partition(":")
    if not colon:
        kind = cursor.kind if cursor.kind in KINDS else "program"
        for name, described in schema(kind)["properties"].items():
            if name in cursor.written:
                continue
            yield Proposal(label=name, kind="key", detail=described.get("description", ""))
    elif key == "kind":
        yield from _plain({kind: schema(kind)["description"] for kind in KINDS})
    elif key == "card":
        yield from _plain(dict.fromkeys(cards, "card in this folder"))
    elif key == "capabilities":
        yield from _plain(_described(schema("card")["$defs"]["capability"]))


def _params(reading: Reading) -> Iterator[Proposal]:
    own = reading.card if reading.kind == "card" else reading.program
    for name, value in ({} if own is None else own.params).items():
        yield Proposal(label=f"${name}", kind="param", detail=f"param, now {value}")


def _edge(prefix: str, reading: Reading) -> Iterator[Proposal]:
    body = prefix.strip().removeprefix("-").strip().lstrip("'\"")
    if not prefix.strip().startswith("-") or re.search(r":\s*\{[^}]*\Z", body):
        written = set(_KEYS.findall(body))
        for name, described in schema("program")["$defs"]["edge"]["properties"].items():
            if name not in written:
                doc = described.get("description", "")
                yield Proposal(label=name, kind="key", detail=doc)
        return
    ends = _ARROW.split(body)
    yield from _port(ends[-1], reading, outputs=len(ends) == 1)


def _port(written: str, reading: Reading, *, outputs: bool) -> Iterator[Proposal]:
    """A node and then a port of it; where a value comes from, inputs of the program too."""
    node, dot, _ = written.partition(".")
    if dot:
        part = reading.parts.get(node)
        sockets = {} if part is None else part.outputs if outputs else part.inputs
        for name, socket in sockets.items():
            yield Proposal(label=name, kind="port", detail=socket.type, doc=socket.doc)
        return
    if outputs:
        for spec in reading.inputs.values():
            yield Proposal(label=spec.name.text, kind="input", detail=spec.type.text, doc=spec.help)
    for name, part in reading.parts.items():
        if part.outputs if outputs else part.inputs:
            yield Proposal(label=name, kind="node", detail=part.what, doc=hover.of_part(name, part))


def _entry(cursor: _Cursor, reading: Reading) -> Iterator[Proposal]:
    """Inside an entry of a section: a value behind a key, or one more key."""
    item = _ITEM.search(cursor.prefix)
    value = item or _VALUE.search(cursor.prefix)
    body = re.sub(r"\A\s*[^\s:]+:", "", cursor.entry, count=1)
    written = {key: _scalar(body, key) for key in _KEYS.findall(body)}
    attributes = {attribute.name: attribute for attribute in _attributes(cursor.section, written, reading)}
    if value is not None and not (value.start() == 0 and _ENTRY.match(cursor.prefix) and "{" not in cursor.prefix):
        yield from _value(cursor.section, value[1], written, attributes, reading)
    elif cursor.section == "inputs" and "{" not in cursor.prefix and _ENTRY.match(cursor.prefix):
        yield from _plain(dict.fromkeys([*BASES, *DTYPES], "type"))
    else:
        yield from _keys(cursor.section, written, attributes)


def _scalar(body: str, key: str) -> str:
    found = re.search(rf"(?:^\s*|[{{,]\s*){re.escape(key)}:\s*([^\s,{{}}]+)", body, re.MULTILINE)
    return found[1] if found else ""


def _attributes(section: str, written: Mapping[str, str], reading: Reading) -> Iterable[Attribute]:
    """The attributes that the op, loop kind or expert of an entry declares."""
    library = reading.library
    op, loop = library.ops.get(written.get("op", "")), library.loops.get(written.get("kind", ""))
    if section == "nodes" and op is not None:
        return op.attributes
    if section == "loops" and loop is not None:
        return loop.attributes
    expert = library.experts.get(written.get("use", "")) if section == "components" else None
    return () if expert is None else expert.attributes


def _keys(section: str, written: Mapping[str, str], attributes: Mapping[str, Attribute]) -> Iterator[Proposal]:
    kind = "program" if section in ("nodes", "inputs") else "workflow" if section == "stages" else "card"
    known: Mapping[str, Any] = schema(kind)["$defs"][_ENTRIES[section]]["properties"]
    kinds = {"op", "loop", "graph"}
    chosen = kinds & set(written)
    for name, described in known.items():
        if name not in written and not (section == "nodes" and name in kinds and chosen):
            yield Proposal(label=name, kind="key", detail=described.get("description", ""))
    for name, attribute in attributes.items():
        if name not in written:
            yield Proposal(label=name, kind="key", detail=attribute.doc, doc=hover.of_attribute(attribute))


def _value(
    section: str, key: str, written: Mapping[str, str], attributes: Mapping[str, Attribute], reading: Reading
) -> Iterator[Proposal]:
    library, attribute = reading.library, attributes.get(key)
    if attribute is not None:
        choices = attribute.choices or (("true", "false") if attribute.type == "bool" else ())
        yield from _plain(dict.fromkeys(choices, attribute.doc))
        if attribute.type == "expression":
            counted = [name for name, loop in reading.loops.items() if "tokens" in loop.outputs]
            yield from _plain({f"{name}.tokens": "how many tokens that loop gave" for name in counted})
        return
    match section, key:
        case "nodes", "op":
            for name, op in library.ops.items():
                yield Proposal(label=name, kind="name", detail=op.doc, doc=hover.of_op(op))
        case "nodes", "loop":
            loops = {} if reading.card is None else reading.card.loops
            yield from _plain({name: f"{loop.kind.text} over {loop.binds.text}" for name, loop in loops.items()})
        case "nodes", "with":
            yield from _components(reading, role=_role(written, reading))
        case "nodes", "each":
            yield from _plain({"true": "once per item", "false": ""})
        case "components", "use":
            for name, expert in library.every_expert().items():
                yield Proposal(label=name, kind="name", detail=expert.doc, doc=hover.of_expert(expert))
        case "loops", "kind":
            for name, signature in library.loops.items():
                yield Proposal(label=name, kind="name", detail=signature.doc, doc=hover.of_loop_kind(signature))
        case "loops", "binds":
            yield from _components(reading, serves=written.get("kind"))
        case "loops", "cache":
            caches = {} if reading.card is None else reading.card.caches
            yield from _plain({name: hover.of_cache(cache) for name, cache in caches.items()})
        case _, _:
            kind = "card" if section in ("components", "loops", "caches", "params") else "program"
            part = schema(kind)["$defs"].get(_ENTRIES[section], {}).get("properties", {}).get(key, {})
            yield from _plain(_described(part))
            if section == "inputs" and key == "type":
                yield from _plain(dict.fromkeys([*BASES, *DTYPES], "type"))


def _role(written: Mapping[str, str], reading: Reading) -> str | None:
    op = reading.library.ops.get(written.get("op", ""))
    return None if op is None else op.needs


def _components(reading: Reading, *, role: str | None = None, serves: str | None = None) -> Iterator[Proposal]:
    for name, component in reading.components.items():
        signature = component.signature
        if (role is None or signature.role == role) and (serves in (None, "") or serves in signature.serves):
            yield Proposal(label=name, kind="name", detail=signature.use, doc=hover.of_expert(signature))


def _described(part: Mapping[str, Any]) -> dict[str, str]:
    """The values an enumeration of the schema allows."""
    values = part.get("enum", ["true", "false"] if part.get("type") == "boolean" else [])
    return {str(value): part.get("description", "") for value in values}


def _plain(values: Mapping[str, str]) -> Iterator[Proposal]:
    for name, detail in values.items():
        yield Proposal(label=name, kind="value", detail=detail)
