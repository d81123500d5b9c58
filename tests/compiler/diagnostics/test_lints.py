from __future__ import annotations

from pathlib import Path

import pytest

from omniflow_compiler.pipeline import Compilation, Options, compile_file
from tests.compiler.diagnostics.test_formats import CARD

PROGRAM = """omniflow: 1
kind: program
id: talk.reply
card: talk
HEAD
inputs: {prompt: text, voice: text}INPUTS
outputs: {text: reply.text}
nodes:
  tokenize: {op: tokenize, with: tokenizer}
  think: {loop: think}
ABOVE
  lines: {op: segment}BEHIND
  reply: {op: detokenize, with: tokenizer}
edges:
  - prompt -> tokenize.text
  - tokenize.tokens -> think.prompt
  - think.tokens ~> reply.tokens
  - reply.text ~> lines.text
"""


def check(folder: Path, deny: tuple[str, ...] = (), **parts: str) -> Compilation:
    """A program with a dead node (OF2006) and an unread input (OF2010)."""
    text = PROGRAM
    for name in ("HEAD", "INPUTS", "ABOVE", "BEHIND"):
        text = text.replace(name, parts.get(name.lower(), ""))
    (folder / "card.yaml").write_text(CARD)
    (folder / "p.program.yaml").write_text(text)
    return compile_file(folder / "p.program.yaml", Options(deny=deny))


def found(compilation: Compilation) -> list[tuple[str, str]]:
    return [(diagnostic.code, diagnostic.level) for diagnostic in compilation.report]


def test_both_are_found_without_a_word_about_them(tmp_path: Path) -> None:
    assert [code for code, _ in found(check(tmp_path))] == ["OF2010", "OF2006"]


def test_a_file_sets_the_level_of_each_code(tmp_path: Path) -> None:
    compilation = check(tmp_path, head="lints: {OF2006: warn, OF2010: allow}")
    assert found(compilation) == [("OF2006", "warning")]
    assert compilation.schedule is not None
    compilation = check(tmp_path, head="lints: {OF2006: deny, OF2010: deny}")
    assert found(compilation) == [("OF2010", "error"), ("OF2006", "error")]
    assert compilation.schedule is None


@pytest.mark.parametrize(
    "parts",
    [
        {"inputs": "  # omniflow: allow OF2010", "behind": "  # omniflow: allow OF2006"},
        {"inputs": "  # omniflow: allow OF2010", "above": "  # omniflow: allow OF2006"},
        {"inputs": "  #omniflow: allow OF2010 -- not read yet", "above": "# omniflow: allow OF2006\n  # why\n"},
        {"head": "lints: {OF2010: allow}", "behind": "  # omniflow: allow OF2006 (later)"},
    ],
    ids=["behind the line", "above the line", "with a reason and a comment between", "beside lints"],
)
def test_a_comment_silences_a_code_on_its_line_or_the_next(tmp_path: Path, parts: dict[str, str]) -> None:
    compilation = check(tmp_path, **parts)
    assert found(compilation) == []
    assert compilation.schedule is not None


def test_a_comment_silences_no_other_line_and_no_other_code(tmp_path: Path) -> None:
    compilation = check(tmp_path, head="# omniflow: allow OF2006\n", inputs="  # omniflow: allow OF2006")
    assert [code for code, _ in found(compilation)] == ["OF2010", "OF2006"]


def test_a_comment_that_silences_nothing_is_reported_where_it_stands(tmp_path: Path) -> None:
    silent = {"inputs": "  # omniflow: allow OF2010, OF2006", "behind": "  # omniflow: allow OF2006"}
    compilation = check(tmp_path, **silent)
    (unused,) = compilation.report
    assert (unused.code, unused.level, unused.span.line) == ("OF1403", "warning", 6)
    line = compilation.sources.sources[unused.span.file].lines[5]
    assert line[unused.span.column - 1 : unused.span.end_column - 1] == "OF2006"


def test_a_text_that_looks_like_a_comment_silences_nothing_and_is_not_unused(tmp_path: Path) -> None:
    head = 'title: "see # omniflow: allow OF2006"\nlints: {OF2006: allow, OF2010: allow}'
    assert found(check(tmp_path, head=head)) == []


def test_warnings_are_denied_by_the_command_line(tmp_path: Path) -> None:
    head = "lints: {OF2006: warn, OF2010: warn}"
    assert {level for _, level in found(check(tmp_path, head=head))} == {"warning"}
    assert {level for _, level in found(check(tmp_path, head=head, deny=("warnings",)))} == {"error"}
    one = found(check(tmp_path, head=head, deny=("OF2010",)))
    assert one == [("OF2010", "error"), ("OF2006", "warning")]


def test_what_is_allowed_is_not_denied_by_the_command_line(tmp_path: Path) -> None:
    head = "lints: {OF2006: allow, OF2010: allow}"
    assert found(check(tmp_path, head=head, deny=("warnings",))) == []


def test_a_level_holds_for_its_own_file(tmp_path: Path) -> None:
    compilation = check(tmp_path, head="lints: {OF2010: allow}")
    (tmp_path / "card.yaml").write_text(CARD + "lints: {OF2006: allow}\n")
    compilation = compile_file(tmp_path / "p.program.yaml", Options())
    assert [code for code, _ in found(compilation)] == ["OF2006"]
