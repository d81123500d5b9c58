from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

from omniflow_compiler.diagnostics import Diagnostic
from omniflow_compiler.pipeline import Compilation
from tests.compiler.programs import check, codes_of, faults, line_of

CARD = """components:
  tokenizer: {use: null.tokenizer}
  lm: {use: t.lm}
  open: {use: t.open_lm}
  narrow: {use: t.map}
  wide: {use: t.wide_map}
  low: {use: t.map, dtype: bfloat16}
  half: {use: t.half}
  double: {use: t.double}
  codes: {use: t.codes}
  all_codes: {use: t.all_codes}
  fast: {use: t.fast}
  at_50: {use: t.at_50}
  at_80: {use: t.at_80}
  draw: {use: t.latent}
  pixels: {use: t.pixels}
  pixels16: {use: t.pixels16}
loops:
  think: {kind: ar_decode, binds: lm, max_tokens: 8}
  open_think: {kind: ar_decode, binds: open, max_tokens: 8}
  stopping: {kind: ar_decode, binds: lm, max_tokens: 8, stop: [99], suppress: [97, 98, 30]}
  narrow: {kind: encode, binds: narrow}
  wide: {kind: encode, binds: wide}
  low: {kind: encode, binds: low}
  half: {kind: encode, binds: half}
  double: {kind: encode, binds: double}
  codes: {kind: encode, binds: codes}
  all_codes: {kind: encode, binds: all_codes}
  fast: {kind: encode, binds: fast}
  at_50: {kind: encode, binds: at_50}
  at_80: {kind: encode, binds: at_80}
  draw: {kind: diffusion_denoise, binds: draw, steps: 2}
  pixels: {kind: vae_tile, binds: pixels}
  pixels16: {kind: vae_tile, binds: pixels16}
"""
UNUSED = ("OF3001", "OF3002", "OF3003", "OF3004")


def compiled(folder: Path, program: str) -> Compilation:
    return check(folder, CARD, program)


def only(compilation: Compilation) -> Diagnostic:
    found = faults(compilation, *UNUSED)
    assert len(found) == 1, [f"{f.code} {f.message}" for f in found]
    return found[0]


def texts(found: Diagnostic) -> list[str]:
    return [label.text for label in found.labels]


def test_a_mismatch_three_nodes_away_shows_the_origin_and_the_way(tmp_path: Path) -> None:
    compilation = compiled(
        tmp_path,
        """inputs: {prompt: "tokens[P]"}
outputs: {y: d.y}
nodes: {a: {loop: think}, b: {op: slice, stop: 3}, c: {op: slice, stop: 2}, d: {loop: wide}}
edges:
- prompt -> a.prompt
- a.hidden ~> b.value
- b.value ~> c.value
- c.value -> d.x
""",
    )
    found = only(compilation)
    assert found.code == "OF2103"
    assert found.message == "axis width of `c.value` has size 16, `d.x` takes 32"
    assert line_of(compilation, found) == "c.value"
    assert texts(found) == [
        "`hidden` of `lm` is 16",
        "passed on here",
        "passed on here",
        "takes f32[T, width=32]",
        "`width` of `wide` is 32",
    ]
    assert [label.span.file.rpartition("/")[2] for label in found.labels[:2]] == ["card.yaml", "p.program.yaml"]
    assert found.help == ("component `narrow` accepts it",)


def test_a_long_way_is_bounded(tmp_path: Path) -> None:
    names = [f"s{i}" for i in range(30)]
    nodes = ", ".join(f"{name}: {{op: slice, stop: 3}}" for name in names)
    chain = "".join(f"- {a}.value ~> {b}.value\n" for a, b in pairwise(names))
    found = only(
        compiled(
            tmp_path,
            f"""inputs: {{prompt: "tokens[P]"}}
outputs: {{y: d.y}}
nodes: {{a: {{loop: think}}, {nodes}, d: {{loop: wide}}}}
edges:
- prompt -> a.prompt
- a.hidden ~> s0.value
{chain}- s29.value -> d.x
""",
        )
    )
    assert len(found.labels) <= 6
    assert "and over 28 more edges, from here on" in texts(found)


def test_a_size_that_only_a_reader_tells_is_known_to_every_other_reader(tmp_path: Path) -> None:
    found = only(
        compiled(
            tmp_path,
            """inputs: {prompt: "tokens[P]"}
outputs: {y: b.y, z: c.y}
nodes: {a: {loop: open_think}, b: {loop: narrow}, c: {loop: wide}}
edges:
- prompt -> a.prompt
- a.hidden -> b.x
- a.hidden -> c.x
""",
        )
    )
    assert found.code == "OF2103"
    assert "only a checkpoint tells `hidden` of `open`" in texts(found)
    assert "settled by this reader" in texts(found)
    assert {"`width` of `narrow` is 16", "`width` of `wide` is 32"} <= set(texts(found))


