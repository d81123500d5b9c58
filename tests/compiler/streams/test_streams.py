from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from omniflow_compiler.diagnostics import Diagnostic
from omniflow_compiler.library.signature import ExpertSignature
from omniflow_compiler.passes.conservation import deficits, frames_before
from tests.compiler.programs import EXPERTS, check, codes_of, faults, line_of, ports

CARD = """components:
  tokenizer: {use: null.tokenizer}
  lm: {use: t.lm}
  reader: {use: t.reader}
  map: {use: t.map}
  causal: {use: t.causal}
  frames: {use: t.frames}
  pieces: {use: t.piecewise}
  acoustic: {use: null.acoustic}
  vocoder: {use: null.vocoder}
loops:
  think: {kind: ar_decode, binds: lm, max_tokens: 64}
  speak: {kind: ar_decode, binds: reader, max_tokens: 64}
  map: {kind: encode, binds: map}
  frames: {kind: encode, binds: frames}
  wave: {kind: audio_decode, binds: causal}
  pass: {kind: audio_decode, binds: pieces}
"""
UNUSED = ("OF3001", "OF3002", "OF3003", "OF3004")


def found_in(
    folder: Path, nodes: str, edges: str, outputs: str, inputs: str = 'prompt: "tokens[P]"'
) -> list[Diagnostic]:
    program = f"inputs: {{{inputs}}}\noutputs: {{{outputs}}}\nnodes: {{{nodes}}}\nedges:\n{edges}"
    return faults(check(folder, CARD, program), *UNUSED)


HANDOFF = """- prompt -> think.prompt
- think.hidden -> map.x
- map.y -> last.value
- think.hidden ~> add.a{}
- map.y ~> add.b
"""


def test_a_bounded_stream_beside_a_barrier_is_a_deadlock_with_its_way(tmp_path: Path) -> None:
    nodes, outputs = (
        "think: {loop: think}, map: {loop: map}, add: {op: add}, last: {op: slice}",
        "y: add.sum, z: last.value",
    )
    assert found_in(tmp_path, nodes, HANDOFF.format(""), outputs) == []
    (found,) = found_in(tmp_path, nodes, HANDOFF.format(": {capacity: 16}"), outputs)
    assert found.code == "OF2204"
    assert found.message == (
        "`map` starts only when `think.hidden` is finished, but `think.hidden` stops at 16 unread elements before"
    )
    assert found.span.line == 12
    assert [label.text for label in found.labels] == [
        "`map` waits for the end of this",
        "`add` waits for the end of this",
    ]
    assert found.help == ("leave `capacity` out: the channel is then sized for the whole stream",)


def test_two_loops_that_wait_for_each_others_end_are_one_deadlock(tmp_path: Path) -> None:
    nodes = """a: {loop: think}, b: {loop: think}, x: {loop: speak}, y: {loop: speak}"""
    edges = """- prompt -> a.prompt
- prompt -> b.prompt
- a.tokens -> x.prompt
- b.hidden ~> x.condition: {capacity: 4, when_empty: {hold: last}}
- b.tokens -> y.prompt
- a.hidden ~> y.condition: {capacity: 4, when_empty: {hold: last}}
"""
    (found,) = found_in(tmp_path, nodes, edges, "x: x.tokens, y: y.tokens")
    assert found.code == "OF2204"
    assert len(found.labels) == 3
    assert found_in(tmp_path, nodes, edges.replace("capacity: 4, ", "", 1), "x: x.tokens, y: y.tokens") == []


def test_a_capacity_below_the_window_is_reported_with_the_least_that_works(tmp_path: Path) -> None:
    nodes, outputs = "think: {loop: think}, p: {loop: pass}", "y: p.y"
    edges = "- prompt -> think.prompt\n- think.hidden ~> p.x: {chunk: 8, right_context: 3, capacity: %d}\n"
    assert found_in(tmp_path, nodes, edges % 11, outputs) == []
    (found,) = found_in(tmp_path, nodes, edges % 10, outputs)
    assert found.code == "OF2204"
    assert found.message == "`p.x` needs 11 elements before it takes any, the channel stops at 10"
    assert found.edits[0].text == "11"


def test_a_join_behind_two_ways_of_different_lag_needs_room_on_the_short_one(tmp_path: Path) -> None:
    nodes, outputs = "think: {loop: think}, p: {loop: pass}, add: {op: add}", "y: add.sum"
    edges = """- prompt -> think.prompt
- think.hidden ~> p.x: {chunk: 32}
- p.y ~> add.a
- think.hidden ~> add.b: {capacity: %d}
"""
    assert found_in(tmp_path, nodes, edges % 33, outputs) == []
    (found,) = found_in(tmp_path, nodes, edges % 32, outputs)
    assert found.code == "OF2204"
    assert "gets 32 elements less over another way" in found.message
    assert found.help == ("set `capacity: 33` or more, or leave it out",)


