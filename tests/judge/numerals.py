"""How written numbers are spoken: `1889` and `eighteen eighty nine` are the same words to a listener."""

from __future__ import annotations

import re

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()
_SCALES = ((10**12, "trillion"), (10**9, "billion"), (10**6, "million"), (1000, "thousand"), (100, "hundred"))
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
_NUMBER = re.compile(
    r"(?P<money>\$)?(?P<whole>\d{1,3}(?:,\d{3})+|\d+)(?:\.(?P<fraction>\d+))?(?P<suffix>st\b|nd\b|rd\b|th\b|s\b)?"
    r"(?P<scale> (?:thousand|million|billion|trillion)\b)?"
)


def cardinal(number: int) -> list[str]:
    """Words of a whole number: 105 is one hundred five."""
    if number < 20:
        return [_SMALL[number]]
    if number < 100:
        tens, ones = divmod(number, 10)
        return [_TENS[tens], *([_SMALL[ones]] if ones else [])]
    for scale, name in _SCALES:
        if number >= scale:
            many, rest = divmod(number, scale)
            return [*cardinal(many), name, *(cardinal(rest) if rest else [])]
    raise AssertionError(number)


def year(number: int) -> list[str]:
    """Words of a year from 1100 to 2099: eighteen eighty nine, nineteen oh five, two thousand five."""
    century, rest = divmod(number, 100)
    if century % 10 == 0 and rest < 10:
        return cardinal(number)
    if rest == 0:
        return [*cardinal(century), "hundred"]
    return [*cardinal(century), *(["oh"] if rest < 10 else []), *cardinal(rest)]


def spell_numbers(text: str) -> str:
    """The text with every number in figures, `$` amounts included, replaced by its words."""
    return _NUMBER.sub(lambda match: f" {' '.join(_spell(match))} ", text)


def _spell(match: re.Match[str]) -> list[str]:
    written, fraction, suffix = match["whole"], match["fraction"], match["suffix"]
    number = int(written.replace(",", ""))
    if number >= 10**15:
        words = [_SMALL[int(digit)] for digit in written if digit != ","]
    elif len(written) == 4 and 1100 <= number < 2100 and not fraction and not match["money"]:
        words = year(number)
    else:
        words = cardinal(number)
    if fraction:
        words += ["point", *(_SMALL[int(digit)] for digit in fraction)]
    if suffix:
        words[-1] = _plural(words[-1]) if suffix == "s" else _ordinal(words[-1])
    if match["scale"]:
        words.append(match["scale"].strip())
    return [*words, "dollars"] if match["money"] else words


def _ordinal(word: str) -> str:
    return _ORDINALS.get(word) or (word[:-1] + "ieth" if word.endswith("y") else word.removesuffix("t") + "th")


def _plural(word: str) -> str:
    return word[:-1] + "ies" if word.endswith("y") else word + ("es" if word.endswith("x") else "s")
