"""`omniflow fmt`: spec files in their canonical layout."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omniflow.commands.arguments import BadArgument

if TYPE_CHECKING:
    from omniflow_compiler.diagnostics import Report
    from omniflow_compiler.source import SourceSet


def format_files(paths: Sequence[Path], *, check: bool) -> int:
    """Lays out each file, every spec of a folder, or standard input for `-`; 1 when one cannot be read.

    With `check` nothing is written, and 1 says that a file is not laid out.
    """
    if [str(path) for path in paths] == ["-"]:
        return _filter(check)
    code, changed, number = 0, 0, 0
    for path in _files(paths):
        number += 1
        outcome = _format(path, check)
        code = max(code, 1 if outcome is None or (outcome and check) else 0)
        changed += bool(outcome)
    verb = "would be laid out anew" if check else "laid out anew"
    print(f"{changed} of {number} file{'s' if number != 1 else ''} {verb}")
    return code


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(found for end in ("yaml", "yml") for found in path.rglob(f"*.{end}") if _is_spec(found))
        elif path.exists():
            yield path
        else:
            raise BadArgument(f"there is no file or folder `{path}`")


def _is_spec(path: Path) -> bool:
    """Whether a file of a folder says that it is one of ours."""
    from omniflow_compiler.reads import MAX_FILE_BYTES, read_bounded

    try:
        text = read_bounded(path, MAX_FILE_BYTES).decode()
    except (OSError, UnicodeDecodeError):
        return False
    return text.startswith("omniflow:") or "\nomniflow:" in text


def _format(path: Path, check: bool) -> bool | None:
    """Whether the file's layout changes; None after its faults were printed."""
    from omniflow.files import WriteError, write_text
    from omniflow_compiler.diagnostics import Report
    from omniflow_compiler.load.text import read_source
    from omniflow_compiler.reads import MAX_FILE_BYTES, read_bounded
    from omniflow_compiler.source import SourceSet

    report, sources = Report(), SourceSet(path.absolute().parent)
    source = read_source(path, sources, report)
    text = None if source is None else _text(sources.name_of(path), path, source.text, report)
    if text is None:
        _print(report, sources)
        return None
    if text.encode("utf-8") == read_bounded(path, MAX_FILE_BYTES):
        return False
    if check:
        print(f"{path}: not laid out")
        return True
    try:
        write_text(path, text)
    except WriteError as error:
        print(f"omniflow: {error}", file=sys.stderr)
        return None
    print(f"{path}: laid out")
    return True


def _text(name: str, path: Path, text: str, report: Report) -> str | None:
    from omniflow_compiler.layout.format import FormatError, format_text
    from omniflow_compiler.source import Source

    try:
        return format_text(Source(name=name, path=path, text=text, lines=tuple(text.splitlines())), report)
    except FormatError as error:
        print(f"omniflow: {error}", file=sys.stderr)
        return None


def _filter(check: bool) -> int:
    from omniflow_compiler.diagnostics import Report
    from omniflow_compiler.reads import MAX_FILE_BYTES
    from omniflow_compiler.source import SourceSet

    report, sources = Report(), SourceSet(Path.cwd())
    try:
        text = sys.stdin.read(MAX_FILE_BYTES)
        text.encode()
    except UnicodeError:  # as it is read, or, where Python lets such bytes through, as it is written again
        print("omniflow: standard input is not UTF-8", file=sys.stderr)
        return 1
    name = sources.add(Path("-"), text).name
    result = _text(name, Path("-"), text, report)
    if result is None:
        _print(report, sources)
        return 1
    if not check:
        sys.stdout.write(result)
    return 1 if check and result != text else 0


def _print(report: Report, sources: SourceSet) -> None:
    from omniflow_compiler.render import render_report

    sys.stderr.write(render_report(report, sources))
