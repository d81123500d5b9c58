from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from omniflow.commands.fix import fix_specs
from omniflow.commands.selection import Selection
from omniflow_compiler.diagnostics import Edit
from omniflow_compiler.edits import Offsets, OverlapError, apply_edits
from omniflow_compiler.pipeline import Options, compile_file
from omniflow_compiler.source import Span
from tests.house.process import ROOT


@pytest.fixture
def program(tmp_path: Path) -> Path:
    for path in (ROOT / "specs" / "null").glob("*.yaml"):
        shutil.copy(path, tmp_path)
    return tmp_path / "speech.program.yaml"


def fix(path: Path) -> None:
    fix_specs([Selection(spec=str(path))])


def test_fixes_mend_names_and_arrows_and_leave_the_rest(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sound = program.read_text()
    broken = sound.replace("op: detokenize, with: tokenizer", "op: detokenise, with: tokeniser")
    program.write_text(broken.replace("tokenize.tokens -> think", "tokenize.tokens => think"))
    fix(program)
    assert program.read_text() == sound  # comments and columns too
    said = capsys.readouterr().out
    assert "`detokenise` is now `detokenize` (OF1303)" in said
    assert said.count(" is now ") == 3


def test_fixing_again_changes_nothing(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program.write_text(program.read_text().replace("op: detokenize", "op: detokenise"))
    fix(program)
    once = program.read_bytes()
    capsys.readouterr()
    fix(program)
    assert program.read_bytes() == once
    assert capsys.readouterr().out == ""


def test_line_ends_and_the_byte_order_mark_stay(program: Path) -> None:
    text = program.read_text().replace("op: detokenize", "op: detokenise").replace("\n", "\r\n")
    program.write_bytes(b"\xef\xbb\xbf" + text.encode())
    fix(program)
    assert program.read_bytes() == b"\xef\xbb\xbf" + text.replace("detokenise", "detokenize").encode()


def test_only_files_that_were_named_are_changed(program: Path) -> None:
    card = program.parent / "card.yaml"
    broken = card.read_text().replace("null.thinker", "null.thinkr")
    card.write_text(broken)
    fix(program)
    assert card.read_text() == broken
    fix(card)
    assert "null.thinker}" in card.read_text()


def test_a_sound_spec_offers_no_fixes(program: Path) -> None:
    before = program.stat()
    fix(program)
    assert program.stat().st_mtime_ns == before.st_mtime_ns
    assert not compile_file(program, Options()).report.num_errors


def edit(line: int, start: int, end: int, text: str) -> tuple[str, Edit]:
    return "OF1101", Edit(span=Span("a", line, start, line, end), text=text)


def test_edits_that_overlap_are_all_refused() -> None:
    with pytest.raises(OverlapError, match="a:1:2"):
        apply_edits("abcdef\n", [edit(1, 1, 4, "x"), edit(1, 2, 3, "y")])


def test_edits_next_to_each_other_are_all_made() -> None:
    text, applied = apply_edits("abc\ndef\n", [edit(2, 1, 2, "D"), edit(1, 1, 2, "A"), edit(1, 2, 3, "B")])
    assert text == "ABc\nDef\n"
    assert [(each.before, each.after) for each in applied] == [("a", "A"), ("b", "B"), ("d", "D")]


def test_offsets_and_places_are_inverse() -> None:
    text = "one\r\ntwo\u2028three\n"
    offsets = Offsets(text)
    assert [text[offsets.of(line, 1)] for line in (1, 2, 3)] == ["o", "t", "t"]
    for offset in range(len(text)):
        assert offsets.of(*offsets.place(offset)) == offset
