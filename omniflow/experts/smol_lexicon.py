"""What the talker reads and what the voice reads: sentences to words for the talker, its phonemes to the voice's ids.

Closed classes of words (function words, numerals, letters, days, months) and punctuation are looked up, because the
talker learnt isolated words and stresses those wrongly; every other word is spelled for it. Torch-free.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omniflow.experts.smol_alphabet import END, SYMBOL_OF, SYMBOLS, spell_word
from omniflow.experts.smol_normalizer import MARKS, PAUSES, words_of
from omniflow.experts.smol_normalizer_tables import DAYS, FUNCTION_WORDS, LETTERS, MONTHS, NUMERALS

if TYPE_CHECKING:
    import torch

LOOKED_UP = FUNCTION_WORDS | NUMERALS | LETTERS | {*MONTHS, *DAYS}
LONGEST_WORD = 40  # characters in one piece: the talker has 64 positions
BREATH = 200  # characters of a breath group after which a pause ends it
LONGEST_BREATH = 320  # characters after which any word ends it: the voice was trained on sentences of 400 phonemes
FRAME_ID = 0  # the voice's id for "nothing", at both ends of a sentence
CLOSERS = frozenset(".!?…")
VOWELS = frozenset("aeiou")
VOICELESS = frozenset("ptkfθ")
WEAK: Mapping[str, tuple[str, str]] = {  # unstressed readings before a consonant and before a vowel
    "I": ("ˌI", "ˌI"),
    "a": ("ɐ", "ɐ"),
    "an": ("ɐn", "ɐn"),
    "the": ("ðə", "ði"),
    "to": ("tə", "tʊ"),
}
VOICE_SYMBOLS: Mapping[str, str] = {"ɾ": "T", "ʔ": "t"}  # the voice writes two of the talker's sounds otherwise


# Exactly one is not empty: character ids for the talker to read, or ids to put on its output as they are.
Word = tuple[list[int], list[int]]


class SmolLexicon:
    """Role Lexicon (omniflow.roles) of the ops `spell` and `gather`.

    readings: word to phonemes (symbols of SYMBOLS) for words that are looked up; voice_ids: symbol to the voice's id.
    """

    def __init__(self, *, readings: Mapping[str, str], voice_ids: Mapping[str, int]) -> None:
        self._readings = {
            word: [SYMBOLS[sound] for sound in sounds]
            for word, sounds in readings.items()
            if all(sound in SYMBOLS for sound in sounds)
        }
        self._voice_ids = {
            i: voice_ids[VOICE_SYMBOLS.get(symbol, symbol)]
            for i, symbol in SYMBOL_OF.items()
            if VOICE_SYMBOLS.get(symbol, symbol) in voice_ids
        }

    @property
    def end_id(self) -> int:
        """The id that closes a breath group on the talker's stream."""
        return END

    def spell(self, text: str) -> list[Word]:
        """Words and forced runs of one sentence in order; nothing when nothing in it can be said.

        Every breath group, and so the sentence, ends with END; a long sentence has several.
        """
        said = words_of(text)
        if all(word in MARKS for word in said):
            return []
        if said[-1] not in CLOSERS:
            said.append(".")
        return [word for group in _breaths(said) for word in self._group(group)]

    def to_acoustic(self, ids: Sequence[int]) -> list[int]:
        """The voice's phoneme ids of one breath group, framed; specials, END and sounds it lacks are left out."""
        return [FRAME_ID, *(self._voice_ids[i] for i in ids if i in self._voice_ids), FRAME_ID]

    def _group(self, said: Sequence[str]) -> list[Word]:
        words: list[Word] = []
        forced: list[int] = []
        for i, word in enumerate(said):
            forced += _space(said[i - 1] if i else "", word)
            sounds = self._forced(word, said[i + 1] if i + 1 < len(said) else "")
            if sounds:
                forced += sounds
                continue
            if forced:
                words.append(([], forced))
                forced = []
            words += [(spell_word(piece), []) for piece in _pieces(word)]
        return [*words, ([], [*forced, END])]

    def _forced(self, word: str, following: str) -> list[int]:
        """Ids of a mark or of a looked-up word; empty when the talker has to read it."""
        if word in MARKS:
            return [SYMBOLS[word]]
        key = word if word in self._readings else word.lower()
        if key in WEAK and following not in {"", *PAUSES}:
            return [SYMBOLS[sound] for sound in WEAK[key][following[0].lower() in VOWELS]]
        if key in self._readings:
            return self._readings[key]
        stem = self._readings.get(key.removesuffix("'s"), [])
        return [*stem, SYMBOLS["s" if SYMBOL_OF[stem[-1]] in VOICELESS else "z"]] if stem else []


def _breaths(said: Sequence[str]) -> list[list[str]]:
    groups: list[list[str]] = [[]]
    length = 0
    for word in said:
        is_full = length > LONGEST_BREATH or (length > BREATH and groups[-1][-1] in PAUSES)
        if is_full and word not in MARKS:
            groups.append([])
            length = 0
        groups[-1].append(word)
        length += len(word) + 1
    return groups


def _space(before: str, word: str) -> list[int]:
    is_joined = before in ("", "(") or word in PAUSES or word == ")"
    return [] if is_joined else [SYMBOLS[" "]]


def _pieces(word: str) -> list[str]:
    return [word[i : i + LONGEST_WORD] for i in range(0, len(word), LONGEST_WORD)]


def load(folder: Path, *, dtype: torch.dtype, device: torch.device) -> SmolLexicon:  # noqa: ARG001
    """Reads lexicon.json and vocab.json of the voice; dtype and device do not matter to a lexicon."""
    lexicon: dict[str, str] = json.loads((folder / "lexicon.json").read_text(encoding="utf-8"))
    voice_ids: dict[str, int] = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    return SmolLexicon(
        readings={word: lexicon[key] for word in sorted(LOOKED_UP) for key in _keys(word) if key in lexicon},
        voice_ids=voice_ids,
    )


def _keys(word: str) -> tuple[str, ...]:
    """How the lexicon may write a word; contractions of "I" keep their capital there."""
    return (word, word.capitalize()) if word.startswith("i'") else (word,)
