"""Writes the reference pages `docs/language.md` and `docs/diagnostics.md` from the schemas, the library and the codes.

python -m omniflow_compiler.pages docs          writes both into the folder; a test holds them to the code
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from omniflow_compiler.codes import CODES, Code, explanation
from omniflow_compiler.library.library import BUILT_IN
from omniflow_compiler.library.signature import Attribute, FromConfig, OpSignature, Port, Ports
from omniflow_compiler.passes.capabilities import REACH
from omniflow_compiler.types import BASES, DTYPES
from omniflow_compiler.validate import schema

KINDS = ("card", "program", "graph", "workflow", "config")


def _introduction(name: str) -> str:
    """What is written by hand and stands before the tables."""
    return (resources.files("omniflow_compiler") / "introductions" / name).read_text(encoding="utf-8")


def language_page() -> str:
    """The reference of the language."""
    parts = [_introduction("language.md"), "## Bases\n", _bases()]
    for kind in KINDS:
        parts += _kind(kind)
    parts += ["## Capabilities\n", "What a card may promise, and what its programs must give.\n", _capabilities()]
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
        f"| [{code.id}](#{_anchor(f'{code.id}: {code.title}')}) | {code.title} | {_level(code)} |"
        for code in CODES.values()
    ]
    return _introduction("diagnostics.md") + "\n".join([*rows, "", *(_lowered(explanation(code)) for code in CODES)])


def _level(code: Code) -> str:
    return f"{code.level}, a lint" if code.lint else code.level


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


def _capabilities() -> str:
    rows = ["| capability | an output | that depends on an input | through |", "|---|---|---|---|"]
    for name, reach in REACH.items():
        given = _listed(f"`{base}`" for base in reach.output) + (f", and `{reach.also}`" if reach.also else "")
        taken = _listed(f"`{base}`" for base in reach.inputs) or "any"
        rows.append(f"| `{name}` | {given} | {taken} | {f'`{reach.loop}`' if reach.loop else 'anything'} |")
    return "\n".join(rows) + "\n"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def _kind(kind: str) -> Iterator[str]:
    whole = schema(kind)
    yield f"## `kind: {kind}`\n"
    yield f"{whole.get('description', '')}\n"
    yield _table(whole)
    for name, part in whole.get("$defs", {}).items():
        if part.get("properties"):
            article = "an" if name[0] in "aeiou" else "a"
            yield f"### {kind}: {article} {name.replace('_', ' ')}\n"
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
