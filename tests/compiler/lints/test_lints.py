from __future__ import annotations

from pathlib import Path

from omniflow_compiler.library.signature import ExpertSignature
from omniflow_compiler.pipeline import Compilation, Options, compile_file
from tests.compiler.programs import check, codes_of, faults, ports

CARD = """components:
  tokenizer: {use: null.tokenizer}
  lm: {use: t.text_lm}
  m: {use: t.map}
loops:
  think: {kind: ar_decode, binds: lm, max_tokens: 8, cache: kv}
  map: {kind: encode, binds: m}
caches:
  kv: {kind: paged_kv, max_bytes: 1 MiB}
"""
PROGRAM = """inputs: {prompt: "tokens[P]"}
outputs: {y: b.y}
nodes: {a: {loop: think}, b: {loop: map}}
edges: [prompt -> a.prompt, a.hidden -> b.x]
"""


def test_what_no_program_of_a_card_uses_is_reported_once_each(tmp_path: Path) -> None:
    card = CARD + "  spare: {kind: paged_kv, max_bytes: 1 MiB}\nparams: {size: {type: int, default: 3}}\n"
    card = card.replace("loops:\n", "loops:\n  again: {kind: ar_decode, binds: lm, max_tokens: 4}\n")
    compilation = check(tmp_path, card, PROGRAM)
    found = faults(compilation)
    assert {f.code: f.message for f in found} == {
        "OF3001": "no program uses component `tokenizer`",
        "OF3002": "no program uses loop `again`",
        "OF3003": "no loop leases from cache `spare`",
        "OF3004": "nothing reads param `size`",
    }
    assert {f.level for f in found} == {"warning"}
    assert all(f.span.file.endswith("card.yaml") for f in found)
    assert compilation.schedule is not None


def test_another_program_of_the_card_may_use_it(tmp_path: Path) -> None:
    assert codes_of(check(tmp_path, CARD, PROGRAM)) == ["OF3001"]
    (tmp_path / "q.program.yaml").write_text(
        "omniflow: 1\nkind: program\nid: q\ncard: c\ninputs: {x: text}\noutputs: {y: t.tokens}\n"
        "nodes: {t: {op: tokenize, with: tokenizer}}\nedges: [x -> t.text]\n",
        encoding="utf-8",
    )
    assert codes_of(check(tmp_path, CARD, PROGRAM)) == []
    assert codes_of(compile_file(tmp_path / "card.yaml", Options())) != ["OF3001"]


def test_params_count_as_read_in_values_and_in_conditions(tmp_path: Path) -> None:
    card = "params: {n: {type: int, default: 8}, on: {type: bool, default: true}}\n" + CARD.replace(
        "tokens: 8", "tokens: $n"
    )
    program = PROGRAM.replace("{loop: map}", "{loop: map, when: params.on}")
    assert codes_of(check(tmp_path, card, program), "OF3001") == []


def test_a_lint_is_silent_while_there_are_errors(tmp_path: Path) -> None:
    assert codes_of(check(tmp_path, CARD, PROGRAM.replace("{loop: think}", "{loop: thnk}"))) == ["OF1304"]


def test_wider_values_into_a_narrower_expert_are_reported(tmp_path: Path) -> None:
    card = CARD.replace("{use: t.map}", "{use: t.at_50, dtype: bfloat16}")
    program = PROGRAM.replace("a: {loop: think}, ", "").replace("prompt -> a.prompt, a.hidden -> b.x", "x -> b.x")
    program = program.replace('prompt: "tokens[P]"', 'x: "f32[T, 8]"')
    (found,) = faults(check(tmp_path, card, program), "OF3001", "OF3002", "OF3003")
    assert found.code == "OF3005"
    assert found.message == "`x` is f32, `m` works in bf16: the rest is lost without a word"
    assert [label.text for label in found.labels] == ["works in bf16"]
    same = card.replace(", dtype: bfloat16", "")
    assert codes_of(check(tmp_path, same, program), "OF3001", "OF3002", "OF3003") == []


