from __future__ import annotations

from pathlib import Path

from omniflow_compiler.account import Account, account_for, work_of
from omniflow_compiler.account_text import show_seconds, write_account, write_node
from omniflow_compiler.reader import parse_schedule
from tests.compiler.plan.programs import PROGRAM, compile_texts


def account(folder: Path, program: str = PROGRAM) -> Account:
    schedule = compile_texts(folder, program=program).schedule
    assert schedule is not None
    return account_for(schedule)


def test_every_node_says_which_output_needs_it_and_by_which_path(tmp_path: Path) -> None:
    program = PROGRAM.replace("{text: reply.text}", "{text: reply.text, tokens: first.tokens}")
    nodes = {node.id: node for node in account(tmp_path, program).nodes}
    assert [(why.output, why.path) for why in nodes["first"].why] == [
        ("text", ("first", "second", "reply")),
        ("tokens", ("first",)),
    ]
    assert all(node.why for node in nodes.values())


def test_work_adds_up_and_is_shared_out(tmp_path: Path) -> None:
    found = account(tmp_path)
    assert sum(node.seconds for node in found.nodes) == found.work
    assert abs(sum(node.share for node in found.nodes) - 1) < 1e-9
    assert found.least <= found.work


def test_overlaps_are_named_where_a_stream_is_followed(tmp_path: Path) -> None:
    nodes = {node.id: node for node in account(tmp_path).nodes}
    assert [overlap.node for overlap in nodes["reply"].overlaps] == ["second"]
    assert not nodes["second"].overlaps


def test_memory_names_what_is_shared_and_how_long_values_live(tmp_path: Path) -> None:
    nodes = {node.id: node for node in account(tmp_path).nodes}
    first = {share.kind.partition(",")[0]: share for share in nodes["first"].memory}
    assert first["weights"].note == "shared with second"
    assert first["cache"].bytes == 4 << 20
    assert first["buffer"].note == "from first to second"
    assert {share.kind for share in nodes["second"].memory} >= {"state"}


def test_a_schedule_from_a_file_is_accounted_for_alike(tmp_path: Path) -> None:
    schedule = compile_texts(tmp_path).schedule
    assert schedule is not None
    again = parse_schedule(schedule.to_json(), "s.json")
    assert [work_of(node) for node in again.nodes] == [work_of(node) for node in schedule.nodes]
    mine, its = account_for(schedule), account_for(again)
    assert [list(write_node(node))[1:] for node in mine.nodes] == [list(write_node(node))[1:] for node in its.nodes]


def test_the_text_has_a_row_and_a_paragraph_for_each_node(tmp_path: Path) -> None:
    lines = list(write_account(account(tmp_path)))
    table = lines[lines.index("") + 1 :]
    assert [row.split()[0] for row in table[1:5]] == ["tokenize", "first", "second", "reply"]
    assert sum(line.startswith("second: loop again (ar_decode)") for line in lines) == 1
    assert "  why     output text through second > reply" in lines


def test_seconds_are_shown_in_their_unit() -> None:
    assert [show_seconds(t) for t in (0, 2e-5, 0.0031, 4.9, 4000.0)] == ["0 µs", "20 µs", "3.1 ms", "4.9 s", "4000 s"]


def test_lengths_that_nothing_bounds_are_told_from_those_that_have_a_most(tmp_path: Path) -> None:
    lines = list(write_account(account(tmp_path)))
    most = next(line for line in lines if line.startswith("  lengths "))
    assumed = next(line for line in lines if line.startswith("  assumed "))
    assert "first.T 8, second.T 160" in most
    assert "tokenize.P 512" in assumed
    assert "tokenize.P" not in most


def test_attributes_are_shown_as_a_spec_writes_them(tmp_path: Path) -> None:
    nodes = {node.id: node for node in account(tmp_path).nodes}
    (given,) = [line for line in write_node(nodes["first"]) if line.strip().startswith("given")]
    assert "feed_last: true" in given
    assert "True" not in given