def test_a_size_learned_downstream_is_applied_upstream(tmp_path: Path) -> None:
    compilation = compiled(
        tmp_path,
        """inputs: {prompt: "tokens[P]", x: "f32[T, D]"}
outputs: {y: b.y, z: n.y}
nodes: {a: {loop: open_think}, s: {op: slice, stop: 3}, b: {loop: narrow}, h: {loop: half}, n: {loop: narrow}}
edges:
- prompt -> a.prompt
- a.hidden ~> s.value
- s.value -> b.x
- x -> h.x
- h.y -> n.x
""",
    )
    assert codes_of(compilation, *UNUSED) == []
    assert compilation.types is not None
    assert compilation.types.outputs["a", "hidden"].short == "f32[T, hidden=16]"
    assert compilation.types.given["x"].short == "f32[T, D=16]"


def test_a_size_of_config_json_is_named_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "config.json").write_text(json.dumps({"text": {"hidden_size": 24}}))
    card = CARD.replace("{use: t.open_lm}", f"{{use: t.open_lm, from: {tmp_path / 'weights'}}}")
    program = """inputs: {prompt: "tokens[P]"}
outputs: {y: b.y}
nodes: {a: {loop: open_think}, b: {loop: narrow}}
edges:
- prompt -> a.prompt
- a.hidden -> b.x
"""
    found = only(check(tmp_path, card, program))
    assert found.message == "axis width of `a.hidden` has size 24, `b.x` takes 16"
    assert "`hidden` of `open` is 24, `text.hidden_size` in its config.json" in texts(found)


def test_sizes_that_do_not_divide_are_reported(tmp_path: Path) -> None:
    found = only(
        compiled(
            tmp_path,
            """inputs: {x: "f32[5, D]"}
outputs: {y: b.y}
nodes: {a: {loop: half}, b: {loop: narrow}}
edges: [x -> a.x, a.y -> b.x]
""",
        )
    )
    assert found.code == "OF2103"
    assert found.message == "`a.y` would have 5/2 elements"


def test_an_upsampler_undoes_a_downsampler(tmp_path: Path) -> None:
    program = """inputs: {prompt: "tokens[P]"}
outputs: {y: s.sum}
nodes: {a: {loop: think}, h: {loop: half}, d: {loop: double}, s: {op: add}}
edges:
- prompt -> a.prompt
- a.hidden -> h.x
- h.y -> d.x
- d.y -> s.a
- a.hidden -> s.b
"""
    assert codes_of(compiled(tmp_path, program), *UNUSED) == []
    found = only(compiled(tmp_path, program.replace("d: {loop: double}", "d: {loop: half}")))
    assert found.code == "OF2107"
    assert found.message == "`a.hidden` runs along a.T, `s.b` along a.T/4"


def test_dtypes_name_both_components(tmp_path: Path) -> None:
    found = only(
        compiled(
            tmp_path,
            """inputs: {prompt: "tokens[P]"}
outputs: {y: b.y}
nodes: {a: {loop: think}, b: {loop: low}}
edges: [prompt -> a.prompt, a.hidden -> b.x]
""",
        )
    )
    assert found.code == "OF2102"
    assert found.message == "`a.hidden` gives f32, `b.x` takes bf16"
    assert texts(found)[0] == "`lm` works in f32"
    assert texts(found)[-1] == "`low` works in bf16"
    assert found.help == ("set the same `dtype` for `lm` and `low`",)


def test_a_rate_goes_through_ops_and_factors(tmp_path: Path) -> None:
    program = """inputs: {x: "f32[P, 8] @ 25 Hz"}
outputs: {y: c.y}
nodes: {a: {op: slice, stop: 4}, b: {loop: fast}, c: {loop: at_50}}
edges: [x -> a.value, a.value -> b.x, b.y -> c.x]
"""
    assert codes_of(compiled(tmp_path, program), *UNUSED) == []
    found = only(compiled(tmp_path, program.replace("25 Hz", "40 Hz")))
    assert found.code == "OF2105"
    assert found.message == "`b.y` runs at 80 Hz, `c.x` at 50 Hz"
    assert texts(found)[0] == "declared as f32[P, 8] @ 40 Hz"


def test_two_readers_at_different_rates_contradict_each_other(tmp_path: Path) -> None:
    found = only(
        compiled(
            tmp_path,
            """inputs: {x: "f32[P, 8]"}
outputs: {y: b.y, z: d.y}
nodes: {a: {loop: fast}, b: {loop: at_50}, c: {loop: fast}, d: {loop: at_80}}
edges: [x -> a.x, a.y -> b.x, x -> c.x, c.y -> d.x]
""",
        )
    )
    assert found.code == "OF2105"
    assert "settled by this reader" in texts(found)


