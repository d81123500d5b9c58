"""Tables of the normaliser and the lexicon: words that are closed classes, and how signs and abbreviations are said."""

from __future__ import annotations

from collections.abc import Mapping

FUNCTION_WORDS = frozenset(
    """
    a an the this that these those each every all both either neither some any no none other another such same own
    i you he she it we they me him her us them my your his its our their mine yours hers ours theirs myself yourself
    himself herself itself ourselves themselves who whom whose which what where when why how
    am is are was were be been being have has had having do does did done doing can could will would shall should may
    might must
    of to in for on with at by from as into about after before between through during without under over against among
    within across behind beyond toward towards upon around above below near since until off out up down along
    and or but nor so yet if because while although though unless than then whether
    not very too also just only even still again now here there ever never always often more most much many few less
    least well away once perhaps however yes said says one's
    i'm you're he's she's it's we're they're i've you've we've they've i'll you'll he'll she'll it'll we'll they'll i'd
    you'd he'd she'd we'd they'd isn't aren't wasn't weren't don't doesn't didn't can't couldn't won't wouldn't
    shouldn't haven't hasn't hadn't that's there's here's what's who's let's
    """.split()
)
NUMERALS = frozenset(
    """
    zero oh one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion trillion
    first second third fourth fifth sixth seventh eighth ninth tenth half quarter
    """.split()
)
MONTHS = tuple(
    "January February March April May June July August September October November December".split(),
)
DAYS = tuple("Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split())

LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
LONGEST_ACRONYM = 5  # longer words in capitals are emphasis
EMPHASISED = FUNCTION_WORDS - {"us", "it", "am"}
SPOKEN_ACRONYMS = frozenset("NASA NATO UNESCO UNICEF OPEC AIDS COVID SARS FIFA LASER RADAR SONAR SCUBA RAM ROM".split())
ROMAN: Mapping[str, int] = {
    numeral: value
    for value, numeral in enumerate("II III IV V VI VII VIII IX X XI XII XIII XIV XV XVI XVII XVIII XIX XX".split(), 2)
    if len(numeral) > 1
}

ABBREVIATIONS: Mapping[str, str] = {
    "mr": "Mister",
    "mrs": "Missus",
    "ms": "Miss",
    "dr": "Doctor",
    "mr.": "Mister",
    "mrs.": "Missus",
    "ms.": "Miss",
    "dr.": "Doctor",
    "prof.": "Professor",
    "sr.": "Senior",
    "jr.": "Junior",
    "st.": "Street",
    "mt.": "Mount",
    "ave.": "Avenue",
    "gen.": "General",
    "gov.": "Governor",
    "capt.": "Captain",
    "inc.": "Incorporated",
    "ltd.": "Limited",
    "corp.": "Corporation",
    "dept.": "Department",
    "univ.": "University",
    "approx.": "approximately",
    "e.g.": "for example",
    "i.e.": "that is",
    "etc.": "et cetera",
    "etc": "et cetera",
    "vs.": "versus",
    "vs": "versus",
    "ca.": "about",
    "fig.": "figure",
    "vol.": "volume",
    "ph.d.": "P H D",
    "jan.": "January",
    "feb.": "February",
    "aug.": "August",
    "sept.": "September",
    "oct.": "October",
    "nov.": "November",
    "dec.": "December",
}

# A "+" marks the word that takes the plural.
UNITS: Mapping[str, str] = {
    "%": "percent",
    "km/h": "kilometer+ per hour",
    "kph": "kilometer+ per hour",
    "km/s": "kilometer+ per second",
    "m/s": "meter+ per second",
    "mph": "mile+ per hour",
    "km2": "square kilometer+",
    "m2": "square meter+",
    "m3": "cubic meter+",
    "cm3": "cubic centimeter+",
    "km": "kilometer+",
    "m": "meter+",
    "cm": "centimeter+",
    "mm": "millimeter+",
    "um": "micrometer+",
    "nm": "nanometer+",
    "mi": "mile+",
    "ft": "foot+",
    "yd": "yard+",
    "kg": "kilogram+",
    "g": "gram+",
    "mg": "milligram+",
    "lb": "pound+",
    "lbs": "pound+",
    "oz": "ounce+",
    "L": "liter+",
    "mL": "milliliter+",
    "ml": "milliliter+",
    "h": "hour+",
    "hr": "hour+",
    "hrs": "hour+",
    "min": "minute+",
    "s": "second+",
    "ms": "millisecond+",
    "Hz": "hertz",
    "kHz": "kilohertz",
    "MHz": "megahertz",
    "GHz": "gigahertz",
    "KB": "kilobyte+",
    "kB": "kilobyte+",
    "MB": "megabyte+",
    "GB": "gigabyte+",
    "TB": "terabyte+",
    "W": "watt+",
    "kW": "kilowatt+",
    "MW": "megawatt+",
    "V": "volt+",
    "J": "joule+",
    "cal": "calorie+",
    "kcal": "kilocalorie+",
    "degC": "degree+ Celsius",
    "degF": "degree+ Fahrenheit",
    "deg": "degree+",
    "k": "thousand",
    "M": "million",
    "B": "billion",
}
IRREGULAR_PLURALS: Mapping[str, str] = {"foot": "feet"}

CURRENCIES: Mapping[str, tuple[str, str, str, str]] = {  # one, many, one hundredth, many hundredths
    "$": ("dollar", "dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "", ""),
}
SCALES: Mapping[str, str] = {"k": "thousand", "M": "million", "B": "billion"}

SYMBOLS: Mapping[str, str] = {
    "%": "percent",
    "&": "and",
    "+": "plus",
    "=": "equals",
    "@": "at",
    "<": "less than",
    ">": "greater than",
    "^": "to the power of",
}

REPLACEMENTS: Mapping[str, str] = {  # in this order, before accents are taken off
    "’": "'",
    "‘": "'",
    "´": "'",
    "–": "-",
    "−": "-",
    "‑": "-",
    "°C": " degC",
    "° C": " degC",
    "°F": " degF",
    "° F": " degF",
    "°": " deg",
    "km²": "km2",
    "m²": "m2",
    "m³": "m3",
    "µm": "um",
    "²": " squared",
    "³": " cubed",
    "½": " 1/2",
    "⅓": " 1/3",
    "⅔": " 2/3",
    "¼": " 1/4",
    "¾": " 3/4",
    "×": " times ",
    "÷": " divided by ",
    "≈": " approximately ",
    "≤": " less than or equal to ",
    "≥": " greater than or equal to ",
    "≠": " not equal to ",
    "±": " plus or minus ",
    "√": " square root of ",
    "∞": " infinity ",
    "→": " to ",
    "ß": "ss",
    "æ": "ae",
    "Æ": "Ae",
    "œ": "oe",
    "ø": "o",
    "Ø": "O",
    "ł": "l",
    "Ł": "L",
    "đ": "d",
    "ð": "d",
    "þ": "th",
    "ı": "i",
}