@pytest.mark.parametrize(("capacity", "fits"), [(5, False), (6, True)])
def test_a_port_that_trails_its_input_counts_as_a_lag(tmp_path: Path, capacity: int, fits: bool) -> None:
    (piecewise,) = [e for e in EXPERTS if e.use == "t.piecewise"]
    served = piecewise.serves["audio_decode"]
    trailing = replace(served, outputs=tuple(replace(port, lags=5) for port in served.outputs))
    experts = [*EXPERTS, replace(piecewise, serves={"audio_decode": trailing})]
    program = f"""inputs: {{prompt: "tokens[P]"}}
outputs: {{y: add.sum}}
nodes: {{think: {{loop: think}}, p: {{loop: pass}}, add: {{op: add}}}}
edges:
- prompt -> think.prompt
- think.hidden ~> p.x
- p.y ~> add.a
- think.hidden ~> add.b: {{capacity: {capacity}}}
"""
    assert codes_of(check(tmp_path, CARD, program, experts), *UNUSED) == ([] if fits else ["OF2204"])


@pytest.mark.parametrize(("when", "codes"), [("a", ["OF2204"]), ("b", [])])
def test_branches_that_never_meet_do_not_block_each_other(tmp_path: Path, when: str, codes: list[str]) -> None:
    program = f"""inputs: {{prompt: "tokens[P]", rows: "f32[S, 16]", mode: text}}
outputs: {{y: last.value}}
nodes:
  think: {{loop: think}}
  map: {{loop: map, when: 'inputs.mode == "a"'}}
  other: {{loop: map, when: 'inputs.mode == "b"'}}
  last: {{op: append, when: 'inputs.mode == "{when}"'}}
edges:
- prompt -> think.prompt
- think.hidden -> map.x
- rows -> other.x
- map.y -> last.tail
- other.y -> last.tail
- think.hidden ~> last.value: {{capacity: 4}}
"""
    assert codes_of(check(tmp_path, CARD, program), *UNUSED) == codes


def test_a_channel_that_is_not_written_gets_the_room_it_needs(tmp_path: Path) -> None:
    program = """inputs: {prompt: "tokens[P]"}
outputs: {y: add.sum}
nodes: {think: {loop: think}, p: {loop: pass}, add: {op: add}}
edges:
- prompt -> think.prompt
- think.hidden ~> p.x: {chunk: 4000}
- p.y ~> add.a
- think.hidden ~> add.b
"""
    compilation = check(tmp_path, CARD, program)
    assert compilation.schedule is not None
    (channel,) = [c for c in compilation.schedule.channels if c.node == "add" and c.port == "b"]
    assert channel.capacity >= 4001


def test_a_held_stream_of_unknown_length_is_reported(tmp_path: Path) -> None:
    nodes = "f: {loop: frames}, p: {loop: pass}, q: {op: slice}, whole: {op: concat}, add: {op: append}"
    edges = """- prompt -> f.x
- f.y ~> p.x: {chunk: 4}
- p.y -> whole.parts
- p.y ~> add.value
- whole.whole -> add.tail
- add.value -> q.value
"""
    (found,) = found_in(tmp_path, nodes, edges, "y: q.value")
    assert found.code == "OF2205"
    assert found.message == "`add` starts after the end of `p.y`, and nothing bounds how much that is"
    assert [label.text for label in found.labels] == ["`f` decides how long it is"]
    assert found_in(tmp_path, nodes, edges.replace("p.y ~> add", "p.y -> add"), "y: q.value") == []


def test_an_item_that_does_not_fit_is_a_deadlock(tmp_path: Path) -> None:
    nodes = (
        """z: {op: join}, think: {loop: think, each: true}, m: {loop: map, each: true}, add: {op: add, each: true}"""
    )
    edges = """- ids ~> think.prompt
- think.hidden ~> m.x
- m.y ~> add.a
- think.hidden ~> add.b{}
- add.sum ~> z.items
"""
    inputs, outputs = 'ids: "tokens[N*, P]"', "y: z.samples"
    assert found_in(tmp_path, nodes, edges.format(""), outputs, inputs) == []
    (found,) = found_in(tmp_path, nodes, edges.format(": {capacity: 16}"), outputs, inputs)
    assert found.code == "OF2204"
    assert found.message == (
        "`m` goes on only when `think.hidden` has ended an item, but `think.hidden` stops at 16 unread elements before"
    )


