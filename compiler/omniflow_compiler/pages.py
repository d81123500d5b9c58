"""Writes the reference pages `docs/language.md` and `docs/diagnostics.md` from the schemas, the library and the codes.

python -m omniflow_compiler.pages docs          writes both into the folder; a test holds them to the code
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from omniflow_compiler.codes import CODES, explanation
from omniflow_compiler.library.library import BUILT_IN
from omniflow_compiler.library.signature import Attribute, FromConfig, OpSignature, Port, Ports
from omniflow_compiler.types import BASES, DTYPES
from omniflow_compiler.validate import schema

KINDS = ("card", "program", "graph", "workflow", "config")

INTRODUCTION = """# The language

A spec is one YAML document: `omniflow: 1`, a `kind`, and what that kind holds. A **card** says what a model is made
of, a **program** what a request does with it, a **graph** is a part that programs share, a **workflow** chains
programs of several cards, and a **config** says how one machine runs them. This page is made from the compiler's
own tables.

YAML is read strictly: 1.2 scalars (`on` is text, `1e-4` a number, `16:9` text), no duplicate keys, no tags, no
merge keys, aliases and depth within a budget. `$name` as a whole value stands for a param, `$component.size` for a
number of that component's checkpoint, `$$` for a dollar sign.

## Edges

One list, in reading order. `a.x -> b.y` carries a finished value; `a.x ~> b.y` carries chunks while `a` is still at
work. A name without a dot is a program input. Attributes stand behind a colon: `- a.x ~> b.y: {chunk: 32,
left_context: 27}`. What streams, items and `each` mean is [decision 1](decisions/0001-streams-items-and-each.md);
loops inside loops are [decision 3](decisions/0003-a-loop-inside-a-loop.md).

## Types

`base[axes] < vocabulary @ rate`: `tokens[T] < 49152`, `f32[F, 130] @ 80 Hz`, `image[8*H, 8*W, 3]`, `text`. An axis
is a name, a number, or an affine size of names; `N*` counts the items of a stream. Sizes are equal where an edge
says so, over the whole graph.
"""

DIAGNOSTICS = """# Diagnostics

Each fault has a stable code. `omniflow explain CODE` prints its page; the pages follow below, made from the same
files, whose examples are tests. Codes of lints can be set to allow, warn or deny under `lints:` in a spec, or silenced
on a line with `# omniflow: allow CODE`.

