"""What a card writes of caches and sessions: where it arrives in the schedule, and what does not go together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omniflow_compiler import codes
from omniflow_compiler.pipeline import Compilation
from omniflow_compiler.reader import parse_schedule
from tests.compiler.programs import check, faults, line_of

CARD = """components:
  tokenizer: {use: null.tokenizer}
  lm:        {use: null.thinker}
  encoder:   {use: null.text_encoder}
  talker:    {use: null.talker}
loops:
  say:  {kind: ar_decode, binds: lm, max_tokens: 9, cache: kv}
  read: {kind: encode, binds: encoder, cache: kept}
caches:
  kv:   {kind: paged_kv, max_bytes: 1 MiB, block_tokens: 8, reuse: prefix}
  kept: {kind: features, max_bytes: 2 MiB}
lints: {OF3001: allow, OF3003: allow}
"""
PROGRAM = """inputs: {text: text}
outputs: {text: show.text, features: read.embeds}
nodes:
  cut:  {op: tokenize, with: tokenizer}
  say:  {loop: say}
  show: {op: detokenize, with: tokenizer}
  read: {loop: read}
edges:
  - text -> cut.text
  - cut.tokens -> say.prompt
  - say.tokens ~> show.tokens
  - cut.tokens -> read.tokens
"""


def compiled(folder: Path, *changes: tuple[str, str], program: str = PROGRAM) -> Compilation:
    card = CARD
    for old, new in changes:
        assert card.count(old) == 1
        card = card.replace(old, new)
    return check(folder, card, program)


def test_caches_arrive_in_the_schedule_and_come_back_from_its_file(tmp_path: Path) -> None:
    schedule = compiled(tmp_path).schedule
    assert schedule is not None
    again = parse_schedule(schedule.to_json(), "again")
    found = {(c.name, c.kind, c.max_bytes, c.block_tokens, c.reuse) for c in again.caches}
    assert found == {("kv", "paged_kv", 1 << 20, 8, "prefix"), ("kept", "features", 2 << 20, 16, "")}
    assert [again.node(name).cache for name in ("say", "read")] == ["kv", "kept"]


def test_a_card_that_asks_for_less_compiles_to_another_schedule(tmp_path: Path) -> None:
    hashes = set()
    for changes in [
        (),
        ((", reuse: prefix", ""),),
        ((", cache: kept", ""),),
        (("max_tokens: 9,", "max_tokens: 9, session: true,"),),
    ]:
        schedule = compiled(tmp_path, *changes).schedule
        assert schedule is not None
        hashes.add(schedule.content_hash)
    assert len(hashes) == 4


def test_both_kinds_count_in_the_memory_plan(tmp_path: Path) -> None:
    schedule = compiled(tmp_path).schedule
    assert schedule is not None
    held = {holder.name: holder.bytes for holder in schedule.memory[0].holders if holder.kind == "cache"}
    assert held == {"kv": 1 << 20, "kept": 2 << 20}


def test_features_have_no_blocks_and_no_beginnings(tmp_path: Path) -> None:
    compilation = compiled(tmp_path, ("max_bytes: 2 MiB", "max_bytes: 2 MiB, block_tokens: 4, reuse: prefix"))
    found = faults(compilation)
    assert [fault.code for fault in found] == [codes.UNKNOWN_KEY.id] * 2
    assert [line_of(compilation, fault) for fault in found] == ["block_tokens", "reuse"]


@pytest.mark.parametrize(
    ("old", "new"), [("binds: encoder, cache: kept", "binds: encoder, cache: kv"), ("9, cache: kv", "9, cache: kept")]
)
def test_a_cache_of_the_other_kind_is_found_where_it_is_named(tmp_path: Path, old: str, new: str) -> None:
    compilation = compiled(tmp_path, (old, new))
    (fault,) = faults(compilation)
    assert fault.code == codes.CACHE_KIND.id
    assert line_of(compilation, fault) == new.rpartition(" ")[2]


def test_what_is_no_way_to_reuse_is_named(tmp_path: Path) -> None:
    compilation = compiled(tmp_path, ("reuse: prefix", "reuse: perfix"))
    (fault,) = faults(compilation)
    assert fault.code == codes.BAD_VALUE.id
    assert any("prefix" in line for line in fault.help)


def test_an_expert_that_cannot_reuse_is_found(tmp_path: Path) -> None:
    program = PROGRAM.replace("cut.tokens -> say.prompt", "cut.tokens -> say.source")
    compilation = compiled(tmp_path, ("binds: lm", "binds: talker"), program=program)
    assert codes.CACHE_REUSE.id in [fault.code for fault in faults(compilation)]


def test_an_expert_that_would_not_use_its_cache_is_found_where_it_is_named(tmp_path: Path) -> None:
    edits = (("binds: lm", "binds: talker"), ("null.talker", "smol.talker"), (", reuse: prefix", ""))
    compilation = compiled(
        tmp_path, *edits, program=PROGRAM.replace("cut.tokens -> say.prompt", "cut.tokens -> say.source")
    )
    (fault,) = [fault for fault in faults(compilation) if fault.code == codes.CACHE_UNREAD.id]
    assert line_of(compilation, fault) == "kv"
    assert fault.help == ("leave `cache` out of loop `say`",)


SESSION = ("max_tokens: 9,", "max_tokens: 9, session: true,")


def test_a_session_needs_no_more_than_a_prompt(tmp_path: Path) -> None:
    schedule = compiled(tmp_path, SESSION).schedule
    assert schedule is not None
    assert schedule.node("say").attributes["session"] is True


def test_a_session_of_items_is_found(tmp_path: Path) -> None:
    program = """inputs: {text: text}
