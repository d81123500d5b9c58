"""A tokenizer of words and bytes, and a lexicon of a few function words: small, complete, without files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from omniflow_compiler.schedule import Cache, Expert

PAD, START, STOP, USER = 0, 1, 2, 3
_OPENERS = "The We A Rain Light Stars Grass Air"
_WORDS = (
    "sky is blue because light of the sun meets air and short waves go round more than long ones do in it so we see "
    "them from all over a cat sat on my mat near an old tree while rain fell down to cool grass under stars"
)
OPENERS: tuple[str, ...] = tuple(" " + word for word in _OPENERS.split())  # words that begin a sentence
WORDS: tuple[str, ...] = OPENERS + tuple(dict.fromkeys(" " + word for word in _WORDS.split()))
FIRST_WORD = 4
PERIOD = FIRST_WORD + len(WORDS)
FIRST_BYTE = PERIOD + 1
VOCAB = FIRST_BYTE + 256


class NullTokenizer:
    """Role Tokenizer. Words that it knows are one token, everything else is UTF-8 bytes."""

    stop_ids: Sequence[int] = (STOP,)

    def __init__(self) -> None:
        self._ids = {word: i for i, word in enumerate(WORDS, FIRST_WORD)} | {".": PERIOD}

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for part in re.findall(r" ?[^\W\d_]+|.", text, re.DOTALL):
            known = self._ids.get(part)
            ids.extend([known] if known is not None else [FIRST_BYTE + byte for byte in part.encode()])
        return ids

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        ids: list[int] = []
        for message in messages:
            ids += [USER if message["role"] == "user" else START, *self.encode(message["content"])]
        return [*ids, START]

    def encode_turn(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        return [STOP, *self.encode_chat(messages)]

    def decode(self, ids: Sequence[int]) -> str:
        parts = bytearray()
        for i in ids:
            if i >= FIRST_BYTE:
                parts.append(i - FIRST_BYTE)
            elif i >= FIRST_WORD:
                parts += b"." if i == PERIOD else WORDS[i - FIRST_WORD].encode()
        return parts.decode(errors="replace")


FIRST_CHARACTER = 4  # a..z behind PAD, START, STOP and the unknown character
FIRST_PHONEME = 4
NUM_PHONEMES = 40
SPACE = FIRST_PHONEME + NUM_PHONEMES
PAUSE = SPACE + 1
END = PAUSE + 1
TALKER_VOCAB = SPACE
ACOUSTIC_VOCAB = PAUSE + 1


class NullLexicon:
    """Role Lexicon. Short words are known by heart, the others are spelled."""

    end_id = END

    def spell(self, text: str) -> list[tuple[list[int], list[int]]]:
        words: list[tuple[list[int], list[int]]] = []
        for part in re.findall(r"[^\W\d_]+|[.,!?;:]", text.lower()):
            if words and part[0].isalpha():
                words.append(([], [SPACE]))
            letters = [FIRST_CHARACTER + (ord(c) - ord("a")) % 26 for c in part]
            if not part[0].isalpha():
                words.append(([], [PAUSE]))
            elif len(part) < 3:
                words.append(([], [FIRST_PHONEME + (7 * c) % NUM_PHONEMES for c in letters]))
            else:
                words.append((letters, []))
        return [*words, ([], [END])]

    def to_acoustic(self, ids: Sequence[int]) -> list[int]:
        return [PAUSE, *ids, PAUSE]


def load_tokenizer(spec: Expert, cache: Cache | None) -> NullTokenizer:
    """Has no attributes."""
    del spec, cache
    return NullTokenizer()


def load_lexicon(spec: Expert, cache: Cache | None) -> NullLexicon:
    """Has no attributes."""
    del spec, cache
    return NullLexicon()
