from __future__ import annotations

import re
from pathlib import Path

import pytest

from omniflow_compiler.difference import Change, compare
from omniflow_compiler.difference_text import write_changes
from omniflow_compiler.reader import parse_schedule
from omniflow_compiler.schedule import Schedule
from tests.compiler.plan.programs import CARD, PROGRAM, compile_texts, random_program


def schedule(folder: Path, card: str = CARD, program: str = PROGRAM) -> Schedule:
    compiled = compile_texts(folder, card, program).schedule
    assert compiled is not None
    return compiled


def changes(folder: Path, card: str = CARD, program: str = PROGRAM) -> list[Change]:
    return list(compare(schedule(folder / "a"), schedule(folder / "b", card, program)))


def reordered(text: str) -> str:
    """Its nodes and components the other way round, with comments and other spaces."""
    for section in ("nodes", "components", "loops"):
        found = re.search(rf"^{section}:\n((?:  .*\n)+)", text, re.MULTILINE)
        if found:
            lines = "".join(f"{line}  # moved\n" for line in reversed(found[1].splitlines()))
            text = text.replace(found[1], lines)
    return text.replace(": {", ":   {")


def test_order_and_layout_make_no_difference(tmp_path: Path) -> None:
    assert changes(tmp_path, reordered(CARD), reordered(PROGRAM)) == []


@pytest.mark.parametrize("seed", range(6))
def test_a_schedule_equals_itself_read_back(seed: int, tmp_path: Path) -> None:
    mine = schedule(tmp_path, program=random_program(seed))
    assert compare(mine, parse_schedule(mine.to_json(), "s.json")) == ()


def test_an_attribute_changes_with_what_follows_from_it(tmp_path: Path) -> None:
    found = changes(tmp_path, CARD.replace("max_tokens: 8", "max_tokens: 16"))
    assert Change(kind="changed", part="node", name="first", field="max_tokens", before=8, after=16) in found
    assert {(c.part, c.name) for c in found} >= {("cost", "first"), ("cost", "second"), ("memory", "cpu")}
    assert {c.part for c in found} == {"node", "cost", "memory"}


def test_an_edge_that_streams_is_another_edge(tmp_path: Path) -> None:
    found = changes(tmp_path, program=PROGRAM.replace("second.tokens ~>", "second.tokens ->"))
    arrow = next(c for c in found if c.part == "edge" and c.field == "arrow")
    assert (arrow.name, arrow.before, arrow.after) == ("second.tokens to reply.tokens", "~>", "->")


def test_a_renamed_node_is_one_change(tmp_path: Path) -> None:
    found = changes(tmp_path, program=PROGRAM.replace("first", "primary"))
    assert found == [Change(kind="renamed", part="node", name="first", after="primary")]


def test_a_new_node_comes_with_its_edges(tmp_path: Path) -> None:
    program = PROGRAM.replace("  reply:", "  cut:      {op: strip, drop: [1]}\n  reply:")
    program = program.replace(
        "second.tokens ~> reply.tokens", "second.tokens ~> cut.tokens\n  - cut.tokens ~> reply.tokens"
    )
    found = changes(tmp_path, program=program)
    marks = {line.split(":")[0] for line in write_changes(found)}
    assert marks >= {
        "+ node cut",
        "+ edge second.tokens to cut.tokens",
        "+ edge cut.tokens to reply.tokens",
        "- edge second.tokens to reply.tokens",
    }


def test_changes_are_the_same_seen_from_the_other_side(tmp_path: Path) -> None:
    a, b = schedule(tmp_path / "a"), schedule(tmp_path / "b", CARD.replace("+ 64", "+ 65"), PROGRAM.replace("~>", "->"))
    there = {(c.part, c.name, c.field, str(c.before), str(c.after)) for c in compare(a, b)}
    back = {(c.part, c.name, c.field, str(c.after), str(c.before)) for c in compare(b, a)}
    assert there == back != set()


def test_bytes_are_shown_in_their_unit(tmp_path: Path) -> None:
    more = CARD.replace("kv: {kind: paged_kv, max_bytes: 4 MiB}", "kv: {kind: paged_kv, max_bytes: 8 MiB}")
    lines = list(write_changes(changes(tmp_path, more)))
    assert "~ cache kv max_bytes: 4.0 MiB -> 8.0 MiB" in lines


def test_a_node_that_runs_another_op_is_another_node(tmp_path: Path) -> None:
    before = PROGRAM.replace("  - first.tokens ->", "  - first.tokens -> cut.value\n  - cut.value ->")
    before = before.replace("  second:", "  cut:      {op: slice, start: 1}\n  second:")
    after = before.replace("{op: slice, start: 1}", "{op: strip, drop: [7]}").replace("cut.value", "cut.tokens")
    found = compare(schedule(tmp_path / "a", program=before), schedule(tmp_path / "b", program=after))
    cut = [change for change in found if (change.part, change.name) == ("node", "cut")]
    assert [change.kind for change in cut] == ["removed", "added"]
    assert "start" in cut[0].before
    assert "drop" in cut[1].after
