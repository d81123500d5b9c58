from __future__ import annotations

from pathlib import Path

from omniflow_compiler.pipeline import Options, compile_file
from omniflow_compiler.schedule import Schedule
from tests.compiler.plan.programs import CARD, PROGRAM, compile_texts
from tests.house.process import ROOT

SPEECH = ROOT / "specs" / "smol_speech" / "speech.program.yaml"


def held(schedule: Schedule, kind: str) -> dict[str, int]:
    return {holder.name: holder.bytes for holder in schedule.memory[0].holders if holder.kind == kind}


def schedule_of(folder: Path, card: str = CARD, program: str = PROGRAM) -> Schedule:
    compilation = compile_texts(folder, card, program)
    assert compilation.schedule is not None, list(compilation.report)
    return compilation.schedule


def test_weights_count_once_and_in_their_dtype(tmp_path: Path) -> None:
    whole = schedule_of(tmp_path, CARD.replace("null.", "smol."))
    half = schedule_of(tmp_path, CARD.replace("null.", "smol.").replace("thinker}", "thinker, dtype: bfloat16}"))
    assert held(whole, "weights")["thinker"] == 2 * held(half, "weights")["thinker"] > 0


def test_a_loop_without_a_cache_keeps_keys_and_values_of_its_own(tmp_path: Path) -> None:
    schedule = schedule_of(tmp_path)
    assert held(schedule, "cache") == {"kv": 4 << 20}
    assert held(schedule, "state") == {"second": schedule.node("second").state_bytes}
    assert schedule.node("second").state_bytes == (8 + 12 * 8 + 64) * 64  # the prompt's tokens, and its own
    more = schedule_of(tmp_path, CARD.replace("+ 64", "+ 224"))
    assert more.node("second").state_bytes == schedule.node("second").state_bytes + 160 * 64


def test_items_in_work_at_once_count_as_often_as_there_are_lanes_or_items(tmp_path: Path) -> None:
    card = CARD.replace("12 * think.tokens + 64", "12").replace("null.thinker", "null.talker")
    program = (
        "omniflow: 1\nkind: program\nid: p\ncard: c\ninputs: {words: 'tokens[N*, C] < 32'}\n"
        "outputs: {sounds: speak.tokens}\nnodes:\n  speak: {loop: again, each: true}\n"
        "edges:\n  - words ~> speak.source\n"
    )
    many = schedule_of(tmp_path / "many", card, program).node("speak")
    few = program.replace("'tokens[N*, C] < 32'", "{type: 'tokens[N*, C] < 32', limits: {N: 3}}")
    three = schedule_of(tmp_path / "few", card, few).node("speak")
    item = (1 + 12) * 64  # where it starts, and what it decodes
    assert many.state_bytes == 64 * item + 63 * 12 * 8
    assert three.state_bytes == 3 * item + 2 * 12 * 8  # with the tokens of the two that wait for the first


def test_the_peak_is_the_sum_of_its_holders() -> None:
    compilation = compile_file(SPEECH, Options())
    assert compilation.schedule is not None
    memory = compilation.schedule.memory[0]
    assert sum(holder.bytes for holder in memory.holders) <= memory.peak_bytes
    weights = sum(expert.weight_bytes for expert in compilation.schedule.experts)
    assert weights + 256 * 2**20 < memory.peak_bytes < weights + 300 * 2**20


def chain(count: int) -> str:
    """Whole values handed from node to node: each is gone when the next but one starts."""
    edges = [f"  - n{i}.value -> n{i + 1}.value\n" for i in range(count - 1)]
    nodes = [f"  n{i}: {{op: slice}}\n" for i in range(count)]
    return (
        "omniflow: 1\nkind: program\nid: p\ncard: c\ninputs: {x: 'f32[1024]'}\n"
        f"outputs: {{y: n{count - 1}.value}}\nnodes:\n{''.join(nodes)}edges:\n  - x -> n0.value\n{''.join(edges)}"
    )


def test_values_that_never_live_at_once_share_a_place(tmp_path: Path) -> None:
    short, long = (schedule_of(tmp_path, program=chain(count)).memory[0].peak_bytes for count in (6, 40))
    assert short == long
    assert held(schedule_of(tmp_path, program=chain(40)), "buffer") != {}


