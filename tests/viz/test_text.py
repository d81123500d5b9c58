"""Text widths and numbers as they are printed on cards."""

from __future__ import annotations

import pytest

from omniflow.viz.amounts import in_bytes, in_count, in_hertz, in_percent, in_seconds
from omniflow.viz.markup import element, number, quoted
from omniflow.viz.text import mono_width, sans_width, shorten


def test_wide_characters_take_two_columns() -> None:
    assert mono_width("話す", 10) == pytest.approx(mono_width("abcd", 10))
    assert sans_width("話す", 10) > sans_width("il", 10) * 2


def test_long_text_loses_its_middle() -> None:
    assert shorten("abcdefghijk", 7) == "abc…ijk"
    assert shorten("abc", 7) == "abc"
    assert shorten("話話話話話話", 7) == "話…話"


def test_control_characters_become_visible() -> None:
    assert shorten("a\nb\x00c", 10) == "a↵b↵c"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (in_bytes(0), "0 B"),
        (in_bytes(1536), "1.5 KiB"),
        (in_bytes(538_060_032), "513 MiB"),
        (in_bytes(1 << 40), "1 TiB"),
        (in_seconds(0.0), "0 s"),
        (in_seconds(0.0123), "12.3 ms"),
        (in_seconds(2e-5), "20 µs"),
        (in_seconds(3e-9), "3 ns"),
        (in_seconds(90.0), "1.5 min"),
        (in_count(12345), "12,345"),
        (in_hertz(24000.0), "24 kHz"),
        (in_hertz(12.5), "12.5 Hz"),
        (in_percent(0.613), "61 %"),
        (in_percent(0.001), "<1 %"),
        (in_percent(0.0), "0 %"),
        (number(-0.01), "0"),
        (number(12.0), "12"),
        (number(3.14159), "3.1"),
    ],
)
def test_amounts_are_short(given: str, shown: str) -> None:
    assert given == shown


def test_markup_carries_no_illegal_characters() -> None:
    assert quoted("a\x00b\ud800c<&\"'") == "a�b�c&lt;&amp;&quot;&#x27;"
    assert element("a", {"b": 'c"d', "e": 1.0}) == '<a b="c&quot;d" e="1"/>'