# -- samples -----------------------------------------------------------------------------------------------------------


def test_the_deficit_per_stride_is_that_of_the_published_decoder() -> None:
    assert deficits((8, 5, 4, 3)) == [8, 45, 184, 555]
    assert frames_before((8, 5, 4, 3), 1920) == 1


@pytest.mark.parametrize("strides", [(8, 5, 4, 3), (2, 2), (4,), (3, 2, 5)])
def test_kept_tails_lose_the_deficit_once_and_whole_windows_lose_it_per_chunk(strides: tuple[int, ...]) -> None:
    hop, missing = 1, deficits(strides)[-1]
    for stride in strides:
        hop *= stride
    before = frames_before(strides, hop)
    chunks = [4 + before, 3, 5, 1, 7]
    assert _samples(chunks, missing, hop, left=before) == sum(chunks) * hop - missing
    assert _samples(chunks, missing, hop, left=0) == sum(chunks) * hop - missing * len(chunks)


def _samples(chunks: list[int], missing: int, hop: int, left: int) -> int:
    """Samples of all windows when the last new * hop of each are kept."""
    total = done = 0
    for new in chunks:
        total += min(new * hop, (min(left, done) + new) * hop - missing)
        done += new
    return total


@pytest.mark.parametrize("strides", [(8, 5, 4, 3), (2, 2), (4, 3), (2, 3, 2)])
def test_the_left_context_is_the_least_with_which_kept_samples_know_their_past(strides: tuple[int, ...]) -> None:
    hop = 1
    for stride in strides:
        hop *= stride
    least = frames_before(strides, hop)
    assert not any(_blind(strides, least + 3)[-3 * hop :])
    assert any(_blind(strides, least + 2)[-3 * hop :])


