"""Readers that go away, disks that are full, Ctrl-C at any moment: no traceback, and nothing that was made is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "import sys; sys.argv[0] = 'omniflow'; from omniflow.__main__ import main; main()"]
INTERRUPTIBLE = """import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from omniflow.commands.guard import leave_when_interrupted
leave_when_interrupted()
print("!", flush=True)
from omniflow.__main__ import main
main()"""
INTERRUPTED_IN_IMPORT = """import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
for name in [name for name in sys.modules if name in ("signal", "enum", "types", "collections.abc")]:
    del sys.modules[name]  # a fresh start has none of them
class Interrupting:
    left = int(sys.argv.pop(1))
    def find_spec(self, name, path=None, target=None):
        if not Interrupting.left:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)
        Interrupting.left -= 1
from omniflow.__main__ import main
sys.meta_path.insert(0, Interrupting())
main()"""
INTERRUPTED_AT_THE_END = """import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from omniflow.commands.guard import leave_when_interrupted
leave_when_interrupted()
class Last:
    def __del__(self, kill=os.kill, process=os.getpid(), number=signal.SIGINT):
        kill(process, number)
last = Last()"""
SPEC = str(ROOT / "specs" / "null" / "speech.program.yaml")
RUN = ["run", SPEC, "--input", "prompt=Hello there", "--out"]
MADE = ["audio.wav", "run.json", "text.txt", "trace.json"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "compiler")])
    return {**os.environ, "PYTHONPATH": paths, "XDG_CACHE_HOME": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}


def start(arguments: list[str], environment: dict[str, str], **how: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*COMMAND, *arguments], env=environment, stderr=subprocess.PIPE, **how)


def made(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_reader_that_leaves_in_the_middle_costs_no_file(tmp_path: Path, environment: dict[str, str]) -> None:
    process = start([*RUN, str(tmp_path / "out")], environment, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.read(1)
    process.stdout.close()
    assert process.stderr is not None
    error = process.stderr.read().decode()
    assert process.wait(60) == 0, error
    assert "Traceback" not in error
    assert made(tmp_path / "out") == MADE


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_standard_output_costs_no_file(tmp_path: Path, environment: dict[str, str]) -> None:
    with Path("/dev/full").open("w") as full:
        process = start([*RUN, str(tmp_path / "out")], environment, stdout=full)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert error.decode().splitlines()[-1].startswith("omniflow: cannot write the output: no space left on device")
    assert made(tmp_path / "out") == MADE


def test_nobody_at_standard_error_costs_no_file(tmp_path: Path, environment: dict[str, str]) -> None:
    process = start([*RUN, str(tmp_path / "out")], environment, stdout=subprocess.DEVNULL)
    assert process.stderr is not None
    process.stderr.close()
    assert process.wait(60) == 0
    assert made(tmp_path / "out") == MADE


@pytest.mark.parametrize("closed", [1, 2])
def test_a_command_works_without_standard_streams(closed: int, environment: dict[str, str]) -> None:
    close: Callable[[], None] = lambda: os.close(closed)  # noqa: E731
    process = start(["check", SPEC], environment, stdout=subprocess.PIPE, preexec_fn=close)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    assert not error


def test_a_list_that_nobody_reads_on_ends_without_a_word(environment: dict[str, str]) -> None:
    process = start(["schema", "card"], environment, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait(60) == 1


@pytest.mark.parametrize("arguments", [["check", SPEC], ["run", SPEC, "--input", "prompt=Hi", "--out", "OUT"]])
def test_ctrl_c_at_any_moment_ends_without_a_traceback(
    arguments: list[str], tmp_path: Path, environment: dict[str, str]
) -> None:
    arguments = [str(tmp_path) if argument == "OUT" else argument for argument in arguments]
    codes = set()
    for milliseconds in (0, 20, 80, 400):
        process = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTIBLE, *arguments],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        process.stdout.read(1)
        time.sleep(milliseconds / 1000)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
        assert b"Traceback" not in error, (milliseconds, error.decode())
        codes.add(process.returncode)
    assert codes <= {0, 130}
    assert 130 in codes


def test_the_entry_point_imports_nothing_before_it_hears_ctrl_c(environment: dict[str, str]) -> None:
    script = (
        "import sys; before = set(sys.modules); import omniflow.__main__; print(*sorted(set(sys.modules) - before))"
    )
    process = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert process.stdout.split() == ["__future__", "omniflow", "omniflow.__main__"]


@pytest.mark.parametrize("imports", [0, 1, 2, 3, 4, 5, 8, 16])
def test_ctrl_c_while_something_is_imported_ends_with_one_line(imports: int, environment: dict[str, str]) -> None:
    process = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IN_IMPORT, str(imports), "run", SPEC, "--input", "prompt=Hi"],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert (process.returncode, process.stderr) == (130, "omniflow: interrupted\n")


def test_ctrl_c_when_all_is_done_changes_nothing(environment: dict[str, str]) -> None:
    process = subprocess.run([sys.executable, "-c", INTERRUPTED_AT_THE_END], env=environment, capture_output=True)
    assert (process.returncode, process.stderr) == (0, b"")
