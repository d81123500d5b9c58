"""Word error rate between a text and what a listener wrote down, fair to different ways of writing the same words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from tests.judge.numerals import spell_numbers

_SPOKEN = {"%": " percent ", "&": " and ", "°c": " degrees celsius ", "°f": " degrees fahrenheit ", "°": " degrees "}
_ABBREVIATIONS = {"mr": "mister", "mrs": "missus", "dr": "doctor", "vs": "versus", "okay": "ok", "km": "kilometers"}


def words(text: str) -> list[str]:
    """The spoken words of a text: lower case, numbers spelled out, no punctuation, accents or apostrophes."""
    text = unicodedata.normalize("NFKD", text.lower())
    text = "".join(letter for letter in text if not unicodedata.combining(letter))
    text = re.sub(r"['‘’]", "", text)
    for sign, spoken in _SPOKEN.items():
        text = text.replace(sign, spoken)
    text = re.sub(r"\b([a-z])\.(?=[a-z]\b)", r"\1", text)  # u.s. and us, a.m. and am
    return [_ABBREVIATIONS.get(word, word) for word in re.findall(r"[a-z]+", spell_numbers(text))]


def word_error_rate(reference: str, hypothesis: str) -> float:
    """Words to insert, delete or replace to turn the hypothesis into the reference, per word of the reference."""
    expected, heard = words(reference), words(hypothesis)
    return _edit_distance(expected, heard) / max(1, len(expected))


def _edit_distance(left: Sequence[str], right: Sequence[str]) -> int:
    row = list(range(len(right) + 1))
    for i, word in enumerate(left, start=1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(right, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (word != other))
    return row[-1]
