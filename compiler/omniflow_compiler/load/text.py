"""Reads the text of a file, bounded in size."""

from __future__ import annotations

from pathlib import Path

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Report
from omniflow_compiler.quantities import show_bytes
from omniflow_compiler.reads import MAX_FILE_BYTES, note_file, num_bytes, read_bytes
from omniflow_compiler.source import Source, SourceSet, Span


def read_source(path: Path, sources: SourceSet, report: Report) -> Source | None:
    """The file's text, bounded in size; None with the reason in the report."""
    here = Span(sources.name_of(path), 1, 1, 1, 1)
    try:
        size = num_bytes(path)
        content = read_bytes(path) if size <= MAX_FILE_BYTES else b""
    except OSError as error:
        note_file(path)
        _report_unreadable(path, here, error, report)
        return None
    size = max(size, len(content))  # what is no file of a disk tells no size
    if size > MAX_FILE_BYTES:
        note_file(path)
        message = f"file has {show_bytes(size)}, the limit is {show_bytes(MAX_FILE_BYTES)}"
        report.add(codes.TOO_LARGE, here, message, help=["share parts of it as graphs"])
        return None
    note_file(path, content)
    try:
        return sources.add(path, content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        _report_encoding(sources.add(path, content.decode("utf-8", errors="replace")), content, error, report)
        return None


def _report_unreadable(path: Path, here: Span, error: OSError, report: Report) -> None:
    is_folder = isinstance(error, IsADirectoryError)
    inside = sorted(found.name for found in path.glob("*.program.y*ml"))[:3] if is_folder else []
    help = [f"name a file of it: {', '.join(f'`{name}`' for name in inside)}"] if inside else []
    reason = (error.strerror or "error").lower()
    report.add(codes.UNREADABLE, here, f"cannot read `{here.file}`: {reason}", help=help)


def _report_encoding(source: Source, content: bytes, error: UnicodeDecodeError, report: Report) -> None:
    before = content[: error.start].decode("utf-8", errors="replace")
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    span = Span(source.name, line, column, line, column + 1)
    message = f"file is not UTF-8: byte {error.start + 1} (0x{content[error.start]:02x}) cannot be decoded"
    report.add(codes.TOO_LARGE, span, message, help=["save it as UTF-8"])
