"""An editor without a screen: speaks the Language Server Protocol to a process over its pipes."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

TIMEOUT = 60


class Editor:
    """Starts the server, opens files, asks, and keeps what the server says unasked."""

    def __init__(self, root: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "omniflow", "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root
        )
        self.inbox: queue.Queue[dict[str, Any]] = queue.Queue()
        self.diagnostics: dict[str, list[dict[str, Any]]] = {}
        self.versions: dict[Path, int] = {}
        self.next_id = 0
        threading.Thread(target=self._listen, daemon=True).start()
        self.capabilities = self.ask("initialize", {"processId": None, "rootUri": root.as_uri(), "capabilities": {}})
        self.tell("initialized", {})

    def __enter__(self) -> Editor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.ask("shutdown", None)
            self.tell("exit", None)
            assert self.process.wait(TIMEOUT) == 0
        else:
            self.process.kill()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()

    def _listen(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while line := stream.readline():
            size = 0
            while line.strip():
                name, _, value = line.decode().partition(":")
                size = int(value) if name.lower() == "content-length" else size
                line = stream.readline()
            self.inbox.put(json.loads(stream.read(size)))

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def tell(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def ask(self, method: str, params: Any) -> Any:
        """The result of a request; what comes before it is kept. Errors of the server fail the test."""
        self.next_id += 1
        self._send({"id": self.next_id, "method": method, "params": params})
        while True:
            message = self.inbox.get(timeout=TIMEOUT)
            if message.get("method") == "textDocument/publishDiagnostics":
                self.diagnostics[message["params"]["uri"]] = message["params"]["diagnostics"]
            if message.get("id") == self.next_id:
                assert "error" not in message, message
                return message["result"]

    def open(self, path: Path, text: str | None = None) -> list[dict[str, Any]]:
        """Opens a file, with a text that need not be saved; what is wrong with it."""
        self.versions[path] = 1
        item = {
            "uri": path.as_uri(),
            "languageId": "yaml",
            "version": 1,
            "text": path.read_text() if text is None else text,
        }
        self.tell("textDocument/didOpen", {"textDocument": item})
        return self.faults(path)

    def change(self, path: Path, text: str) -> list[dict[str, Any]]:
        """Puts another text in place of the whole document; what is wrong with it."""
        self.versions[path] += 1
        document = {"uri": path.as_uri(), "version": self.versions[path]}
        self.tell("textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]})
        return self.faults(path)

    def faults(self, path: Path) -> list[dict[str, Any]]:
        """The last diagnostics of a file: a request is answered only after they were sent."""
        self.ask("textDocument/hover", {**self.at(path, 0, 0)})
        return self.diagnostics.get(path.as_uri(), [])

    def at(self, path: Path, line: int, character: int) -> dict[str, Any]:
        return {"textDocument": {"uri": path.as_uri()}, "position": {"line": line, "character": character}}

    def hover(self, path: Path, line: int, character: int) -> str:
        found = self.ask("textDocument/hover", self.at(path, line, character))
        return "" if found is None else str(found["contents"]["value"])

    def definition(self, path: Path, line: int, character: int) -> tuple[str, int, int] | None:
        """File name, line and column of where a thing is declared."""
        found = self.ask("textDocument/definition", self.at(path, line, character))
        if found is None:
            return None
        start = found["range"]["start"]
        return found["uri"].rpartition("/")[2], start["line"], start["character"]

    def complete(self, path: Path, line: int, character: int) -> dict[str, dict[str, Any]]:
        found = self.ask("textDocument/completion", self.at(path, line, character))
        return {item["label"]: item for item in (found or {"items": []})["items"]}
