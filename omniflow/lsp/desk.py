"""The open documents: their texts, what was last read of each, and the findings of all of them by file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from omniflow_compiler.diagnostics import Diagnostic
from omniflow_compiler.editor.reading import Reading, read_spec
from omniflow_compiler.editor.symbols import Symbol, symbols
from omniflow_compiler.pipeline import Options
from omniflow_compiler.reads import holding


@dataclass(slots=True, kw_only=True)
class OpenDocument:
    """One document. `sound` is of its last text that could be read as YAML; `reading` of the present one."""

    text: str
    reading: Reading | None = None
    sound: Reading | None = None
    symbols: list[Symbol] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Desk:
    """All open documents by resolved path."""

    options: Options = field(default_factory=Options)
    documents: dict[Path, OpenDocument] = field(default_factory=dict)

    def put(self, path: Path, text: str) -> None:
        """A document was opened or changed."""
        document = self.documents.get(path)
        if document is None:
            self.documents[path] = OpenDocument(text=text)
        else:
            document.text = text

    def close(self, path: Path) -> None:
        """The file on disk counts again."""
        self.documents.pop(path, None)

    def read(self) -> Mapping[Path, list[Diagnostic]]:
        """Reads all documents again, for one may include another; the findings by the file they are in."""
        findings: dict[Path, dict[Diagnostic, None]] = {path: {} for path in self.documents}
        with holding({path: document.text.encode(errors="replace") for path, document in self.documents.items()}):
            for path, document in self.documents.items():
                document.reading = read_spec(path, self.options)
                if document.reading.tree is not None:
                    document.sound = document.reading
                    document.symbols = symbols(document.reading)
                files = {name: source.path for name, source in document.reading.sources.sources.items()}
                for found in document.reading.report:
                    findings.setdefault(files.get(found.span.file, path), {})[found] = None
        return {path: list(found) for path, found in findings.items()}
