"""The pages of diagnostic codes: why each matters, a bad example with its exact output, a good one.

A page is Markdown with the files of its examples in fences: `yaml NAME`, or `yaml NAME ENCODING` when not UTF-8.
`## Good` has only the files that change. The output is what `python -m omniflow_compiler.explanations` writes there.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

from omniflow_compiler.codes import CODES, explanation
from omniflow_compiler.diagnostics import Report
from omniflow_compiler.pipeline import Options, compile_file
from omniflow_compiler.quantities import parse_bytes
from omniflow_compiler.render import render_report

PROMPT = "$ omniflow check "
_FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page taken apart. `bad` and `good` are the contents of files by name; `good` goes over `bad`."""

    code: str
    text: str
    bad: Mapping[str, bytes]
    good: Mapping[str, bytes]
    command: str  # what follows `omniflow check`
    good_command: str
    output: str


def read_page(code: str) -> Page:
    """The page of a code. Errors: KeyError for an unknown code, ValueError for a page without examples."""
    text = explanation(code)
    bad_part, _, good_part = text.partition("\n## Good\n")
    command, output = _command(bad_part)
    return Page(
        code=code,
        text=text,
        bad=_files(bad_part),
        good=_files(good_part),
        command=command,
        good_command=_command(good_part)[0] if PROMPT in good_part else command,
        output=output,
    )


def _files(part: str) -> dict[str, bytes]:
    found = {}
    for fence in _FENCE.finditer(part):
        kind, *rest = fence["info"].split()
        if kind == "yaml" and rest:
            found[rest[0]] = fence["body"].encode(rest[1] if len(rest) > 1 else "utf-8")
    return found


def _command(part: str) -> tuple[str, str]:
    for fence in _FENCE.finditer(part):
        if fence["info"] == "text" and fence["body"].startswith(PROMPT):
            command, _, output = fence["body"].removeprefix(PROMPT).partition("\n")
            return command, output
    raise ValueError(f"a page has no `text` fence that begins with `{PROMPT}`")


def run(files: Mapping[str, bytes], command: str, folder: Path) -> tuple[Report, str]:
    """Checks files in a folder as the command line would: the findings, and how they are shown."""
    folder = folder / "project" / "family"  # files may name others in the project, two levels up is outside
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    spec, *rest = shlex.split(command)
    given: dict[str, list[str]] = {}
    for option, value in zip(rest[::2], rest[1::2], strict=True):
        given.setdefault(option, []).append(value)
    budgets = {device: parse_bytes(size) or 0 for device, size in _pairs(given.get("--budget", []))}
    outputs = given["--outputs"][0].split(",") if "--outputs" in given else None
    options = Options(params=dict(_pairs(given.get("--set", []))), outputs=outputs, budgets=budgets)
    with chdir(folder):
        compilation = compile_file(Path(spec), options)
        return compilation.report, render_report(compilation.report, compilation.sources)


def _pairs(written: list[str]) -> list[tuple[str, str]]:
    return [(name, value) for name, _, value in (text.partition("=") for text in written)]


def renewed(page: Page, folder: Path) -> str:
    """The page's text with its title and its output as they are now."""
    _, output = run(page.bad, page.command, folder)
    title = f"# {page.code}: {CODES[page.code].title}\n"
    text = title + page.text.partition("\n")[2]
    return text.replace(f"{PROMPT}{page.command}\n{page.output}```", f"{PROMPT}{page.command}\n{output}```", 1)
