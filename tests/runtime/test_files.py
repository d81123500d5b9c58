"""Files are there whole or not at all, and what is no file is never replaced by one."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from omniflow import files
from omniflow.files import WriteError, one_at_a_time, write_bytes
from tests.runtime.command import cli


def test_a_link_goes_on_leading_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write_bytes(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_pipe_is_written_into_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(WriteError, match="no such device"):
        write_bytes(pipe, b"nobody reads")
    end = os.open(pipe, os.O_RDWR)
    data = bytes(200_000)  # more than a pipe holds
    writer = threading.Thread(target=write_bytes, args=(pipe, data))
    writer.start()
    found = b""
    while len(found) < len(data):
        found += os.read(end, len(data))
    writer.join(10)
    os.close(end)
    assert found == data
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_file_where_a_folder_is_needed_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(WriteError, match="file is not a folder"):
        write_bytes(tmp_path / "file" / "x", b"")


def test_a_schedule_for_nobody_leaves_the_device_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "nobody"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    kept: list[bytes] = []
    monkeypatch.setattr("omniflow.files._write_into", lambda path, data: kept.append(data))
    assert cli("compile", "null.speech", "-o", str(pipe)) == 0
    os.close(end)
    assert kept[0].startswith(b"{")
    assert [path.name for path in tmp_path.iterdir()] == ["nobody"]


LONG = "a" * 300


@pytest.mark.parametrize(
    "command",
    [
        "init m --in FOLDER/file",
        f"init m --in FOLDER/{LONG}",
        "run null.speech --input prompt=x --out FOLDER/file",
        f"run null.speech --input prompt=x --out FOLDER/{LONG}",
        f"compile null.speech -o FOLDER/{LONG}",
        "compile null.speech -o FOLDER/loop",
        f"graph null.speech -o FOLDER/{LONG}.svg",
        f"fmt FOLDER/{LONG}.yaml",
        "graph null.speech -o FOLDER/x.svg --run FOLDER/loop",
    ],
)
def test_what_the_disk_refuses_is_one_line(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "loop").symlink_to("loop")
    assert cli(*command.replace("FOLDER", str(tmp_path)).split()) in (1, 2)
    error = capsys.readouterr().err
    assert error.startswith("omniflow: ")
    assert error.count("\n") == 1
    assert "bug" not in error


@pytest.mark.parametrize("name", [f"{LONG}.yaml", "loop.yaml", "folder"])
def test_a_spec_that_cannot_be_read_is_a_finding(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.program.yaml").write_text("omniflow: 1\n")
    assert cli("check", str(tmp_path / name)) == 1
    error = capsys.readouterr().err
    assert error.startswith("error[OF1001]")
    assert ("`a.program.yaml`" in error) == (name == "folder")


def test_names_of_nothing_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli("check", "") == 2
    assert "is empty" in capsys.readouterr().err


def test_two_runs_never_write_into_one_folder_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "import sys, time, pathlib; from omniflow.files import one_at_a_time\n"
        "with one_at_a_time(pathlib.Path(sys.argv[1])):\n    print('inside', flush=True); time.sleep(60)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    other = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, env=environment)
    assert other.stdout is not None
    assert other.stdout.readline() == b"inside\n"
    monkeypatch.setattr(files, "MOST_SECONDS", 0.1)
    with pytest.raises(WriteError, match="another run is writing there"), one_at_a_time(tmp_path):
        raise AssertionError("two at once")
    other.kill()
    other.communicate()
    with one_at_a_time(tmp_path), pytest.raises(WriteError), one_at_a_time(tmp_path):
        raise AssertionError("two at once")
