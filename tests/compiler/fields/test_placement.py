"""Components that ask for what their expert cannot be."""

from __future__ import annotations

from pathlib import Path

from tests.compiler.programs import check, faults

PROGRAM = """inputs: {ids: "tokens[P]"}
outputs: {ids: say.tokens}
nodes: {say: {loop: say}}
edges: [ids -> say.prompt]
"""


def messages(folder: Path, component: str, **devices: str) -> list[str]:
    card = f"components: {{lm: {component}}}\nloops: {{say: {{kind: ar_decode, binds: lm, max_tokens: 4}}}}\n"
    return [found.message for found in faults(check(folder, card, PROGRAM, devices=devices)) if found.code == "OF2015"]


def test_weights_in_fewer_bits_are_for_the_cpu(tmp_path: Path) -> None:
    quantized = "{use: hf.decoder, from: weights, quantize: int8}"
    assert messages(tmp_path, quantized) == []
    assert messages(tmp_path, quantized, lm="cuda:1") == [
        "component `lm` (`hf.decoder`) cannot be on cuda:1 with `quantize: int8`"
    ]
    assert messages(tmp_path, quantized.replace(", quantize: int8", ""), lm="cuda") == []


def test_a_device_of_the_command_line_is_held_against_the_expert(tmp_path: Path) -> None:
    assert messages(tmp_path, "{use: null.thinker}", default="cuda") == [
        "component `lm` (`null.thinker`) cannot be on cuda"
    ]
    assert messages(tmp_path, "{use: null.thinker}", default="cpu") == []
    assert messages(tmp_path, "{use: hf.decoder, from: weights, dtype: float16}") == [
        "component `lm` (`hf.decoder`) cannot be float16"
    ]
