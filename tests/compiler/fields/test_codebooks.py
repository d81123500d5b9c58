"""What a card writes of codebooks and of guided tokens: where it arrives, and what does not go together."""

from __future__ import annotations

from pathlib import Path

import pytest

from omniflow_compiler import codes
from omniflow_compiler.pipeline import Compilation
from tests.compiler.programs import check, faults, line_of

CARD = """components:
  tokenizer: {use: null.tokenizer}
  composer:  {use: null.composer}
  thinker:   {use: null.thinker}
loops:
  compose: {kind: ar_decode, binds: composer, max_tokens: 9, delays: [0, 1, 2, 3], cfg: 3.0, cache: kv}
  think:   {kind: ar_decode, binds: thinker, max_tokens: 9}
caches:
  kv: {kind: paged_kv, max_bytes: 4 KiB, block_tokens: 4}
lints: {OF3001: allow, OF3003: allow}
"""
PROGRAM = """inputs: {text: text}
outputs: {codes: compose.codes, tokens: think.tokens}
nodes:
  cut:     {op: tokenize, with: tokenizer}
  compose: {loop: compose}
  think:   {loop: think}
edges:
  - text -> cut.text
  - cut.tokens -> compose.source
  - cut.tokens -> think.prompt
"""


def compiled(folder: Path, *changes: tuple[str, str]) -> Compilation:
    card = CARD
    for old, new in changes:
        assert card.count(old) == 1
        card = card.replace(old, new)
    return check(folder, card, PROGRAM)


def test_they_arrive_in_the_schedule_and_the_last_codebook_is_waited_for(tmp_path: Path) -> None:
    schedule = compiled(tmp_path).schedule
    assert schedule is not None
    node = schedule.node("compose")
    assert node.attributes["delays"] == [0, 1, 2, 3]
    assert node.attributes["cfg"] == 3.0
    assert [unit.expected for unit in node.units if unit.kind == "ar_token"] == [12]
    (output,) = [port for port in node.outputs if port.name == "codes"]
    assert output.type.text == "codes[T=compose.T, 4]"


@pytest.mark.parametrize(
    ("old", "new", "message", "line"),
    [
        ("[0, 1, 2, 3]", "[0, 1]", "`delays` of loop `compose` has 2 numbers, `null.composer` chooses 4", "[0, 1]"),
        (
            " delays: [0, 1, 2, 3],",
            "",
            "`delays` of loop `compose` has 0 numbers, `null.composer` chooses 4",
            "compose",
        ),
        (
            "binds: thinker,",
            "binds: thinker, delays: [0],",
            "`delays` of loop `think` has 1 numbers, `null.thinker` chooses 0",
            "[0]",
        ),
        ("cfg: 3.0,", "cfg: 3.0, stop: [1],", "`stop` of loop `compose` is of single ids, and with `delays`", "[1]"),
        ("cfg: 3.0,", "cfg: 3.0, repetition_penalty: 1.2,", "`repetition_penalty` of loop `compose` is of", "1.2"),
    ],
)
def test_delays_that_do_not_fit_are_found(tmp_path: Path, old: str, new: str, message: str, line: str) -> None:
    compilation = compiled(tmp_path, (old, new))
    (fault,) = faults(compilation)
    assert fault.code == codes.BAD_VALUE.id
    assert message in fault.message
    assert line_of(compilation, fault) == line


@pytest.mark.parametrize(("cfg", "sequences"), [("3.0", 2), ("1.0", 1)])
def test_what_leases_from_no_cache_is_planned_with_its_columns_and_its_branch(
    tmp_path: Path, cfg: str, sequences: int
) -> None:
    schedule = compiled(tmp_path, (", cache: kv", ""), ("cfg: 3.0", f"cfg: {cfg}")).schedule
    assert schedule is not None
    held = {holder.name: holder.bytes for holder in schedule.memory[0].holders if holder.kind == "state"}
    assert held["compose"] == sequences * 13 * 64


def test_guidance_of_a_model_that_knows_no_other_branch_is_found(tmp_path: Path) -> None:
    compilation = compiled(tmp_path, ("binds: thinker,", "binds: thinker, cfg: 2.0,"))
    (fault,) = faults(compilation)
    assert fault.code == codes.GUIDANCE.id
    assert fault.message == "`think` is guided, and `null.thinker` has nothing that guidance could leave out"
    assert line_of(compilation, fault) == "2.0"
    assert compiled(tmp_path, ("binds: thinker,", "binds: thinker, cfg: 1,")).schedule is not None


@pytest.mark.parametrize(("room", "fits"), [("1664", True), ("1536", False)])
def test_a_cache_has_to_hold_both_sequences_and_the_columns_behind_the_last_frame(
    tmp_path: Path, room: str, fits: bool
) -> None:
    """13 positions in blocks of 4, twice, at 64 bytes each."""
    compilation = compiled(tmp_path, ("max_bytes: 4 KiB", f"max_bytes: {room}"))
    assert [fault.code for fault in faults(compilation)] == ([] if fits else [codes.CACHE_ROOM.id])
