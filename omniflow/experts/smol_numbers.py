"""Numbers in English words: cardinals, ordinals, years, decimals and digit by digit."""

from __future__ import annotations

UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()
SCALES = ("", "thousand", "million", "billion", "trillion", "quadrillion")
IRREGULAR_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
LARGEST = 1000 ** len(SCALES)  # from here on numbers are read digit by digit


def cardinal(number: int) -> list[str]:
    """1205 is "one thousand two hundred five"."""
    if number < 0:
        return ["minus", *cardinal(-number)]
    if number >= LARGEST:
        return digits(str(number))
    if number == 0:
        return [UNITS[0]]
    words: list[str] = []
    for power in reversed(range(len(SCALES))):
        group = number // 1000**power % 1000
        if group:
            words += [*_below_thousand(group), *filter(None, [SCALES[power]])]
    return words


def _below_thousand(number: int) -> list[str]:
    hundreds, rest = divmod(number, 100)
    words = [UNITS[hundreds], "hundred"] if hundreds else []
    if rest >= 20:
        words.append(TENS[rest // 10])
        rest %= 10
    if rest:
        words.append(UNITS[rest])
    return words


def ordinal(number: int) -> list[str]:
    """21 is "twenty first"."""
    *front, last = cardinal(number)
    if last in IRREGULAR_ORDINALS:
        return [*front, IRREGULAR_ORDINALS[last]]
    return [*front, last.removesuffix("y") + "ieth" if last.endswith("y") else last + "th"]


def year(number: int) -> list[str]:
    """1969 is "nineteen sixty nine", 1905 "nineteen oh five", 2000 "two thousand", 2024 "twenty twenty four"."""
    century, rest = divmod(number, 100)
    if century % 10 == 0 and rest < 10:
        return cardinal(number)
    if rest == 0:
        return [*cardinal(century), "hundred"]
    return [*cardinal(century), *(["oh"] if rest < 10 else []), *cardinal(rest)]


def digits(text: str) -> list[str]:
    """Each digit by itself: 007 is "zero zero seven"."""
    return [UNITS[int(digit)] for digit in text]


def amount(text: str) -> list[str]:
    """A number without separators: "3.14" is "three point one four"; "007" and what is too large are read by digits."""
    whole, *rest = text.split(".")
    is_code = (len(whole) > 1 and whole.startswith("0")) or len(whole) >= len(str(LARGEST))
    words = digits(whole) if is_code else cardinal(int(whole or "0"))
    return [*words, *(word for part in rest for word in ("point", *digits(part)))]


def plural(word: str) -> str:
    """Enough for counts: "sixty" to "sixties", "half" to "halves", "inch" to "inches", "mile" to "miles"."""
    if word.endswith("y") and word[-2] not in "aeiou":
        return word.removesuffix("y") + "ies"
    if word.endswith("f"):
        return word.removesuffix("f") + "ves"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh")) else "s")
