from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omniflow_compiler.diagnostics import Report
from omniflow_compiler.layout.format import FormatError, format_text
from omniflow_compiler.load.document import read_text
from omniflow_compiler.load.tree import Mapping, plain
from omniflow_compiler.pipeline import Options, compile_file
from omniflow_compiler.source import Source
from tests.compiler.layout.scribble import Scribbler
from tests.house.process import ROOT

SPECS = sorted((ROOT / "specs").rglob("*.yaml"))


def source(text: str) -> Source:
    return Source(name="a.yaml", path=Path("a.yaml"), text=text, lines=tuple(text.splitlines()))


def laid_out(text: str) -> str:
    report = Report()
    result = format_text(source(text), report)
    assert result is not None, list(report)
    return result


def content(text: str) -> object:
    tree = read_text(source(text), Report())
    assert isinstance(tree, Mapping)
    return plain(tree)


def comments(text: str) -> Counter[str]:
    """Comments by the number that the scribbler gave them."""
    return Counter(re.findall(r"# c\d+", text))


@settings(max_examples=200, deadline=None)
@given(st.integers(min_value=0, max_value=2**32))
def test_layout_keeps_content_and_comments_and_is_done_in_one_go(seed: int) -> None:
    text = Scribbler(seed).document()
    result = laid_out(text)
    assert comments(result) == comments(text)
    assert laid_out(result) == result
    edges = re.compile(r"\s*(->|~>)\s*")
    normal = [edges.sub(r" \1 ", repr(content(t))) for t in (text, result)]
    assert sorted(normal[0]) == sorted(normal[1])  # keys may have moved


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_shipped_specs_keep_their_comments(path: Path) -> None:
    text = path.read_text()
    words = [re.findall(r"(?:^|\s)#\s?(.*)", t, re.MULTILINE) for t in (text, laid_out(text))]
    assert Counter(map(str.strip, words[0])) == Counter(map(str.strip, words[1]))


def untidy(text: str, seed: int) -> str:
    """The same spec after a bad day: spaces, order of sections, braces opened."""
    pick = random.Random(seed)
    blocks = re.split(r"\n(?=\w)", text.strip("\n"))
    head, rest = blocks[:3], blocks[3:]
    pick.shuffle(rest)
    lines = "\n".join([*head, *rest]).split("\n")
    lines = [re.sub(r"(?<=\S):( +)(?=[{\[\w])", ":" + " " * pick.randint(1, 4), line) for line in lines]
    return "\n".join(line + " " * pick.randint(0, 2) for line in lines) + "\n"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("family", ["null", "smol_speech"])
def test_layout_never_changes_a_schedule(family: str, seed: int, tmp_path: Path) -> None:
    hashes = set()
    for step in (lambda text: text, lambda text: untidy(text, seed), lambda text: laid_out(untidy(text, seed))):
        folder = tmp_path / str(len(hashes))
        folder.mkdir(exist_ok=True)
        for path in (ROOT / "specs" / family).glob("*.yaml"):
            (folder / path.name).write_text(step(path.read_text()))
        compilation = compile_file(folder / "speech.program.yaml", Options())
        assert compilation.schedule is not None, list(compilation.report)
        hashes.add(compilation.schedule.content_hash)
    assert len(hashes) == 1


def test_columns_order_and_comments_are_canonical() -> None:
    text = """\
# yaml-language-server: $schema=x
kind: program
omniflow: 1
edges:
- a.x->b.y
- b.y   ~>  c.z: { left_context: 1,  chunk: 4 } # cut
nodes:
    think: {with: brain,
            loop: think}   # thinks
    # the longest
    detokenize:
      op: detokenize
      with: tokenizer


    say: { each: true, op: say } # speaks
id: p
"""
    assert (
        laid_out(text)
        == """\
# yaml-language-server: $schema=x
omniflow: 1
kind: program
id: p
nodes:
  think:      {loop: think, with: brain}  # thinks
  # the longest
  detokenize: {op: detokenize, with: tokenizer}

  say:        {op: say, each: true}       # speaks
edges:
  - a.x -> b.y
  - b.y ~> c.z: {chunk: 4, left_context: 1}  # cut
"""
    )


def test_a_comment_in_braces_opens_them() -> None:
    text = "omniflow: 1\nkind: card\nloops:\n  think: {kind: ar_decode, # one by one\n    binds: brain}\n"
    assert laid_out(text).endswith("  think:\n    kind: ar_decode  # one by one\n    binds: brain\n")


def test_what_does_not_fit_a_line_is_opened() -> None:
    entries = ", ".join(f"key_number_{i}: {i}" for i in range(12))
    result = laid_out(f"omniflow: 1\nkind: card\ncomponents:\n  a: {{{entries}}}\n")
    assert result.splitlines()[3:6] == ["  a:", "    key_number_0: 0", "    key_number_1: 1"]


def test_aliases_forbid_moving() -> None:
    text = "omniflow: 1\nkind: card\nloops:\n  a: {stop: &ids [1, 2], kind: x}\n  b: {stop: *ids , kind: x}\n"
    assert laid_out(text) == text


def test_a_file_that_cannot_be_read_is_reported_and_left() -> None:
    report = Report()
    assert format_text(source("omniflow: 1\nkind: card\nid: [\n"), report) is None
    assert [found.code for found in report] == ["OF1003"]


def test_a_text_that_is_no_spec_is_refused() -> None:
    with pytest.raises(FormatError, match="no spec"):
        format_text(source("a: 1\n"), Report())
