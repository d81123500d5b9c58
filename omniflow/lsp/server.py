"""The language server: diagnostics, hover, definitions, completion, layout and fixes of specs, over stdio."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.workspace import PositionCodec

from omniflow.lsp import answers
from omniflow.lsp.desk import Desk, OpenDocument
from omniflow.lsp.positions import lines_of, to_place
from omniflow_compiler import codes
from omniflow_compiler.cards import cards_beside
from omniflow_compiler.diagnostics import Diagnostic, Report
from omniflow_compiler.editor.completion import complete
from omniflow_compiler.editor.symbols import symbol_at
from omniflow_compiler.layout.format import FormatError, format_text
from omniflow_compiler.pipeline import Options
from omniflow_compiler.source import Source
from omniflow_compiler.version import VERSION

TRIGGERS = [".", ":", " ", "{", "$", ">"]


# Of a document that was never saved nobody knows what will be beside it.
ABOUT_OTHER_FILES = frozenset(code.id for code in (codes.UNREADABLE, codes.UNKNOWN_CARD, codes.OUTSIDE))


def path_of(uri: str) -> Path:
    """The resolved path of a `file:` URI; of a document that was never saved (`untitled:`), one where we work."""
    return Path(unquote(urlsplit(uri).path).replace("\0", "\ufffd")).resolve()  # no path has a null


class Server(LanguageServer):
    """A language server with a desk of open documents."""

    def __init__(self, options: Options) -> None:
        super().__init__("omniflow", VERSION, types.TextDocumentSyncKind.Full)
        self.desk = Desk(options=options)
        self.findings: dict[Path, list[Diagnostic]] = {}
        self.uris: dict[Path, str] = {}  # as the client calls its open documents

    @property
    def codec(self) -> PositionCodec:
        return self.workspace.position_codec

    def document(self, uri: str) -> OpenDocument | None:
        return self.desk.documents.get(path_of(uri))

    def changed(self, uri: str, text: str) -> None:
        """A document has a new text: everything open is read again."""
        self.uris[path_of(uri)] = uri
        self.desk.put(path_of(uri), text)
        self.publish()

    def publish(self) -> None:
        """Tells the client what is wrong in each file, and that nothing is any more in files that were mended."""
        found = dict(self.desk.read())
        for path in sorted({*found, *self.findings}):
            mine = found.get(path, [])
            uri = self.uri_of(path)
            hidden = frozenset() if uri.startswith("file:") else ABOUT_OTHER_FILES
            shown = [
                answers.diagnostic(each, path, self)
                for each in mine
                if not each.span.file.startswith("<") and each.code not in hidden
            ]
            params = types.PublishDiagnosticsParams(uri=uri, diagnostics=shown)
            self.text_document_publish_diagnostics(params)
        self.findings = {path: mine for path, mine in found.items() if mine or path in self.desk.documents}

    def closed(self, uri: str) -> None:
        """The client shows a document no more: what counts is the file, if there is one."""
        self.desk.close(path_of(uri))
        self.publish()
        self.uris.pop(path_of(uri), None)

    def uri_of(self, path: Path) -> str:
        """What the client calls a file."""
        return self.uris.get(path) or path.as_uri()

    def path_of(self, name: str) -> Path:
        """The path behind a name that diagnostics show."""
        for document in self.desk.documents.values():
            if document.reading is not None and name in document.reading.sources.sources:
                return document.reading.sources.sources[name].path
        return Path(name).absolute()

    def lines(self, path: Path) -> Sequence[str]:
        """The lines of a file: as the editor holds it, or as the compiler read it."""
        if path in self.desk.documents:
            return lines_of(self.desk.documents[path].text)
        for document in self.desk.documents.values():
            for source in document.reading.sources.sources.values() if document.reading is not None else ():
                if source.path == path:
                    return lines_of(source.text)
        return []

    def place(self, document: OpenDocument, position: types.Position) -> tuple[int, int]:
        return to_place(position, lines_of(document.text), self.codec)


def make_server(options: Options) -> Server:
    """The server with all its features."""
    server = Server(options)
    _watch(server)
    _answer(server)
    _write(server)
    return server


def _watch(server: Server) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def _opened(ls: Server, params: types.DidOpenTextDocumentParams) -> None:
        ls.changed(params.text_document.uri, params.text_document.text)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def _changed(ls: Server, params: types.DidChangeTextDocumentParams) -> None:
        uri = params.text_document.uri
        ls.changed(uri, ls.workspace.get_text_document(uri).source)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def _saved(ls: Server, _: types.DidSaveTextDocumentParams) -> None:
        ls.publish()

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def _closed(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
        ls.closed(params.text_document.uri)


def _answer(server: Server) -> None:
    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def _hover(ls: Server, params: types.HoverParams) -> types.Hover | None:
        document = ls.document(params.text_document.uri)
        symbol = None if document is None else symbol_at(document.symbols, *ls.place(document, params.position))
        return None if symbol is None else answers.markdown(symbol.hover)

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def _definition(ls: Server, params: types.DefinitionParams) -> types.Location | None:
        document = ls.document(params.text_document.uri)
        symbol = None if document is None else symbol_at(document.symbols, *ls.place(document, params.position))
        if symbol is None or symbol.target is None:
            return None
        path, span = symbol.target.path, symbol.target.span
        if span is None:
            start = types.Position(line=0, character=0)
            return types.Location(uri=ls.uri_of(path), range=types.Range(start=start, end=start))
        return answers.location(span, path, ls)

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=TRIGGERS))
    def _completion(ls: Server, params: types.CompletionParams) -> types.CompletionList | None:
        document = ls.document(params.text_document.uri)
        reading = None if document is None else document.sound or document.reading
        if document is None or reading is None:
            return None
        line, column = ls.place(document, params.position)
        cards = cards_beside(path_of(params.text_document.uri))
        items = [answers.completion(each) for each in complete(document.text, line, column, reading, cards)]
        return types.CompletionList(is_incomplete=False, items=items)


def _write(server: Server) -> None:
    @server.feature(types.TEXT_DOCUMENT_FORMATTING)
    def _format(ls: Server, params: types.DocumentFormattingParams) -> list[types.TextEdit] | None:
        document = ls.document(params.text_document.uri)
        if document is None:
            return None
        source = Source(name="document", path=path_of(params.text_document.uri), text=document.text, lines=())
        try:
            text = format_text(source, Report())
        except FormatError:
            return None
        return None if text is None else answers.replacement(document.text, text)

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix, types.CodeActionKind.SourceFixAll]),
    )
    def _actions(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction] | None:
        uri = params.text_document.uri
        document = ls.document(uri)
        if document is None:
            return None
        mine = ls.findings.get(path_of(uri), [])
        first, last = params.range.start.line + 1, params.range.end.line + 1
        here = [found for found in mine if found.span.line <= last and first <= found.span.end_line]
        return [
            *answers.fixes(here, uri, document.text, ls.codec),
            *answers.fix_all([found for found in mine if found.edits], uri, document.text),
        ]