def test_the_vocabulary_of_mixed_tokens_is_the_larger_one(tmp_path: Path) -> None:
    program = """inputs: {prompt: "tokens[P]"}
outputs: {y: d.y}
nodes: {a: {loop: think}, b: {op: clamp, limit: 50}, c: {op: concat}, d: {loop: codes}}
edges:
- prompt -> a.prompt
- a.tokens ~> b.tokens
- b.tokens -> c.parts
- MORE -> c.parts
- c.whole -> d.x
"""
    assert codes_of(compiled(tmp_path, program.replace("MORE", "b.tokens")), *UNUSED) == []
    found = only(compiled(tmp_path, program.replace("MORE", "a.tokens")))
    assert found.code == "OF2106"
    assert found.message == "`c.whole` has ids up to 99, `d.x` knows 50 ids"


def test_ids_that_a_loop_never_emits_and_ops_leave_out_make_the_vocabulary_smaller(tmp_path: Path) -> None:
    program = """inputs: {prompt: "tokens[P]"}
outputs: {y: d.y}
nodes: {a: {loop: stopping}, b: {op: strip, drop: [95, 96]}, d: {loop: all_codes}}
edges: [prompt -> a.prompt, a.tokens ~> b.tokens, b.tokens -> d.x]
"""
    compilation = compiled(tmp_path, program)
    assert codes_of(compilation, *UNUSED) == []
    assert compilation.types is not None
    assert compilation.types.outputs["a", "tokens"].short == "tokens[T] < 97"
    assert compilation.types.outputs["b", "tokens"].short == "tokens[T2] < 95"


def test_wrong_bases_name_ports_and_ops_that_fit(tmp_path: Path) -> None:
    program = """inputs: {prompt: text}
outputs: {y: r.text}
nodes: {a: {loop: think}, r: {op: detokenize, with: tokenizer}}
edges: [prompt -> a.prompt, a.hidden ~> r.tokens]
"""
    found = faults(compiled(tmp_path, program), *UNUSED)
    assert [f.code for f in found] == ["OF2101"]  # what hangs behind the fault is unknown, not wrong
    assert found[0].message == "`prompt` is text, `a.prompt` takes tokens[P] < vocabulary"
    assert any("tokenize" in line for line in found[0].help)


def test_values_of_two_loops_are_not_aligned(tmp_path: Path) -> None:
    found = only(
        compiled(
            tmp_path,
            """inputs: {prompt: "tokens[P]"}
outputs: {y: s.sum}
nodes: {a: {loop: think}, b: {loop: think}, s: {op: add}}
edges: [prompt -> a.prompt, prompt -> b.prompt, a.hidden ~> s.a, b.hidden ~> s.b]
""",
        )
    )
    assert found.code == "OF2107"
    assert found.message == "`b.hidden` runs along b.T, `s.b` along a.T"


def test_a_stream_that_starts_later_is_shorter(tmp_path: Path) -> None:
    program = """inputs: {prompt: "tokens[P]"}
outputs: {y: s.sum}
nodes: {a: {loop: think}, s: {op: add}}
edges:
- prompt -> a.prompt
- a.hidden ~> s.a: {start: 1}
- a.hidden ~> s.b
"""
    assert only(compiled(tmp_path, program)).code == "OF2107"
    both = program.replace("s.b\n", "s.b: {start: 1}\n")
    compilation = compiled(tmp_path, both)
    assert codes_of(compilation, *UNUSED) == []
    assert compilation.types is not None
    assert compilation.types.outputs["s", "sum"].short == "f32[T - 1, hidden=16]"


def test_the_initial_value_of_a_back_edge_fits_its_port(tmp_path: Path) -> None:
    program = """inputs: {prompt: text}
outputs: {y: s.sum, z: cut.segments}
nodes:
  t: {op: tokenize, with: tokenizer}
  k: {loop: think}
  s: {op: add}
  cut: {op: segment}
edges:
- prompt -> t.text
- t.tokens -> k.prompt
- k.hidden ~> s.a
- s.sum ~> s.b: {back_edge: {initial: 0, bound: 4}}
- cut.segments ~> cut.text: {back_edge: {initial: INITIAL, bound: 4}}
"""
    found = [f for f in faults(compiled(tmp_path, program.replace("INITIAL", "7"))) if f.code == "OF2005"]
    assert [f.message for f in found] == ["the first round cannot read 7: `cut.text` takes a text"]
    assert "OF2005" not in codes_of(compiled(tmp_path, program.replace("INITIAL", "'hello'")))
