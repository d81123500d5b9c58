"""Elements of SVG and HTML as text. Everything that comes from a spec goes through `quoted`."""

from __future__ import annotations

import html
from collections.abc import Mapping


def quoted(text: str) -> str:
    """`text` as character data or attribute value; what XML cannot carry becomes U+FFFD."""
    legal = "".join(character if _is_legal(character) else "\ufffd" for character in text)
    return html.escape(legal, quote=True)


def element(name: str, attributes: Mapping[str, str | float], *children: str) -> str:
    """One element. Attribute values are quoted here; children are markup already."""
    written = "".join(f' {key}="{_value(value)}"' for key, value in attributes.items())
    return f"<{name}{written}>{''.join(children)}</{name}>" if children else f"<{name}{written}/>"


def number(value: float) -> str:
    """At most one decimal, no trailing zero, never -0: short, and the same everywhere."""
    text = f"{value:.1f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _value(value: str | float) -> str:
    return quoted(value) if isinstance(value, str) else number(value)


def _is_legal(character: str) -> bool:
    code = ord(character)
    return character in "\t\n\r" or (
        code >= 0x20 and not 0x7F <= code < 0xA0 and not 0xD800 <= code < 0xE000 and code not in (0xFFFE, 0xFFFF)
    )