def test_a_trip_to_the_host_and_back_is_reported(tmp_path: Path) -> None:
    card = CARD.replace("{use: t.text_lm}", "{use: t.text_lm, device: cuda}")
    card = card.replace("  m: {use: t.map}", "  m: {use: t.map}\n  n: {use: t.map, device: cuda}")
    card = card.replace("  map: {kind", "  last: {kind: encode, binds: n}\n  map: {kind")
    program = """inputs: {prompt: "tokens[P]"}
outputs: {y: c.y}
nodes: {a: {loop: think}, b: {loop: map}, s: {op: slice, stop: 3}, c: {loop: last}}
edges: [prompt -> a.prompt, a.hidden -> b.x, b.y -> s.value, s.value -> c.x]
"""
    ignored = ("OF3001", "OF3003")
    (found,) = faults(check(tmp_path, card, program), *ignored)
    assert found.code == "OF3006"
    assert found.message == "tensors go from cuda to `b` on cpu and back, once a request"
    assert [label.text for label in found.labels] == ["back to cuda", "`m` is on cpu"]
    near = card.replace("m: {use: t.map}", "m: {use: t.map, device: cuda}")
    assert codes_of(check(tmp_path, near, program), *ignored) == []


def test_a_ring_without_a_way_out_is_reported_once(tmp_path: Path) -> None:
    program = """inputs: {prompt: text, other: text}
outputs: {y: t.tokens}
nodes:
  t: {op: tokenize, with: tokenizer}
  u: {op: tokenize, with: tokenizer}
  k: {loop: think}
  c: {op: add}
  d: {op: add}
edges:
- prompt -> t.text
- other -> u.text
- u.tokens -> k.prompt
- k.hidden ~> c.a
- d.sum ~> c.b: {back_edge: {initial: 0, bound: 4}}
- c.sum ~> d.a
- k.hidden ~> d.b
"""
    (found,) = faults(check(tmp_path, CARD, program), "OF3002")
    assert found.code == "OF2011"
    assert found.message == "the ring through `c` and `d` leads to no output"
    out = program.replace("{y: t.tokens}", "{y: t.tokens, z: d.sum}")
    assert codes_of(check(tmp_path, CARD, out), "OF3002") == []


PAINTED = """inputs:
  x: "f32[P, 4]"
  height: {type: scalar, default: 64%s}
  width: {type: scalar, max: 96}
  fps: scalar
outputs: {y: a.y}
nodes: {a: {loop: paint}}
edges: [x -> a.x, height -> a.height, width -> a.width, fps -> a.fps]
"""


def painter(folder: Path, bound: str) -> Compilation:
    ports_in = {"x": "f32[P, 4]", "height": "scalar", "width": "scalar", "fps": "scalar"}
    expert = ExpertSignature(
        use="t.painter", role="test", doc="For tests.",
        sizes={"scale": 8}, most={"H": "height/{scale} + 1", "W": "width/{scale}"},
        serves={"diffusion_denoise": ports(ports_in, {"y": "latent[3, H, W]"})},
    )  # fmt: skip
    card = "components: {m: {use: t.painter}}\nloops: {paint: {kind: diffusion_denoise, binds: m, steps: 2}}\n"
    return check(folder, card, PAINTED % bound, experts=[expert])


def test_a_number_that_sizes_memory_without_a_limit_is_reported_and_planned_for_as_it_usually_comes(
    tmp_path: Path,
) -> None:
    compilation = painter(tmp_path, "")
    (found,) = faults(compilation)
    assert (found.code, found.level) == ("OF2403", "warning")
    assert found.message == "input `height` decides how much memory `a` needs, and may be of any size"
    assert compilation.schedule is not None
    assert compilation.schedule.lengths == {"a.H": 9, "a.W": 12, "inputs.height": 64, "inputs.width": 96}
    assert {"a.H", "inputs.height"} <= set(compilation.schedule.assumed)


def test_a_limit_of_a_number_is_what_the_plan_counts_on(tmp_path: Path) -> None:
    compilation = painter(tmp_path, ", max: 512")
    assert faults(compilation) == []
    assert compilation.schedule is not None
    assert compilation.schedule.lengths["a.H"] == 65
    assert "a.H" not in compilation.schedule.assumed
    (buffer,) = (found for found in compilation.schedule.buffers if found.port == "a.y")
    assert buffer.bytes == 3 * 65 * 12 * 4
