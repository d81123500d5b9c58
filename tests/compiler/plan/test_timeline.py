from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from omniflow_compiler.account import account_for, work_of
from omniflow_compiler.pipeline import Options, compile_file
from tests.compiler.plan.programs import PROGRAM, compile_texts
from tests.house.process import ROOT


def test_a_reader_of_a_stream_starts_before_its_producer_ends(tmp_path: Path) -> None:
    schedule = compile_texts(tmp_path).schedule
    assert schedule is not None
    first, second, reply = (schedule.node(name) for name in ("first", "second", "reply"))
    assert second.starts_at == pytest.approx(first.ends_at)  # a value is waited for
    assert second.starts_at < reply.starts_at < second.ends_at < reply.ends_at  # a stream is followed
    prefill, token = (unit.seconds for unit in second.units)
    assert reply.starts_at == pytest.approx(second.starts_at + prefill + token)


def test_a_value_edge_in_place_of_a_stream_costs_time(tmp_path: Path) -> None:
    streamed = compile_texts(tmp_path).schedule
    waited = compile_texts(tmp_path, program=PROGRAM.replace("~>", "->")).schedule
    assert streamed is not None
    assert waited is not None
    assert waited.node("reply").starts_at == pytest.approx(waited.node("second").ends_at)
    assert streamed.node("reply").starts_at < waited.node("reply").starts_at


def test_the_critical_path_is_a_path_and_its_end_is_the_least_time() -> None:
    schedule = compile_file(ROOT / "specs" / "smol_speech" / "speech.program.yaml", Options()).schedule
    assert schedule is not None
    edges = {(channel.source.rpartition(".")[0], channel.node) for channel in schedule.channels}
    path = schedule.critical_path
    assert all(step in edges for step in pairwise(path))
    assert schedule.critical_seconds == schedule.node(path[-1]).ends_at == max(node.ends_at for node in schedule.nodes)
    assert schedule.critical_seconds < sum(map(work_of, schedule.nodes))


def test_sound_starts_long_before_the_answer_ends() -> None:
    schedule = compile_file(ROOT / "specs" / "smol_speech" / "speech.program.yaml", Options()).schedule
    assert schedule is not None
    first = {piece.output: piece.seconds for piece in account_for(schedule).first}
    assert first["text"] < first["audio"] < 0.1 * schedule.critical_seconds


def test_a_long_chain_is_planned_without_recursion(tmp_path: Path) -> None:
    count = 3000
    nodes = "".join(f"  n{i}: {{op: slice}}\n" for i in range(count))
    edges = "".join(f"  - n{i}.value ~> n{i + 1}.value\n" for i in range(count - 1))
    program = (
        "omniflow: 1\nkind: program\nid: p\ncard: c\ninputs: {x: 'tokens[T]'}\n"
        f"outputs: {{y: n{count - 1}.value}}\nnodes:\n{nodes}edges:\n  - x -> n0.value\n{edges}"
    )
    schedule = compile_texts(tmp_path, program=program).schedule
    assert schedule is not None
    assert len(schedule.critical_path) == count
