"""What an editor may send by mistake: the language server answers by the protocol or ends with one line."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls")

from omniflow.lsp.wire import Wire

BEGIN = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"processId": None, "capabilities": {}}}
END = [{"jsonrpc": "2.0", "id": 99, "method": "shutdown"}, {"jsonrpc": "2.0", "method": "exit"}]


def packed(*messages: object) -> bytes:
    bodies = [message if isinstance(message, bytes) else json.dumps(message).encode() for message in messages]
    return b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in bodies)


def opened(uri: str, text: str) -> dict[str, Any]:
    item = {"uri": uri, "languageId": "yaml", "version": 1, "text": text}
    return {"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": item}}


def serve(sent: bytes) -> tuple[list[dict[str, Any]], list[str], int]:
    """What the server answers, what it says at standard error, and its exit code."""
    process = subprocess.run([sys.executable, "-m", "omniflow", "lsp"], input=sent, capture_output=True, timeout=60)
    rest, answers = process.stdout, []
    while rest:
        header, _, rest = rest.partition(b"\r\n\r\n")
        length = int(header.split(b"Content-Length: ")[1].split(b"\r\n")[0])
        answers.append(json.loads(rest[:length]))
        rest = rest[length:]
    return answers, process.stderr.decode().splitlines(), process.returncode


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"hello world\n", "`hello world` is no line of a header"),
        (b"Content-Le", "`Content-Le` is no line of a header"),
        (b"Content-Length: ten\r\n\r\n{}", "`ten` is no length in bytes"),
        (b"Content-Length: -5\r\n\r\n{}", "`-5` is no length in bytes"),
        (b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n{}", "is no line of a header"),
        (b"Content-Length: 10\r\n", "the input ended inside a header"),
        (b"Content-Type: x\r\n\r\n{}", "a header has no `Content-Length`"),
        (b"A: b\r\n" * 40, "a header has more than 32 lines"),
        (b"Content-Length: 500\r\n\r\n{}", "the input ended after 2 of a message's 500 bytes"),
        (b"\x00\xff\xfe\n", r"`\x00\xff\xfe` is no line of a header"),
    ],
)
def test_what_cannot_be_taken_apart_ends_the_wire(sent: bytes, said: str) -> None:
    sink = io.BytesIO()
    wire = Wire(io.BytesIO(sent), sink)
    assert wire.readline() == b""
    assert wire.fault is not None
    assert said in wire.fault
    assert sink.getvalue() == b""


def test_the_server_ends_with_one_line_when_the_wire_does() -> None:
    answers, errors, code = serve(packed(BEGIN) + b"hello world\n")
    assert [each["id"] for each in answers] == [1]
    (line,) = errors
    assert line.startswith("omniflow: what came in is not of the Language Server Protocol: `hello world` is no line")
    assert code == 1


def test_a_length_beyond_the_limit_is_answered_and_not_read() -> None:
    (answer,), (line,), code = serve(b"Content-Length: 99999999999999999\r\n\r\n{}")
    assert answer["error"]["code"] == -32600
    assert answer["error"]["message"].endswith("the limit is 128 MiB")
    assert line.endswith(answer["error"]["message"])
    assert code == 1


FAULTY: list[tuple[object, object, int]] = [
    (b"hello", None, -32700),
    (b"\xff\xfe", None, -32700),
    (b"[" * 100_000, None, -32600),
    ({"jsonrpc": "2.0", "id": 2, "method": "x", "params": json.loads("[" * 200 + "]" * 200)}, None, -32600),
    ([], None, -32600),
    ({"a": 1}, None, -32600),
    ({"jsonrpc": "2.0"}, None, -32600),
    ({"jsonrpc": "2.0", "id": {}, "method": "shutdown"}, None, -32600),
    ({"jsonrpc": "2.0", "id": 2, "method": 7}, 2, -32600),
    ({"jsonrpc": "2.0", "id": 2, "method": "textDocument/didOpen", "params": {}}, 2, -32600),
    (BEGIN | {"id": 2}, 2, -32600),
    ({"jsonrpc": "2.0", "id": "a", "method": "nope", "params": [1]}, "a", -32601),
    ({"jsonrpc": "2.0", "id": 2, "method": "nope"}, 2, -32601),
    ({"jsonrpc": "2.0", "id": 2, "method": "textDocument/hover", "params": {"position": 3}}, 2, -32602),
    ({"jsonrpc": "2.0", "id": 2, "method": "textDocument/hover"}, 2, -32602),
]
PASSED_OVER = [
    {"jsonrpc": "2.0", "method": "nope"},
    {"jsonrpc": "2.0", "method": "textDocument/hover", "params": {}},
    {"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": 1}},
    {"jsonrpc": "2.0", "id": 5, "result": None},
    {"jsonrpc": "2.0", "id": 5, "error": {"code": 1, "message": "x"}},
]


def test_messages_that_cannot_be_handled_are_answered_and_the_next_ones_are_served() -> None:
    answers, errors, code = serve(packed(BEGIN, *(message for message, _, _ in FAULTY), *PASSED_OVER, *END))
    refused = [(each["id"], each["error"]["code"]) for each in answers if "error" in each]
    assert refused == [(id, code) for _, id, code in FAULTY]
    assert {each["id"] for each in answers if "result" in each} == {1, 99}
    assert (errors, code) == ([], 0)


def test_only_initialize_is_answered_before_initialize() -> None:
    params = {"textDocument": {"uri": "file:///a.yaml"}, "position": {"line": 0, "character": 0}}
    hover = {"jsonrpc": "2.0", "id": 2, "method": "textDocument/hover", "params": params}
    (answer,), errors, code = serve(packed(opened("file:///a.yaml", ""), END[0], END[1]))
    assert (answer["id"], answer["error"]["code"]) == (99, -32002)
    answers, errors, code = serve(packed(BEGIN, END[0], hover, END[1]))
    assert {each["id"]: each.get("error", {}).get("code") for each in answers} == {1: None, 99: None, 2: -32600}
    assert (errors, code) == ([], 0)


@pytest.mark.parametrize(
    ("uri", "text"), [("file:///a%00b.yaml", "a: 1"), ("{folder}/a.yaml", "a: \ud800"), ("untitled:Untitled-1", "a: 1")]
)
def test_odd_names_and_texts_of_documents_do_not_upset_the_server(uri: str, text: str, tmp_path: Path) -> None:
    uri = uri.replace("{folder}", tmp_path.as_uri())
    answers, errors, code = serve(packed(BEGIN, opened(uri, text), *END))
    assert [each["id"] for each in answers if "id" in each] == [1, 99]
    assert not [each for each in answers if each.get("method") == "window/showMessage"]
    assert (errors, code) == ([], 0)
