"""A card that holds weights in fewer bits says how far they may be from the full ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from omniflow_compiler import codes
from omniflow_compiler.pipeline import Compilation, Options, compile_file
from omniflow_compiler.reader import parse_schedule
from tests.compiler.programs import check, faults, line_of

CARD = """params: {bits: {type: enum, of: [none, int8, int4], default: none}}
components:
  lm: {use: hf.decoder, from: nowhere, quantize: $bits}
loops:
  say: {kind: ar_decode, binds: lm, max_tokens: 9, stop: [0]}
PARITY
"""
PROGRAM = """inputs: {ids: "tokens[P]"}
outputs: {tokens: say.tokens}
nodes:
  say: {loop: say}
edges:
  - ids -> say.prompt
"""


def card(parity: str = "", bits: str = "int8") -> str:
    return CARD.replace("PARITY", parity).replace("default: none", f"default: {bits}")


def test_a_form_the_card_does_not_name_is_refused_where_it_is_asked_for(tmp_path: Path) -> None:
    found = check(tmp_path, card("parity: {quantized: {int4: 0.05}}"), PROGRAM)
    (fault,) = faults(found, "OF3004")
    assert fault.code == codes.QUANTIZED.id
    assert line_of(found, fault) == "$bits"
    assert "`lm` is held in int8" in fault.message


@pytest.mark.parametrize("bits", ["none", "int8"])
def test_a_form_the_card_names_and_full_weights_are_taken(tmp_path: Path, bits: str) -> None:
    parity = "parity: {quantized: {int8: 0.05}}" if bits == "int8" else ""
    found = check(tmp_path, card(parity, bits), PROGRAM)
    assert not faults(found)
    assert found.schedule is not None
    assert parse_schedule(found.schedule.to_json(), "x").parity == ({"quantized": {"int8": 0.05}} if parity else {})


@pytest.mark.parametrize("written", ["{int2: 0.1}", "{int8: -1}", "{int8: lots}", "0.1"])
def test_other_forms_and_other_values_are_refused(tmp_path: Path, written: str) -> None:
    found = check(tmp_path, card(f"parity: {{quantized: {written}}}"), PROGRAM)
    assert {fault.code for fault in faults(found)} & {"OF1101", "OF1103", "OF1104"}


def workflow(folder: Path, **stages: str) -> Compilation:
    """A workflow of two programs, each over a card with that line of parity."""
    for name, parity in stages.items():
        (folder / f"{name}.card.yaml").write_text(f"omniflow: 1\nkind: card\nid: {name}\n{card(parity)}")
        (folder / f"{name}.program.yaml").write_text(
            f"omniflow: 1\nkind: program\nid: {name}.say\ncard: {name}\n{PROGRAM}"
        )
    path = folder / "w.workflow.yaml"
    path.write_text(
        'omniflow: 1\nkind: workflow\nid: w\ninputs: {ids: "tokens[P]"}\noutputs: {tokens: b.tokens}\n'
        "stages: {a: {program: one.program.yaml}, b: {program: two.program.yaml}}\n"
        "edges:\n  - ids -> a.ids\n  - a.tokens -> b.ids\n"
    )
    return compile_file(path, Options())


def allowing(nats: float) -> str:
    return f"parity: {{quantized: {{int8: {nats}}}}}"


def test_each_stage_of_a_workflow_is_held_to_its_own_card(tmp_path: Path) -> None:
    found = workflow(tmp_path, one=allowing(0.2), two=allowing(0.1))
    assert found.schedule is not None, [fault.message for fault in found.report]
    assert found.schedule.parity == {"quantized": {"a/int8": 0.2, "b/int8": 0.1}}


def test_a_stage_whose_card_allows_nothing_does_not_hide_behind_one_that_does(tmp_path: Path) -> None:
    found = workflow(tmp_path, one=allowing(0.2), two="")
    (fault,) = [fault for fault in faults(found) if fault.code == codes.QUANTIZED.id]
    assert fault.message.startswith("`b/lm` is held in int8, and its card says nowhere")
    assert fault.span.file.endswith("two.card.yaml")