| code | title | level |
|---|---|---|"""


def language_page() -> str:
    """The reference of the language."""
    parts = [INTRODUCTION, _bases()]
    for kind in KINDS:
        parts += _kind(kind)
    parts += ["## Loop kinds\n"]
    for loop in BUILT_IN.loops.values():
        parts += [f"### `{loop.kind}`\n", f"{loop.doc} Units: {_listed(loop.units)}.\n", _attributes(loop.attributes)]
    parts += ["## Ops\n", "`with:` names the component an op needs; `each: true` runs any node once per item.\n"]
    for op in sorted(BUILT_IN.ops.values(), key=lambda op: op.name):
        parts += [f"### `{op.name}`\n", _op(op), _ports(op.ports), _attributes(op.attributes)]
    parts += ["## Experts\n", "What `use:` may name; packages and `--plugin` files add more.\n"]
    for expert in sorted(BUILT_IN.experts.values(), key=lambda expert: expert.use):
        parts.append(f"### `{expert.use}`\n")
        parts.append(f"{expert.doc} Role: {expert.role.replace('_', ' ')}.{_sizes(expert.sizes)}\n")
        for loop_kind, ports in expert.serves.items():
            parts += [f"Bound by `{loop_kind}`:\n", _ports(ports)]
        parts.append(_attributes(expert.attributes))
    return "\n".join(part for part in parts if part)


def diagnostics_page() -> str:
    """Every code, its title and its page."""
    rows = [
        f"| [{code.id}](#{_anchor(f'{code.id}: {code.title}')}) | {code.title} | {code.level} |"
        for code in CODES.values()
    ]
    return "\n".join([DIAGNOSTICS, *rows, "", *(_lowered(explanation(code)) for code in CODES)])


def _anchor(title: str) -> str:
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")


def _lowered(page: str) -> str:
    """The page with its headings two levels down, fenced blocks left alone."""
    lines, is_fenced = [], False
    for line in page.splitlines():
        if line.startswith("```"):
            is_fenced = not is_fenced
        lines.append(f"#{line}" if line.startswith("#") and not is_fenced else line)
    return "\n".join(lines) + "\n"


def _bases() -> str:
    kinds = _listed(f"`{base}`" for base in BASES)
    dtypes = _listed(f"`{short}`" for short in DTYPES)
    return f"Bases: {kinds}; tensors of a dtype: {dtypes}; `act` in a signature is the component's own dtype.\n"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def _kind(kind: str) -> Iterator[str]:
    whole = schema(kind)
    yield f"## `kind: {kind}`\n"
    yield f"{whole.get('description', '')}\n"
    yield _table(whole)
    for name, part in whole.get("$defs", {}).items():
        if part.get("properties"):
            yield f"### {kind}: a {name.replace('_', ' ')}\n"
            yield _table(part)


def _table(part: Mapping[str, Any]) -> str:
    required = part.get("required", ())
    rows = ["| key | value | |", "|---|---|---|"]
    for name, value in part.get("properties", {}).items():
        mark = " (required)" if name in required else ""
        rows.append(f"| `{name}`{mark} | {_value(value)} | {_cell(value.get('description', ''))} |")
    return "\n".join(rows) + "\n"


def _value(value: Mapping[str, Any]) -> str:
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        return _listed(f"`{choice}`" for choice in value["enum"])
    kinds = value.get("type")
    if isinstance(kinds, list):
        return " or ".join(kinds)
    if kinds:
        return str(kinds)
    return str(value["$ref"]).rpartition("/")[2].replace("_", " ") if "$ref" in value else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _op(op: OpSignature) -> str:
    needs = f" Needs a component of the role {op.needs.replace('_', ' ')}." if op.needs else ""
    when = "Runs once, when all its inputs are there." if op.barrier else "Runs chunk by chunk."
    return f"{op.doc}{needs} {when}\n"


def _ports(ports: Ports) -> str:
    rows = ["| port | type | |", "|---|---|---|"]
    rows += [_port(port, "in") for port in ports.inputs] + [_port(port, "out") for port in ports.outputs]
    return "\n".join(rows) + "\n"


def _port(port: Port, side: str) -> str:
    notes = [side]
    notes += ["optional"] if not port.required else []
    notes += ["streams"] if port.streams else []
    notes += ["variadic"] if port.variadic else []
    notes += [f"needs {port.left} elements before and {port.right} after a chunk"] if port.left or port.right else []
    return f"| `{port.name}` | `{_cell(port.type)}` | {'; '.join(notes)}{'. ' + _cell(port.doc) if port.doc else ''} |"


def _attributes(attributes: Sequence[Attribute]) -> str:
    if not attributes:
        return ""
    rows = ["| attribute | value | default | |", "|---|---|---|---|"]
    for attribute in attributes:
        value = _listed(f"`{choice}`" for choice in attribute.choices) or attribute.type
        default = "required" if attribute.required else f"`{_default(attribute.default)}`"
        rows.append(f"| `{attribute.name}` | {value} | {default} | {_cell(attribute.doc)} |")
    return "\n".join(rows) + "\n"


def _default(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _sizes(sizes: Mapping[str, int | FromConfig]) -> str:
    if not sizes:
        return ""
    shown = [
        f"`{name}` {size}" if isinstance(size, int) else f"`{name}` from `{size.path}`" for name, size in sizes.items()
    ]
    return f" Sizes: {_listed(shown)}."


PAGES = {"language.md": language_page, "diagnostics.md": diagnostics_page}


def main() -> int:
    """Writes the pages into the folder named on the command line."""
    if len(sys.argv) != 2:
        print("usage: python -m omniflow_compiler.pages FOLDER", file=sys.stderr)
        return 2
    for name, write in PAGES.items():
        (Path(sys.argv[1]) / name).write_text(write(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
