from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.house.process import ROOT

COMMAND = [sys.executable, "-m", "omniflow", "serve"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'compiler'}"}


def serve(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *arguments], cwd=folder, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_it_says_where_it_serves_answers_there_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    server = serve("null.speech", "--port", "0", folder=tmp_path)
    assert server.stderr is not None
    line = server.stderr.readline()
    address = line.partition(" at ")[2].split()[0]
    assert line.startswith("omniflow: serving null-speech.speech at http://127.0.0.1:")
    with urllib.request.urlopen(f"{address}/health", timeout=20) as answer:
        assert answer.read() == b"ok\n"
    with urllib.request.urlopen(address, timeout=20) as answer:
        assert b"null-speech.speech" in answer.read()
    server.send_signal(signal.SIGINT)
    _, rest = server.communicate(timeout=30)
    assert server.returncode == 130
    assert "Traceback" not in rest


def test_an_address_in_use_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = serve("null.speech", "--port", str(port), folder=tmp_path)
        _, said = server.communicate(timeout=60)
    assert server.returncode == 1
    assert (
        said
        == f"omniflow: cannot listen at 127.0.0.1:{port}: address already in use; choose another --port or --host\n"
    )


def test_a_faulty_spec_and_a_size_that_is_none_are_told_before_anything_loads(tmp_path: Path) -> None:
    for arguments, words in (
        (["null.nothing"], "null.nothing"),
        (["null.speech", "--body", "big"], "--body big: not a size"),
        (["null.speech", "--host", "nowhere.invalid"], "cannot listen at nowhere.invalid"),
    ):
        server = serve(*arguments, folder=tmp_path)
        _, said = server.communicate(timeout=60)
        assert server.returncode in (1, 2)
        assert words in said
        assert "Traceback" not in said
