"""From written English to what is said: a list of words (letters and apostrophes) and punctuation marks.

One scan: each rule of RULES is a pattern and a function from its match to words; the first that matches at a place
wins, and what none matches is not said.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping

from omniflow.experts import smol_normalizer_tables as tables
from omniflow.experts.smol_numbers import LARGEST, amount, cardinal, digits, ordinal, plural, year

MAX_CHARACTERS = 4000
LONGEST_INTEGER = len(str(LARGEST)) - 1
PAUSES = frozenset(";:,.!?—…")
MARKS = PAUSES | {"(", ")"}
SHOUTED = re.compile(r"\b[A-Z]{2,}(?:\s+[A-Z]+\b){2,}")  # a row of capitals is no row of acronyms
KEPT = frozenset("—…£€¥")  # characters outside ASCII that the rules know

Reader = Callable[[re.Match[str], list[str]], list[str]]  # match and the words so far to more words


def words_of(text: str) -> list[str]:
    """Words in the order they are said; a mark is an element of MARKS. Text over MAX_CHARACTERS is cut there.

    Single capitals are letters to be named ("B"), except "I"; letters of other scripts and pictures are left out.
    """
    plain = SHOUTED.sub(lambda match: match[0].lower(), _plain(text[:MAX_CHARACTERS]))
    said: list[str] = []
    for match in SCAN.finditer(plain):
        assert match.lastgroup is not None
        for word in READERS[match.lastgroup](match, said):
            if not (word in PAUSES and (not said or said[-1] in PAUSES)):
                said.append(word)
    return said


def _plain(text: str) -> str:
    """ASCII and KEPT: symbols as words, Greek letters by name, accents taken off, everything else gone."""
    for symbol, spoken in tables.REPLACEMENTS.items():
        text = text.replace(symbol, spoken)
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(c if c.isascii() or c in KEPT else _greek(c) for c in decomposed)


def _greek(character: str) -> str:
    _, is_letter, name = unicodedata.name(character, "").partition("GREEK SMALL LETTER ")
    return f" {name.split()[-1].lower()} " if is_letter else ""


def _number(match: re.Match[str], said: list[str]) -> list[str]:
    """A number as what surrounds it asks: with a unit, as the day of a month, as a year, or as it is."""
    written, unit = match["number"], match["unit"]
    plain = written.replace(",", "")
    sign = ["minus"] if match["minus"] else []
    if unit:
        return [*sign, *amount(plain), *_unit(unit, is_one=plain == "1")]
    if written.isdigit() and not sign and len(written) <= 4:
        value = int(written)
        if said and said[-1] in tables.MONTHS and 1 <= value <= 31:
            return ordinal(value)
        if 1100 <= value < 2100:
            return year(value)
    return [*sign, *amount(plain)]


def _unit(unit: str, *, is_one: bool) -> list[str]:
    words = tables.UNITS[unit].split()
    return [word if not word.endswith("+") else _counted(word[:-1], is_one=is_one) for word in words]


def _counted(word: str, *, is_one: bool) -> str:
    return word if is_one else tables.IRREGULAR_PLURALS.get(word) or plural(word)


def _money(match: re.Match[str], _said: list[str]) -> list[str]:
    one, many, cent, cents = tables.CURRENCIES[match["currency"]]
    plain, scale = match["sum"].replace(",", ""), match["scale"]
    if scale:
        return [*amount(plain), tables.SCALES.get(scale, scale), many]
    whole, _, fraction = plain.partition(".")
    if len(fraction) != 2 or not cent:
        return [*amount(plain), one if plain == "1" else many]
    main = [*amount(whole), one if whole == "1" else many] if whole.strip("0") else []
    small = [*cardinal(int(fraction)), cent if fraction == "01" else cents] if int(fraction) else []
    return [*main, *(["and"] if main and small else []), *small] or ["zero", many]


def _time(match: re.Match[str], _said: list[str]) -> list[str]:
    words, minutes, half = cardinal(int(match["hour"])), int(match["minutes"] or 0), match["half"]
    if minutes:
        words += [*(["oh"] if minutes < 10 else []), *cardinal(minutes)]
    if half:
        return [*words, half.upper(), "M"]
    return words if minutes else [*words, "o'clock"]


def _ordinal(match: re.Match[str], _said: list[str]) -> list[str]:
    plain = match["rank"].replace(",", "")
    return ordinal(int(plain)) if len(plain) <= LONGEST_INTEGER else digits(plain)


def _decade(match: re.Match[str], _said: list[str]) -> list[str]:
    value = int(match["decade"])
    *front, last = year(value) if value >= 100 else cardinal(value)
    return [*front, plural(last)]


def _fraction(match: re.Match[str], _said: list[str]) -> list[str]:
    top, bottom = int(match["top"]), int(match["bottom"])
    if not 2 <= bottom <= 100 or top >= bottom:
        return [*cardinal(top), "over", *cardinal(bottom)]
    *front, last = ["half"] if bottom == 2 else ["quarter"] if bottom == 4 else ordinal(bottom)
    follows_whole = match.string[: match.start()].rstrip()[-1:].isdigit()
    return [*(["and"] if follows_whole else []), *cardinal(top), *front, last if top == 1 else plural(last)]


def _abbreviation(match: re.Match[str], _said: list[str]) -> list[str]:
    return tables.ABBREVIATIONS[match["abbreviation"].lower()].split()


def _initials(match: re.Match[str], _said: list[str]) -> list[str]:
    return [letter.upper() for letter in match["initials"] if letter.isalpha()]


def _acronym(match: re.Match[str], said: list[str]) -> list[str]:
    """Letters one by one, unless it is said as a word, is a Roman numeral after a name, or is only emphasis."""
    word, ending = match["acronym"], match["ending"]
    if word in tables.ROMAN and said and said[-1][0].isupper():
        return cardinal(tables.ROMAN[word])
    if word in tables.SPOKEN_ACRONYMS:
        return [word.capitalize() + ("s" if ending else "")]
    if len(word) > tables.LONGEST_ACRONYM or word.lower() in tables.EMPHASISED:
        return [word.lower() + (ending or "")]
    return [*word[:-1], word[-1] + ("'s" if ending else "")]


def _word(match: re.Match[str], said: list[str]) -> list[str]:
    """One word, or the words of CamelCase, or a letter to be named."""
    parts = re.findall(r"[A-Z]?[a-z']+|[A-Z]+(?![a-z])", match["word"])
    if len(parts) == 1 and len(parts[0]) == 1:
        return [_letter(parts[0], said)]
    return [part.upper() if len(part) == 1 else part for part in parts]


def _letter(letter: str, said: list[str]) -> str:
    if letter == "I" and said and said[-1] == "War":
        return "one"
    if letter == "a" or (letter == "A" and (not said or said[-1] in MARKS)):
        return "a"
    return letter.upper()


def _always(*words: str) -> Reader:
    return lambda _match, _said: list(words)


def _any_of(words: Mapping[str, str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_NUMBER = r"\d+(?:,\d{3})+(?:\.\d+)*|\d+(?:\.\d+)*|(?<![\w.])\.\d+"
_SCALE = r"thousand|million|billion|trillion|[kMB]\b"
_HALF = r"(?:\s?(?P<half>[AaPp])(?:\.[Mm]\.|[Mm]\b))?"
RULES: tuple[tuple[str, Reader], ...] = (
    (rf"(?P<currency>[$£€¥])\s?(?P<sum>{_NUMBER})(?:\s?(?P<scale>{_SCALE}))?", _money),
    (
        rf"\b(?=\d\d?(?::[0-5]\d(?!\d)|\s?[AaPp]\.?[Mm]\b))(?P<hour>\d\d?)(?::(?P<minutes>\d\d))?{_HALF}",
        _time,
    ),
    (r"\b(?P<rank>\d+(?:,\d{3})*)(?:st|nd|rd|th)\b", _ordinal),
    (r"\b(?P<decade>1[1-9]\d0|20\d0|[2-9]0)'?s\b", _decade),
    (r"\b(?P<top>\d{1,3})/(?P<bottom>\d{1,3})\b", _fraction),
    (r"(?<=\d)-(?=\d)", _always("to")),
    (r"(?<=\d)\s-\s(?=\d)", _always("minus")),
    (
        rf"(?P<minus>(?<![\w)])-)?(?P<number>{_NUMBER})(?:\s{{0,2}}(?P<unit>%|(?:{_any_of(tables.UNITS)})(?!\w)))?",
        _number,
    ),
    (r"\bSt\.(?=\s[A-Z])", _always("Saint")),
    (r"\b[Nn]os?\.(?=\s?\d)", _always("number")),
    (rf"\b(?P<abbreviation>(?i:{_any_of(tables.ABBREVIATIONS)}))(?!\w)", _abbreviation),
    (r"\b(?P<initials>(?:[A-Za-z]\.){2,})", _initials),
    (r"\b(?P<acronym>[A-Z]{2,})(?P<ending>'?s)?(?![A-Za-z])", _acronym),
    (r"(?P<word>[A-Za-z]+(?:'[A-Za-z]+)*)", _word),
    (r"(?<=\s)-+(?=\s)|--+|—", _always("—")),
    (r"\.{2,}|…", _always("…")),
    (r"(?<=[A-Za-z])\.(?=[a-z])", _always("dot")),
    (r"(?P<mark>[;:,.!?()])", lambda match, _said: [match["mark"]]),
    (r"(?P<symbol>[%&+=@<>^])", lambda match, _said: tables.SYMBOLS[match["symbol"]].split()),
    (r"#(?=\d)", _always("number")),
    (r"(?<=\d)\s?\*\s?(?=\d)", _always("times")),
    (r"~(?=\s?\d)", _always("about")),
)
SCAN = re.compile("|".join(f"(?P<rule{i}>{pattern})" for i, (pattern, _) in enumerate(RULES)))
READERS: dict[str, Reader] = {f"rule{i}": reader for i, (_, reader) in enumerate(RULES)}
