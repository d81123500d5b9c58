"""What is written and what is said."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omniflow.experts.smol_normalizer import MARKS, MAX_CHARACTERS, PAUSES, words_of
from omniflow.experts.smol_numbers import cardinal, ordinal, year

SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("The capital of France is Paris.", "The capital of France is Paris ."),
        ("0 7 13 21 100 110", "zero seven thirteen twenty one one hundred one hundred ten"),
        ("1,234,567", "one million two hundred thirty four thousand five hundred sixty seven"),
        ("007 and 3.14", "zero zero seven and three point one four"),
        ("-5 or 10 - 5 or 10-20", "minus five or ten minus five or ten to twenty"),
        ("1st 2nd 12th 21st 100th", "first second twelfth twenty first one hundredth"),
        (
            "in 1969, 1905, 1900, 2000, 2005, 2024",
            (
                "in nineteen sixty nine , nineteen oh five , nineteen hundred , "
                "two thousand , two thousand five , twenty twenty four"
            ),
        ),
        ("the 1960s and the '90s", "the nineteen sixties and the nineties"),
        ("July 20, 1969", "July twentieth , nineteen sixty nine"),
        ("1/2, 3/4, 2 1/2, 2½", "one half , three quarters , two and one half , two and one half"),
        ("50% of 1%", "fifty percent of one percent"),
        (
            "$3.50, $1, $5 million, £1.01, €0.50, ¥300",
            (
                "three dollars and fifty cents , one dollar , "
                "five million dollars , one pound and one penny , fifty cents , three hundred yen"
            ),
        ),
        (
            "1 km, 5km, 60 mph, 20 km/h, 6 ft",
            ("one kilometer , five kilometers , sixty miles per hour , twenty kilometers per hour , six feet"),
        ),
        ("5 km² at -40°C or 1 °F", "five square kilometers at minus forty degrees Celsius or one degree Fahrenheit"),
        ("3:30 pm, 12:05, 7:00, 5 a.m.", "three thirty P M , twelve oh five , seven o'clock , five A M"),
        ("DNA, CPUs, the U.S. and NASA", "D N A , C P U's , the U S and Nasa"),
        ("World War II and World War I", "World War two and World War one"),
        ("H2O, CO2, COVID-19, 3D", "H two O , C O two , Covid nineteen , three D"),
        ("Dr. Smith of St. Louis, e.g. 5 Main St.", "Doctor Smith of Saint Louis , for example five Main Street"),
        ("it's don't today's", "it's don't today's"),
        ("it’s “quoted” ‘so’", "it's quoted so"),
        ("well-known state-of-the-art 5-year-old", "well known state of the art five year old"),
        ("wait -- no — yes... maybe…", "wait — no — yes … maybe …"),
        ("café Zürich Erdős straße Ærø", "cafe Zurich Erdos strasse Aero"),
        ("π and α", "pi and alpha"),
        ("日本 🙂 \x00", ""),
        ("**bold** `code` # title", "bold code title"),
        (
            "2 + 2 = 4, 3×10^8, ≈5",
            ("two plus two equals four , three times ten to the power of eight , approximately five"),
        ),
        ("www.example.com", "www dot example dot com"),
        ("YouTube, iPhone, McDonald's", "You Tube , I Phone , Mc Donald's"),
        ("A cat, vitamin A, x and I", "a cat , vitamin A , X and I"),
        ("do NOT go: IMPORTANT", "do not go : important"),
        ("THE END IS NEAR", "the end is near"),
        ("really?! yes!!!", "really ? yes !"),
        ("No. 5 is no.", "number five is no ."),
        ("(see below)", "( see below )"),
        ("1234567890123456789", " ".join(SMALL[int(d)] for d in "1234567890123456789")),
    ],
)
def test_text_is_said_as_people_say_it(written: str, said: str) -> None:
    assert " ".join(words_of(written)) == said


@given(st.text(max_size=200))
def test_any_text_becomes_words_the_talker_can_spell(text: str) -> None:
    said = words_of(text)
    for word in said:
        assert word in MARKS or word.replace("'", "").isalpha()
        assert word.isascii() or word in MARKS
    assert not any(a in PAUSES and b in PAUSES for a, b in itertools.pairwise(said))


@given(st.integers(0, 10**18 - 1))
def test_cardinals_say_their_number(number: int) -> None:
    assert _value(cardinal(number)) == number


def _value(words: list[str]) -> int:
    """A reader of its own: adds up what the words say."""
    small = {word: i for i, word in enumerate(SMALL)} | {word: 10 * i for i, word in enumerate(TENS, 2)}
    scales = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12, "quadrillion": 10**15}
    total = group = 0
    for word in words:
        if word in scales:
            total, group = total + group * scales[word], 0
        else:
            group = group * 100 if word == "hundred" else group + small[word]
    return total + group


def test_every_year_and_ordinal_of_interest_has_words() -> None:
    assert " ".join(year(1800)) == "eighteen hundred"
    assert " ".join(year(2010)) == "twenty ten"
    assert [" ".join(ordinal(n)) for n in (5, 8, 9, 30, 1000)] == [
        "fifth",
        "eighth",
        "ninth",
        "thirtieth",
        "one thousandth",
    ]


def test_text_without_end_is_cut() -> None:
    assert len(words_of("word " * MAX_CHARACTERS)) == MAX_CHARACTERS // 5
    assert len(words_of("1" * 10 * MAX_CHARACTERS)) == MAX_CHARACTERS