def test_values_that_may_live_at_once_do_not_share(tmp_path: Path) -> None:
    fan = (
        "omniflow: 1\nkind: program\nid: p\ncard: c\ninputs: {x: 'f32[1024]'}\noutputs: {y: all.whole}\nnodes:\n"
        + "".join(f"  n{i}: {{op: slice}}\n" for i in range(8))
        + "  all: {op: concat}\nedges:\n"
        + "".join(f"  - x -> n{i}.value\n  - n{i}.value -> all.parts\n" for i in range(8))
    )
    compilation = compile_texts(tmp_path, program=fan)
    assert compilation.schedule is not None, list(compilation.report)
    buffers = held(compilation.schedule, "buffer")
    assert {f"n{i}.value" for i in range(8)} <= set(buffers)
    assert compilation.schedule.memory[0].peak_bytes >= (1 + 8 + 8) * 4096


def test_each_device_has_its_own_peak(tmp_path: Path) -> None:
    schedule = schedule_of(tmp_path, CARD.replace("null.", "smol.").replace("thinker}", "thinker, device: 'cuda:1'}"))
    devices = {memory.device: memory for memory in schedule.memory}
    assert set(devices) == {"cpu", "cuda:1"}
    assert {holder.kind for holder in devices["cuda:1"].holders} >= {"weights", "cache", "state"}
    assert all(holder.kind != "weights" for holder in devices["cpu"].holders)


def test_a_plan_over_budget_is_refused_with_a_table_of_the_largest_holders() -> None:
    compilation = compile_file(SPEECH, Options(budgets={"cpu": 512 << 20}))
    assert compilation.schedule is None
    (found,) = [found for found in compilation.report if found.code == "OF2401"]
    head, *rows = found.message.split("\n")
    assert head == "cpu needs 818 MiB, its budget is 512 MiB (306 MiB too much)"
    assert rows[0].split() == ["513", "MiB", "62.8", "%", "weights", "thinker"]
    assert rows[-1].split()[-1] == "others"
    assert len({row.index("%") for row in rows}) == 1  # columns stand in line
    assert [label.text for label in found.labels] == ["513 MiB of weights", "256 MiB of cache"]


def test_a_plan_within_its_budget_is_kept() -> None:
    compilation = compile_file(SPEECH, Options(budgets={"cpu": 1 << 30}))
    assert compilation.schedule is not None
    assert compilation.schedule.memory[0].budget_bytes == 1 << 30


def test_a_channel_whose_reader_starts_after_its_end_holds_all_of_it(tmp_path: Path) -> None:
    program = PROGRAM.replace("{text: reply.text}", "{tokens: both.sum}").replace(
        "  reply:    {op: detokenize, with: tokenizer}\n", "  both: {op: add}\n"
    )
    program = program.replace("second.tokens ~> reply.tokens", "first.hidden ~> both.a\n  - first.embeds ~> both.b")
    program = program.replace("  - first.tokens -> second.prompt\n", "").replace("  second:   {loop: again}\n", "")
    schedule = schedule_of(tmp_path, program=program)
    sizes = {channel.id: (channel.capacity, channel.bytes) for channel in schedule.channels if channel.streams}
    width = 4 * next(expert for expert in schedule.experts if expert.name == "thinker").sizes["hidden"]
    assert all(size == capacity * width for capacity, size in sizes.values())


def test_sound_is_as_long_as_its_frames_make_it() -> None:
    frames = compile_file(ROOT / "specs" / "null" / "frames.program.yaml", Options()).schedule
    speech = compile_file(SPEECH, Options()).schedule
    assert frames is not None
    assert speech is not None
    sizes = {buffer.port: buffer.bytes for schedule in (frames, speech) for buffer in schedule.buffers}
    assert sizes["wave.audio"] == 4 * 8 * 40  # 40 frames of 8 samples
    assert sizes["join.samples"] == 4 * 16 * 512 * 300  # 16 sentences of 512 frames of 300 samples


def test_a_check_plans_no_more_than_a_budget_needs_and_finds_the_same() -> None:
    over = compile_file(SPEECH, Options(budgets={"cpu": 512 << 20}, is_check=True))
    assert [found.code for found in over.report] == ["OF2401"]
    fine = compile_file(SPEECH, Options(is_check=True))
    assert not list(fine.report)
    assert fine.plan is None


def test_windows_that_edges_cut_are_as_many_and_as_long_as_they_cut_them() -> None:
    schedule = compile_file(ROOT / "specs" / "qwen2_5_omni" / "stream.program.yaml", Options()).schedule
    assert schedule is not None
    tokens = schedule.lengths["talk/speak.T"]
    assert schedule.lengths["sound/windows.N"] == -(-tokens // 36)
    assert schedule.lengths["sound/windows.W"] == 24 + 36 + 12
    assert schedule.lengths["sound/frames.T"] == 2 * (24 + 36 + 12)  # of one window
    assert schedule.critical_seconds < 3600
