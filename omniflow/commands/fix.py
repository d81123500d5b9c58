"""`omniflow check --fix`: makes the safe fixes that the compiler offers, in the files that were named."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omniflow.commands.selection import Selection

if TYPE_CHECKING:
    from omniflow_compiler.edits import Applied

MAX_ROUNDS = 8  # a fix may bring to light what another one can mend


def fix_specs(selections: Sequence[Selection]) -> None:
    """Writes each file that fixes change, whole or not at all, and says what was changed."""
    from omniflow.files import WriteError, write_bytes

    for selection in selections:
        before = _content(selection.path)
        fixed = None if before is None else _fixed(selection, before)
        if fixed is None or fixed[0] == before:
            continue
        try:
            write_bytes(selection.path, fixed[0])
        except WriteError as error:
            print(f"omniflow: {error}", file=sys.stderr)
            continue
        for applied in fixed[1]:
            print(f"{applied.span}: `{applied.before}` is now `{applied.after}` ({applied.code})")


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None  # reported by the check that follows


def _fixed(selection: Selection, content: bytes) -> tuple[bytes, list[Applied]] | None:
    """The file after all fixes, and what they did; None when nothing can be done."""
    from omniflow_compiler.edits import OverlapError, apply_edits, safe_edits
    from omniflow_compiler.pipeline import compile_file
    from omniflow_compiler.reads import holding

    path, done, seen = selection.path.resolve(), [], {content}
    for _ in range(MAX_ROUNDS):
        with holding({path: content}):
            compilation = compile_file(selection.path, selection.options())
        name = compilation.sources.name_of(selection.path)
        source = compilation.sources.sources.get(name)
        edits = [(code, edit) for code, edit in safe_edits(compilation.report) if edit.span.file == name]
        if source is None or not edits:
            break
        try:
            text, applied = apply_edits(source.text, edits)
        except OverlapError as error:
            print(f"omniflow: {error}; nothing was changed there", file=sys.stderr)
            break
        mark = b"\xef\xbb\xbf" if content.startswith(b"\xef\xbb\xbf") else b""
        content = mark + text.encode("utf-8")
        if content in seen:
            break
        seen.add(content)
        done += applied
    return content, done
