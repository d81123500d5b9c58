"""What the server answers, in the protocol's words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from lsprotocol import types
from pygls.workspace import PositionCodec

from omniflow.lsp.positions import lines_of, to_range, whole
from omniflow_compiler.diagnostics import Diagnostic, Edit
from omniflow_compiler.editor.completion import Proposal
from omniflow_compiler.edits import OverlapError, apply_edits, safe_edits
from omniflow_compiler.source import Span


class Files(Protocol):
    """The files that findings are in: by the name that diagnostics show, as the client calls them, and their lines."""

    @property
    def codec(self) -> PositionCodec: ...
    def path_of(self, name: str) -> Path: ...
    def uri_of(self, path: Path) -> str: ...
    def lines(self, path: Path) -> Sequence[str]: ...


_SEVERITY = {"error": types.DiagnosticSeverity.Error, "warning": types.DiagnosticSeverity.Warning}
_KINDS = {
    "key": types.CompletionItemKind.Property, "value": types.CompletionItemKind.EnumMember,
    "node": types.CompletionItemKind.Module, "port": types.CompletionItemKind.Field,
    "input": types.CompletionItemKind.Variable, "param": types.CompletionItemKind.Variable,
    "name": types.CompletionItemKind.Reference,
}  # fmt: skip


def diagnostic(found: Diagnostic, path: Path, files: Files) -> types.Diagnostic:
    """A finding, with its notes and help below the message and its other places beside it."""
    text = [found.message, *([found.note] if found.note else []), *(f"help: {line}" for line in found.help)]
    related = [
        types.DiagnosticRelatedInformation(
            location=location(label.span, files.path_of(label.span.file), files), message=label.text
        )
        for label in found.labels
    ]
    return types.Diagnostic(
        range=to_range(found.span, files.lines(path), files.codec, visible=True),
        severity=_SEVERITY[found.level],
        code=found.code,
        source="omniflow",
        message="\n".join(text),
        related_information=related,
    )


def location(span: Span, path: Path, files: Files) -> types.Location:
    """A place in a file."""
    return types.Location(uri=files.uri_of(path), range=to_range(span, files.lines(path), files.codec))


def completion(proposal: Proposal) -> types.CompletionItem:
    """A proposal. A key brings its colon, a node its dot."""
    insert = {"key": f"{proposal.label}: ", "node": f"{proposal.label}."}.get(proposal.kind, proposal.label)
    doc = types.MarkupContent(kind=types.MarkupKind.Markdown, value=proposal.doc) if proposal.doc else None
    return types.CompletionItem(
        label=proposal.label,
        kind=_KINDS[proposal.kind],
        detail=proposal.detail or None,
        documentation=doc,
        insert_text=insert,
        filter_text=proposal.label,
    )


def markdown(text: str) -> types.Hover:
    """A hover."""
    return types.Hover(contents=types.MarkupContent(kind=types.MarkupKind.Markdown, value=text))


def replacement(text: str, new: str) -> list[types.TextEdit]:
    """The edit that puts one text in place of another; none where they are equal."""
    return [] if text == new else [types.TextEdit(range=whole(lines_of(text)), new_text=new)]


def fixes(found: Iterable[Diagnostic], uri: str, text: str, codec: PositionCodec) -> list[types.CodeAction]:
    """A quick fix per edit of the findings that is in their own file."""
    lines = lines_of(text)
    actions = []
    for each in found:
        for edit in each.edits:
            if edit.span.file != each.span.file:
                continue
            title = f"Write `{edit.text}`" if edit.text else "Remove it"
            actions.append(
                types.CodeAction(
                    title=title,
                    kind=types.CodeActionKind.QuickFix,
                    is_preferred=edit.safe,
                    edit=_change(uri, [_text_edit(edit, lines, codec)]),
                )
            )
    return actions


def fix_all(found: Iterable[Diagnostic], uri: str, text: str) -> list[types.CodeAction]:
    """One action that makes all safe fixes of a file; none where two of them overlap."""
    edits = safe_edits(found)
    try:
        new, _ = apply_edits(text, edits)
    except OverlapError:
        return []
    changes = replacement(text, new)
    if not changes:
        return []
    return [
        types.CodeAction(
            title=f"Make all {len(edits)} safe fixes",
            kind=types.CodeActionKind.SourceFixAll,
            edit=_change(uri, changes),
        )
    ]


def _text_edit(edit: Edit, lines: Sequence[str], codec: PositionCodec) -> types.TextEdit:
    return types.TextEdit(range=to_range(edit.span, lines, codec), new_text=edit.text)


def _change(uri: str, edits: list[types.TextEdit]) -> types.WorkspaceEdit:
    return types.WorkspaceEdit(changes={uri: edits})