outputs: {tokens: say.tokens}
nodes:
  part: {op: segment, by: sentence}
  cut:  {op: tokenize, with: tokenizer, each: true}
  say:  {loop: say, each: true}
edges:
  - text ~> part.text
  - part.segments ~> cut.text
  - cut.tokens ~> say.prompt
"""
    compilation = compiled(tmp_path, SESSION, program=program)
    found = [fault for fault in faults(compilation) if fault.code == codes.SESSION.id]
    assert [line_of(compilation, fault) for fault in found] == ["say"]
    assert "runs once per item" in found[0].message


def test_a_session_of_a_kind_of_loop_that_has_none_is_an_unknown_key(tmp_path: Path) -> None:
    compilation = compiled(tmp_path, ("kind: encode,", "kind: encode, session: true,"))
    (fault,) = faults(compilation)
    assert fault.code == codes.UNKNOWN_KEY.id
    assert line_of(compilation, fault) == "session"


def test_a_cache_with_room_for_a_prompt_of_one_token_is_fine_and_a_block_less_is_not(tmp_path: Path) -> None:
    # 9 new tokens and one of a prompt are two blocks of 8 tokens, 64 bytes each
    for size, found in ((1024, []), (1000, []), (512, [codes.CACHE_ROOM.id])):
        compilation = compiled(tmp_path, ("max_bytes: 1 MiB", f"max_bytes: {size}"))
        assert [fault.code for fault in compilation.report] == found, size


def test_what_a_token_takes_is_read_from_the_checkpoint_and_halves_with_the_dtype(tmp_path: Path) -> None:
    config = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    (tmp_path / "config.json").write_text(json.dumps(config))
    card = f"""components:
  lm: {{use: hf.decoder, from: {tmp_path}, dtype: DTYPE}}
loops:
  say: {{kind: ar_decode, binds: lm, max_tokens: 16, cache: kv}}
caches:
  kv: {{kind: paged_kv, max_bytes: 4 KiB, block_tokens: 1}}
"""
    program = """inputs: {ids: "tokens[P]"}
outputs: {ids: say.tokens}
nodes: {say: {loop: say}}
edges: [ids -> say.prompt]
"""
    full = check(tmp_path, card.replace("DTYPE", "float32"), program)
    (fault,) = full.report
    assert fault.code == codes.CACHE_ROOM.id
    assert "holds 8 tokens" in fault.message  # 2 layers x (keys, values) x 2 heads x 16 x 4 bytes
    assert "needs 17" in fault.message
    (fault,) = check(tmp_path, card.replace("DTYPE", "bfloat16"), program).report
    assert "holds 16 tokens" in fault.message
    unknown = card.replace(str(tmp_path), "nowhere").replace("DTYPE", "float32")
    assert not list(check(tmp_path, unknown, program).report)


def test_a_bound_that_depends_on_another_loop_is_not_held_against_the_cache(tmp_path: Path) -> None:
    loop = "  more: {kind: ar_decode, binds: lm, max_tokens: 100 * say.tokens, cache: small}\n"
    cache = "  small: {kind: paged_kv, max_bytes: 1 KiB}\n"
    changes = (("  read: {", f"{loop}  read: {{"), ("  kept: {k", f"{cache}  kept: {{k"))
    assert codes.CACHE_ROOM.id not in [fault.code for fault in compiled(tmp_path, *changes).report]
