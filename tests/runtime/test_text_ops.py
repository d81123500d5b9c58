"""Text is cut and decoded by what it says, never by how it came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omniflow.channel import Window
from omniflow.experts.null_text import FIRST_BYTE, NullLexicon, NullTokenizer
from omniflow.loops.base import Emit
from omniflow.ops.base import Call
from omniflow.ops.segment import segment
from omniflow.ops.table import OPS
from omniflow.ops.text import messages_of


def run(name: str, pieces: Sequence[Any], *, component: Any = None, **params: Any) -> list[Emit]:
    """An op with one streaming port over pieces that come one by one."""
    op = OPS[name]
    port = next(iter(op.pieces or op.items))
    memory = op.memory() if op.memory else None
    emits: list[Emit] = []
    for i, piece in enumerate(pieces):
        window = Window(piece, i if op.items else 0, 0, len(piece), 0, bool(op.items))
        call = Call(values={}, windows={port: window}, params=params, component=component, memory=memory, is_end=False)
        emits += [emit for emit in op.run(call) if isinstance(emit, Emit)]
    end = Call(values={}, windows={}, params=params, component=component, memory=memory, is_end=True)
    return emits + [emit for emit in op.run(end) if isinstance(emit, Emit)]


def segments(*pieces: str, **params: Any) -> list[str]:
    return [emit.data for emit in run("segment", pieces, **params)]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Dr. Smith met Mr. Jones at 5 p.m. today. He left.", ["Dr. Smith met Mr. Jones at 5 p.m. today.", "He left."]),
        ("Pi is 3.14 or so. Yes.", ["Pi is 3.14 or so.", "Yes."]),
        ("Wait... what? No", ["Wait... what?", "No"]),
        ('"Really?" she said. "Yes." He went.', ['"Really?" she said.', '"Yes."', "He went."]),
        ("1. Wash it. 2. Dry it.", ["1. Wash it.", "2. Dry it."]),
        ("A list\n- one\n- two\n\nEnd", ["A list", "- one", "- two", "End"]),
        ("e.g. this one, i.e. that. Fine", ["e.g. this one, i.e. that.", "Fine"]),
        ("Apples, pears, etc. They are sweet.", ["Apples, pears, etc.", "They are sweet."]),
        ("J. R. R. Tolkien wrote it. I read it.", ["J. R. R. Tolkien wrote it.", "I read it."]),
        ("It works!! Great", ["It works!!", "Great"]),
        ("  \n ", []),
        ("", []),
        ("no stop at all", ["no stop at all"]),
    ],
)
def test_sentences_end_where_a_reader_would_stop(text: str, want: list[str]) -> None:
    assert segments(text) == want
    assert segments(*text) == want


sizes = st.lists(st.integers(1, 9), max_size=30)
prose = st.text(alphabet="aB 1.,!?\n\"')…", max_size=80)


@settings(max_examples=300)
@given(prose, sizes, st.sampled_from(["sentence", "line", "word"]), st.integers(4, 40))
def test_segments_do_not_depend_on_the_pieces(text: str, sizes: list[int], by: str, longest: int) -> None:
    pieces, at = [], 0
    for size in sizes:
        pieces.append(text[at : at + size])
        at += size
    pieces.append(text[at:])
    whole = segments(text, by=by, max_characters=longest)
    assert segments(*pieces, by=by, max_characters=longest) == whole
    assert "".join("".join(whole).split()) == "".join(text.split())
    assert all(part.strip() == part and 0 < len(part) <= longest for part in whole)


def test_a_segment_that_is_too_long_is_cut_behind_a_comma_or_at_a_space() -> None:
    text = "aaaa bbbb, cccc dddd eeee ffff"
    assert segments(text, max_characters=16) == ["aaaa bbbb,", "cccc dddd eeee", "ffff"]


@given(
    st.lists(st.one_of(st.integers(4, FIRST_BYTE + 255), st.sampled_from([FIRST_BYTE + b for b in "é🙂ß".encode()])))
)
def test_pieces_of_decoded_text_add_up_and_hold_whole_characters(ids: list[int]) -> None:
    tokenizer = NullTokenizer()
    pieces = [torch.tensor([i]) for i in ids]
    emits = [emit.data for emit in run("detokenize", pieces, component=tokenizer)]
    assert "".join(emits) == tokenizer.decode(ids)


def test_half_a_character_waits_for_its_other_half() -> None:
    tokenizer = NullTokenizer()
    ids = tokenizer.encode("a🙂é")
    emits = [emit.data for emit in run("detokenize", [torch.tensor([i]) for i in ids], component=tokenizer)]
    assert emits == ["a", "🙂", "é"]


def test_a_phrase_is_spelled_closed_and_gathered_again() -> None:
    lexicon = NullLexicon()
    emits = run("spell", ["The sky is blue.", "Yes."], component=lexicon)
    forced = [emit.data.tolist() for emit in emits if emit.port == "forced"]
    assert forced.count([lexicon.end_id]) == 2
    words = [torch.tensor(ids) for ids in forced]
    gathered = [emit.data.tolist() for emit in run("gather", words, component=lexicon)]
    assert len(gathered) == 2
    assert all(lexicon.end_id not in phrase for phrase in gathered)


def test_join_puts_gaps_between_sounds_that_are_not_empty() -> None:
    op = OPS["join"]
    assert op.memory is not None
    memory, out = op.memory(), []
    for item, size in ((0, 2), (0, 1), (1, 0), (2, 3)):
        window = Window(torch.ones(size), item, 0, size, 0, True)
        windows = {"items": window}
        call = Call(values={}, windows=windows, params={"gap": 2}, component=None, memory=memory, is_end=False)
        out += [emit.data for emit in op.run(call) if isinstance(emit, Emit)]
    assert torch.cat(out).tolist() == [1, 1, 1, 0, 0, 1, 1, 1]


def test_sequence_ops_work_piece_by_piece() -> None:
    pieces = [torch.tensor([1, 9]), torch.tensor([2]), torch.tensor([9, 3, 12])]
    assert torch.cat([e.data for e in run("strip", pieces, drop=[9, 3])]).tolist() == [1, 2, 12]
    assert torch.cat([e.data for e in run("clamp", pieces, limit=9, fill=7)]).tolist() == [1, 7, 2, 7, 3, 7]
    assert torch.cat([e.data for e in run("slice", pieces, start=1, stop=4)]).tolist() == [9, 2, 9]
    assert torch.cat([e.data for e in run("slice", pieces, start=2)]).tolist() == [2, 9, 3, 12]


def test_messages_are_a_text_or_a_list_of_turns() -> None:
    assert messages_of("hi") == [{"role": "user", "content": "hi"}]
    assert messages_of("hi", "be brief")[0] == {"role": "system", "content": "be brief"}
    with pytest.raises(ValueError, match="message 0 needs role and content"):
        messages_of([{"role": "user"}])
    with pytest.raises(ValueError, match="non-empty list"):
        messages_of([])


def test_segment_is_a_function_over_calls() -> None:
    assert OPS["segment"].run is segment
