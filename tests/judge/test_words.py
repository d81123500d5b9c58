from __future__ import annotations

import pytest

from tests.judge.words import word_error_rate, words


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        (
            "In 1889, 1905, 1900 and 2005",
            "in eighteen eighty-nine, nineteen oh five, nineteen hundred and two thousand five",
        ),
        ("93,000,000 miles", "ninety three million miles"),
        ("the 1st, the 12th and the 40th", "the first, the twelfth and the fortieth"),
        ("the 1990s and the 1800s", "the nineteen nineties and the eighteen hundreds"),
        ("3.05% of $1.5 million", "three point zero five percent of one point five million dollars"),
        ("Mr. O’Neill’s café, at 20 °C", "mister oneills cafe at twenty degrees celsius"),
        ("the U.S. at 9 a.m.", "the us at nine am"),
        ('Well-known; "quoted" -- words!', "well known quoted words"),
    ],
)
def test_writing_is_compared_as_it_is_spoken(written: str, spoken: str) -> None:
    assert words(written) == words(spoken)


@pytest.mark.parametrize(
    ("reference", "hypothesis", "rate"),
    [
        ("one two three four", "one two three four", 0.0),
        ("one two three four", "one too three four", 0.25),  # replaced
        ("one two three four", "one three four", 0.25),  # deleted
        ("one two three four", "one two two three four", 0.25),  # inserted
        ("one two", "", 1.0),
        ("one", "nine ten nine ten", 4.0),
        ("", "", 0.0),
        ("", "noise", 1.0),
        ("a b c d", "b c d a", 0.5),
    ],
)
def test_the_rate_counts_edits_per_word_of_the_reference(reference: str, hypothesis: str, rate: float) -> None:
    assert word_error_rate(reference, hypothesis) == rate
