"""`omniflow check` on what has not changed: the same answer, at once, and never an old one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from omniflow.commands import remembered
from omniflow_compiler.pipeline import Options, compile_file
from omniflow_compiler.reads import recording

ROOT = Path(__file__).parents[2]
SPECS = ROOT / "specs" / "null"
LAUNCH = "import sys; sys.argv[0] = 'omniflow'; from omniflow.__main__ import main; main()"
CARD = """omniflow: 1
kind: card
id: c
capabilities: [reasoning_text]
components:
  tokenizer: {use: hf.tokenizer, from: weights}
  thinker: {use: hf.decoder, from: weights}
loops:
  think: {kind: ar_decode, binds: thinker, max_tokens: 8}
"""
PROGRAM = """omniflow: 1
kind: program
id: c.reply
card: c
inputs: {prompt: text}
outputs: {text: reply.text}
nodes:
  tokenize: {graph: read.graph.yaml}
  think: {loop: think}
  reply: {op: detokenize, with: tokenizer}
edges:
  - prompt -> tokenize.text
  - tokenize.tokens -> think.prompt
  - think.tokens ~> reply.tokens
"""
GRAPH = """omniflow: 1
kind: graph
id: read
inputs: {text: text}
outputs: {tokens: cut.tokens}
nodes:
  cut: {op: tokenize, with: tokenizer}
edges:
  - text -> cut.text
