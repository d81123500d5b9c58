"""The talker's alphabets: ids of characters in, ids of phonemes out, and the ids after them that only we write.

The network knows 63 ids, shared by both alphabets. Ids from 63 on never enter or leave it: they stand for the spaces,
punctuation and sounds that travel between its words on the same stream, and for the end of a breath group.
"""

from __future__ import annotations

from collections.abc import Mapping

PAD, BEGIN, STOP, UNKNOWN = 0, 1, 2, 3
NUM_SPECIAL = 4
NETWORK_VOCAB = 63
MAX_POSITIONS = 64

_CHARACTERS = "AIOWYbdfhijklmnpstuvwz'-.BCDEFGHJKLMNPQRSTUVXZacegoqrxy"
_PHONEMES = "AIOWYbdfhijklmnpstuvwzæðŋɑɔəɛɜɡɪɹɾʃʊʌʒʔʤʧˈˌθᵊᵻ"
_FORCED = " ;:,.!?—…()ɐ"

CHARACTERS: Mapping[str, int] = {c: i for i, c in enumerate(_CHARACTERS, NUM_SPECIAL)}
PHONEMES: Mapping[str, int] = {c: i for i, c in enumerate(_PHONEMES, NUM_SPECIAL)}
SYMBOLS: Mapping[str, int] = {**PHONEMES, **{c: i for i, c in enumerate(_FORCED, NETWORK_VOCAB)}}
END = NETWORK_VOCAB + len(_FORCED)
VOCAB = END + 1

SYMBOL_OF: Mapping[int, str] = {i: c for c, i in SYMBOLS.items()}


def spell_word(word: str) -> list[int]:
    """The network's source for one word, framed; characters that it does not know become UNKNOWN."""
    return [BEGIN, *(CHARACTERS.get(c, UNKNOWN) for c in word), STOP]


def phoneme_text(ids: list[int]) -> str:
    """What ids sound like, for people; specials and END are left out."""
    return "".join(SYMBOL_OF.get(i, "") for i in ids)