def _blind(strides: tuple[int, ...], frames: int) -> list[bool]:
    """Which samples of a window depend on what was before it: kernel 2s reads an input and the one before it."""
    blind = [False] * frames
    for stride in strides:
        grown = [blind[o // stride] or o < stride or blind[o // stride - 1] for o in range(len(blind) * stride)]
        blind = grown[: len(grown) - stride]
    return blind


def test_a_chunk_policy_that_drops_the_tail_is_reported_with_the_numbers(tmp_path: Path) -> None:
    nodes, outputs = "f: {loop: frames}, wave: {loop: wave}", "audio: wave.audio"
    edges = "- prompt -> f.x\n- f.y ~> wave.x: {chunk: 25%s}\n"
    (found,) = found_in(tmp_path, nodes, edges % "", outputs)
    assert found.code == "OF2202"
    assert found.message == "every chunk loses 555 samples (23.1 ms) at its end"
    assert found.note == "left_context is 0, 1 is needed"
    assert [label.text for label in found.labels] == [
        "after its strides 8, 5, 4, 3 it is 8, 45, 184, 555 samples short"
    ]
    assert found.help == ("set `left_context: 1`: the last new * 1920 samples of each window are then whole",)
    assert found_in(tmp_path, nodes, edges % ", left_context: 1", outputs) == []
    assert found_in(tmp_path, nodes, "- prompt -> f.x\n- f.y -> wave.x\n", outputs) == []


def test_a_decoder_of_frames_at_another_rate_is_reported(tmp_path: Path) -> None:
    card = CARD.replace("{use: t.causal}", "{use: t.any_rate}")
    signature = ExpertSignature(
        use="t.any_rate", role="vocoder", hop=240, doc="",
        serves={"audio_decode": ports({"x~": "f32[F, 8] @ r"}, {"audio~": "audio[240*F] @ 24 kHz"})},
    )  # fmt: skip
    program = """inputs: {prompt: "tokens[P]"}
outputs: {audio: wave.audio}
nodes: {f: {loop: frames}, wave: {loop: wave}}
edges: [prompt -> f.x, f.y -> wave.x]
"""
    (found,) = faults(check(tmp_path, card, program, [*EXPERTS, signature]), *UNUSED)
    assert found.code == "OF2105"
    assert found.message == "`wave` makes 240 samples of a frame: 12.5 Hz in is 3 kHz out, not 24 kHz"


def test_a_signature_whose_hop_is_not_its_size_is_reported(tmp_path: Path) -> None:
    experts = [replace(e, hop=1900) if e.use == "t.causal" else e for e in EXPERTS]
    program = """inputs: {prompt: "tokens[P]"}
outputs: {audio: wave.audio}
nodes: {f: {loop: frames}, wave: {loop: wave}}
edges: [prompt -> f.x, f.y -> wave.x]
"""
    found = faults(check(tmp_path, CARD, program, experts), *UNUSED)
    assert "OF2202" in [f.code for f in found]
    assert any("its hop is 1900" in f.message for f in found)


# -- ends --------------------------------------------------------------------------------------------------------------

STEERED = """- prompt -> a.prompt
- prompt -> b.prompt
- a.hidden ~> b.condition{}
"""


def test_a_loop_that_outlives_its_stream_is_told_to_say_what_it_reads(tmp_path: Path) -> None:
    nodes, outputs = "a: {loop: think}, b: {loop: speak}", "y: b.tokens"
    (found,) = found_in(tmp_path, nodes, STEERED.format(""), outputs)
    assert (found.code, found.level) == ("OF2208", "warning")
    assert found.help[0] == "add `when_empty: {hold: pad or end or last}`"
    for row in ("last", "pad"):
        assert found_in(tmp_path, nodes, STEERED.format(f": {{when_empty: {{hold: {row}}}}}"), outputs) == []
    (found,) = found_in(tmp_path, nodes, STEERED.format(": {when_empty: {hold: pda}}"), outputs)
    assert found.code == "OF2207"
    assert found.help == ("did you mean `pad`?",)


def test_items_that_meet_a_port_for_one_are_one_mistake(tmp_path: Path) -> None:
    nodes = "s: {op: segment}, t: {op: tokenize, with: tokenizer}"
    edges = "- prompt -> s.text\n- s.segments ~> t.text\n"
    found = found_in(tmp_path, nodes, edges, "y: t.tokens", "prompt: text")
    assert [f.code for f in found] == ["OF2108"]


def test_when_empty_is_for_loops_that_step(tmp_path: Path) -> None:
    nodes, outputs = "a: {loop: think}, b: {op: slice}", "y: b.value"
    edges = "- prompt -> a.prompt\n- a.hidden ~> b.value: {when_empty: {hold: last}}\n"
    compilation_faults = found_in(tmp_path, nodes, edges, outputs)
    assert [f.code for f in compilation_faults] == ["OF2206"]


def test_a_finished_value_beside_a_stream_is_one_whole_piece_and_never_broadcast(tmp_path: Path) -> None:
    program = """inputs: {prompt: "tokens[P]", row: "f32[ROWS, 16]"}
outputs: {y: s.sum}
nodes: {a: {loop: think}, s: {op: add}}
edges: [prompt -> a.prompt, a.hidden ~> s.a, row -> s.b]
"""
    assert codes_of(check(tmp_path, CARD, program.replace("ROWS", "1")), *UNUSED) == ["OF2103"]
    same = """inputs: {prompt: "tokens[P]"}
outputs: {y: s.sum}
nodes: {a: {loop: think}, m: {loop: map}, s: {op: add}}
edges: [prompt -> a.prompt, a.hidden ~> s.a, a.hidden -> m.x, m.y -> s.b]
"""
    assert codes_of(check(tmp_path, CARD, same), *UNUSED) == []


def test_streams_of_one_loop_are_cut_at_the_same_places(tmp_path: Path) -> None:
    card = CARD + "  voice: {kind: encode, binds: acoustic}\n  sing: {kind: audio_decode, binds: vocoder}\n"
    program = """inputs: {p: "tokens[P]"}
outputs: {y: w.audio}
nodes: {v: {loop: voice}, w: {loop: sing}}
edges:
- p -> v.phonemes
- v.cond ~> w.cond: {chunk: 32, left_context: 27, right_context: 27}
- v.f0 ~> w.f0: {chunk: 32, first_chunk: 8}
"""
    compilation = check(tmp_path, card, program)
    (found,) = faults(compilation, *UNUSED)
    assert found.code == "OF2203"
    assert found.message == "`w.f0` is cut into a first piece of 8 and then pieces of 32, `w.cond` into pieces of 32"
    assert line_of(compilation, found) == "v.f0 ~> w.f0"


def test_a_capacity_bounds_nothing_where_a_value_comes_as_a_whole(tmp_path: Path) -> None:
    card = """components: {a: {use: t.half}, b: {use: t.piecewise}}
loops: {a: {kind: encode, binds: a}, b: {kind: audio_decode, binds: b}}
"""
    program = """inputs: {x: "f32[T, 8] @ 50 Hz"}
outputs: {y: b.y}
nodes: {a: {loop: a}, b: {loop: b}}
edges:
  - x -> a.x
  - a.y ~> b.x: {chunk: 8CAPACITY}
"""
    (found,) = faults(check(tmp_path, card, program.replace("CAPACITY", ", capacity: 2")), "OF2105")
    assert (found.code, found.message) == ("OF2206", "`capacity` has no meaning here")
    assert not faults(check(tmp_path, card, program.replace("CAPACITY", "")), "OF2105")
