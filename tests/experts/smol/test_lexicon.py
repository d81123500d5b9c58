"""Sentences to what the talker reads and says by heart, and its phonemes to the voice's ids."""

from __future__ import annotations

import subprocess
import sys
from itertools import groupby

import pytest

from omniflow.experts.smol_alphabet import CHARACTERS, END, MAX_POSITIONS, NETWORK_VOCAB, SYMBOLS, phoneme_text
from omniflow.experts.smol_lexicon import LONGEST_BREATH, SmolLexicon

READINGS = {"the": "ði", "a": "A", "is": "ɪz", "of": "ʌv", "it": "ɪt", "D": "dˈi", "N": "ˈɛn", "A": "ˈA", "to": "tu"}
VOICE = {symbol: i for i, symbol in enumerate((*SYMBOLS, "T"), 1)}
LETTER = {i: c for c, i in CHARACTERS.items()}


@pytest.fixture
def small() -> SmolLexicon:
    return SmolLexicon(readings=READINGS, voice_ids=VOICE)


def shown(words: list[tuple[list[int], list[int]]]) -> list[str]:
    """Spelled words as they are, forced ones between slashes, END as a bar."""
    return [
        "".join(LETTER[i] for i in characters[1:-1])
        if characters
        else f"/{phoneme_text(forced)}{'|' if forced[-1] == END else ''}/"
        for characters, forced in words
    ]


def test_function_words_are_forced_and_others_spelled(small: SmolLexicon) -> None:
    words = small.spell("The capital of France is Paris.")
    assert shown(words) == ["/ðə /", "capital", "/ ʌv /", "France", "/ ɪz /", "Paris", "/.|/"]


def test_exactly_one_of_characters_and_forced_is_given(small: SmolLexicon) -> None:
    for characters, forced in small.spell("It is a DNA test (of the apple) -- 5 of 7!"):
        assert bool(characters) != bool(forced)
        assert all(0 <= i < NETWORK_VOCAB for i in characters)


def test_articles_listen_to_the_word_that_follows(small: SmolLexicon) -> None:
    assert shown(small.spell("the ocean, the sea, to it, to")) == [
        "/ði /", "ocean", "/, ðə /", "sea", "/, tʊ ɪt, tu.|/"
    ]  # fmt: skip


def test_a_sentence_without_a_stop_gets_one(small: SmolLexicon) -> None:
    assert shown(small.spell("Paris")) == ["Paris", "/.|/"]
    assert shown(small.spell("Paris?")) == ["Paris", "/?|/"]


def test_what_cannot_be_said_has_no_words(small: SmolLexicon) -> None:
    for text in ("", "  \n", "🙂", "...", "日本", "()"):
        assert small.spell(text) == []


def test_acronyms_are_letters_and_brackets_hug_their_words(small: SmolLexicon) -> None:
    assert shown(small.spell("DNA (test)")) == ["/dˈi ˈɛn ˈA (/", "test", "/).|/"]


def test_a_possessive_of_a_known_word_takes_its_s(small: SmolLexicon) -> None:
    assert shown(small.spell("it's")) == ["/ɪts.|/"]
    assert shown(small.spell("of's")) == ["/ʌvz.|/"]


def test_every_breath_group_ends_and_is_short_enough_for_the_voice(small: SmolLexicon) -> None:
    for text in ("mountain, " * 200, "mountain " * 200):
        lengths = [0]
        for characters, forced in small.spell(text):
            lengths[-1] += len(characters) + len(forced)
            if END in forced:
                assert forced[-1] == END
                lengths.append(0)
        assert lengths.pop() == 0
        assert len(lengths) > 3
        assert max(lengths) < 1.5 * LONGEST_BREATH


def test_a_word_without_end_is_spelled_in_pieces_that_fit_the_talker(small: SmolLexicon) -> None:
    spelled = [characters for characters, _ in small.spell("b" * 500) if characters]
    assert max(map(len, spelled)) <= MAX_POSITIONS
    assert sum(len(characters) - 2 for characters in spelled) == 500


def test_the_voice_gets_its_own_ids_in_a_frame(small: SmolLexicon) -> None:
    sounds = [SYMBOLS[c] for c in "sˈɪɾi."]
    assert small.to_acoustic([*sounds, END]) == [0, *(VOICE[c] for c in "sˈɪTi."), 0]
    assert small.to_acoustic([0, 1, 2, 3, END]) == [0, 0]


@pytest.mark.weights("hibari")
def test_the_voice_knows_every_symbol_that_is_written(lexicon: SmolLexicon) -> None:
    assert len(lexicon.to_acoustic(list(SYMBOLS.values()))) == len(SYMBOLS) + 2
    assert lexicon.end_id == END not in SYMBOLS.values()


@pytest.mark.weights("hibari")
def test_closed_classes_of_words_need_no_talker(lexicon: SmolLexicon) -> None:
    text = "I'm not there, and they're with us on Monday, May twenty first: isn't that what's best for you?"
    spelled = [shown([word])[0] for word in lexicon.spell(text) if word[0]]
    assert spelled == ["best"]


@pytest.mark.weights("hibari")
def test_forced_and_spelled_words_alternate(lexicon: SmolLexicon) -> None:
    kinds = [
        bool(forced) for _, forced in lexicon.spell("The sky is blue because of a process, and it is one of many.")
    ]
    assert [len(list(run)) for is_forced, run in groupby(kinds) if is_forced] == [1] * (sum(kinds))


def test_the_lexicon_does_not_import_torch() -> None:
    program = "import sys, omniflow.experts.smol_lexicon; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