"""
FILES = {"card.yaml": CARD, "p.program.yaml": PROGRAM, "read.graph.yaml": GRAPH}


@pytest.fixture
def family(tmp_path: Path) -> Path:
    folder = tmp_path / "project" / "family"
    folder.mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., tuple[int, str, str, bool]]:
    """Runs `omniflow check` in a process: exit code, both outputs, and whether the answer was remembered."""

    def run(*arguments: str, folder: Path, python: Sequence[str] = ()) -> tuple[int, str, str, bool]:
        environment = {**os.environ, "OMNIFLOW_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
        tell = "finally: sys.stderr.write('+' if 'yaml' in sys.modules else '-')"
        tell = f"{LAUNCH.replace('main()', '')}\ntry: main()\n{tell}"
        command = [sys.executable, *python, "-c", tell, "check", *arguments]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        return done.returncode, done.stdout, done.stderr[:-1], done.stderr.endswith("-")

    return run


Check = Callable[..., tuple[int, str, str, bool]]


def test_the_second_check_gives_the_same_answer_without_a_parser_or_compiler(family: Path, check: Check) -> None:
    first = check("p.program.yaml", folder=family)
    second = check("p.program.yaml", folder=family)
    assert first == (0, "p.program.yaml: fine\n", "", False)
    assert second == (*first[:3], True)


def test_faults_are_remembered_in_every_form(family: Path, check: Check) -> None:
    (family / "p.program.yaml").write_text(PROGRAM.replace("loop: think", "loop: thnik"))
    for form in ("text", "json", "sarif", "github"):
        first = check("p.program.yaml", "--format", form, folder=family)
        second = check("p.program.yaml", "--format", form, folder=family)
        assert first[0] == 1
        assert "OF1304" in first[1] + first[2]
        assert second == (*first[:3], True)


CHANGES: dict[str, Callable[[Path], object]] = {
    "the program": lambda f: (f / "p.program.yaml").write_text(PROGRAM.replace("think.tokens", "think.tokns")),
    "the card": lambda f: (f / "card.yaml").write_text(CARD.replace("hf.decoder", "hf.decodr")),
    "the graph": lambda f: (f / "read.graph.yaml").write_text(GRAPH.replace("op: tokenize", "op: tokenise")),
    "a graph that goes": lambda f: (f / "read.graph.yaml").unlink(),
    "another card of that name": lambda f: (f / "another.card.yaml").write_text(CARD.replace(": 8", ": -8")),
    "a card behind a link": lambda f: _relink(f / "card.yaml", CARD.replace("hf.decoder", "hf.decodr")),
}  # fmt: skip


def _relink(path: Path, text: str) -> None:
    path.unlink()
    (path.parent / "elsewhere.txt").write_text(text)
    path.symlink_to(path.parent / "elsewhere.txt")


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_anything_that_was_read_is_seen(change: str, family: Path, check: Check) -> None:
    assert check("p.program.yaml", folder=family)[0] == 0
    CHANGES[change](family)
    code, _, errors, was_remembered = check("p.program.yaml", folder=family)
    assert not was_remembered
    if change != "another card of that name":
        assert code == 1, errors


def test_a_file_that_appears_where_one_was_looked_for_is_seen(family: Path, check: Check) -> None:
    (family / "read.graph.yaml").unlink()
    assert check("p.program.yaml", folder=family)[0] == 1
    (family / "read.graph.yaml").write_text(GRAPH)
    assert check("p.program.yaml", folder=family)[0] == 0
    assert check("p.program.yaml", folder=family)[3]
    (family / "weights").mkdir()
    (family / "weights" / "config.json").write_text("{}")
    (family / "sibling.program.yaml").write_text(PROGRAM)
    assert not check("p.program.yaml", folder=family)[3]


def test_a_file_that_is_written_again_with_the_same_content_is_unchanged(family: Path, check: Check) -> None:
    check("p.program.yaml", folder=family)
    (family / "card.yaml").write_text(CARD)
    os.utime(family / "card.yaml", (1, 1))
    assert check("p.program.yaml", folder=family)[3]


def test_other_words_and_another_folder_are_other_questions(family: Path, check: Check) -> None:
    check("p.program.yaml", folder=family)
    assert not check("family/p.program.yaml", folder=family.parent)[3]
    assert not check("./p.program.yaml", folder=family)[3]
    assert not check("p.program.yaml", "--deny", "warnings", folder=family)[3]
    assert not check("p.program.yaml", "--outputs", "text", folder=family)[3]


def test_a_damaged_answer_is_not_used(family: Path, check: Check, tmp_path: Path) -> None:
    first = check("p.program.yaml", folder=family)
    (entry,) = (tmp_path / "cache" / "check").iterdir()
    whole = entry.read_bytes()
    for damaged in (whole[:-5], whole.replace(b"fine", b"nice"), b"", b"\x00\xff", b"{}\n{}"):
        entry.write_bytes(damaged)
        assert check("p.program.yaml", folder=family) == first
        entry.write_bytes(damaged)
    assert not list((tmp_path / "cache" / "check").glob("tmp*"))


def test_a_cache_that_cannot_be_written_is_no_fault(family: Path, check: Check, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    assert check("p.program.yaml", folder=family) == (0, "p.program.yaml: fine\n", "", False)
    assert check("p.program.yaml", folder=family) == (0, "p.program.yaml: fine\n", "", False)


def test_the_cache_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIFLOW_CACHE", str(tmp_path))
    monkeypatch.setattr(remembered, "MAX_ENTRIES", 20)
    with recording() as reads:
        pass
    for number in range(60):
        remembered.remember(["check", f"{number}.yaml"], (0, "fine\n", ""), reads)
    assert len(list((tmp_path / "check").iterdir())) <= 20
    assert remembered.recall(["check", "59.yaml"]) == (0, "fine\n", "")
    remembered.remember(["check", "huge.yaml"], (0, "x" * (1 << 21), ""), reads)
    assert remembered.recall(["check", "huge.yaml"]) is None


def test_the_compilers_own_code_is_part_of_the_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIFLOW_CACHE", str(tmp_path))
    with recording() as reads:
        pass
    remembered.remember(["check", "a.yaml"], (0, "fine\n", ""), reads)
    assert remembered.recall(["check", "a.yaml"]) == (0, "fine\n", "")
    monkeypatch.setattr(remembered, "VERSION", "another")
    assert remembered.recall(["check", "a.yaml"]) is None


WATCH = """
import sys
from pathlib import Path
opened = set()
EVENTS = ("open", "os.scandir", "os.listdir")
sys.addaudithook(lambda event, arguments: opened.add(arguments[0]) if event in EVENTS else None)
from omniflow_compiler.pipeline import Options, compile_file
from omniflow_compiler.reads import recording
with recording() as reads:
    opened.clear()
    compile_file(Path(sys.argv[1]), Options())
    seen = {str(Path(p).absolute()) for p in opened if isinstance(p, str)}
known = {*reads.files, *reads.folders}
package = str(Path(sys.modules["omniflow_compiler"].__file__).parent)
print("\\n".join(sorted(p for p in seen - known if not p.startswith((package, sys.prefix, sys.base_prefix)))))
print("SEEN", len(seen & known))
"""


def test_everything_that_a_check_opens_is_recorded(family: Path) -> None:
    (family / "weights").mkdir()
    (family / "weights" / "config.json").write_text("{}")
    command = [sys.executable, "-c", WATCH, str(family / "p.program.yaml")]
    done = subprocess.run(command, cwd=family, capture_output=True, text=True, timeout=60, check=True)
    *unknown, seen = done.stdout.strip().splitlines()
    assert [line for line in unknown if line] == []
    assert int(seen.split()[1]) >= 4


def test_a_null_spec_is_recorded_with_its_card(tmp_path: Path) -> None:
    with recording() as reads:
        compile_file(SPECS / "speech.program.yaml", Options())
    assert {Path(path).name for path in reads.files} >= {"card.yaml", "speech.program.yaml"}
    assert reads.still_hold()
    reads.folders[str(tmp_path)] = None
    assert not reads.still_hold()
