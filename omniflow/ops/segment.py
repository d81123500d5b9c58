"""Cutting text into sentences, lines or words while it is being written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from omniflow.loops.base import Emit
from omniflow.ops.base import Call

MAX_CHARACTERS = 400

# A stop, what may close after it, and the space behind.
_STOP = re.compile(r"(?P<stop>[.!?…]+)[\"'”’)\]*_]*(?P<space>\s+)|(?P<line>\n\s*)")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'“])(?:mr|mrs|ms|dr|prof|sr|jr|st|mt|vs|etc|e\.g|i\.e|cf|ca|approx|no|vol|fig|gen|col|sgt|capt|rev|hon|"
    r"inc|ltd|co|corp|dept|jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|dec|[a-z]|(?:[a-z]\.)+[a-z])\.$",
    re.IGNORECASE,
)
_NUMBERING = re.compile(r"(?:^|\n)\s*\d{1,3}\.$")
_ENDS_OFTEN = frozenset({"etc", "inc", "ltd", "co", "corp", "jr", "sr"})  # abbreviations that also end sentences


@dataclass(slots=True)
class Rest:
    """Text that has come and belongs to no finished segment."""

    text: str = ""


def segment(call: Call) -> Iterator[Emit]:
    """`text` ~> `segments`: an item per sentence, line or word (`by`), at most `max_characters` each.

    Where a segment ends depends on the text alone, never on how it was cut into pieces.
    """
    memory: Rest = call.memory
    for window in call.windows.values():
        memory.text += window.data
    by = call.params.get("by", "sentence")
    limit = int(call.params.get("max_characters", MAX_CHARACTERS))
    while (end := _end(memory.text, by, limit, is_end=call.is_end)) is not None:
        piece, memory.text = memory.text[:end].strip(), memory.text[end:]
        if piece:
            yield Emit("segments", piece, True)


def _end(text: str, by: str, limit: int, *, is_end: bool) -> int | None:
    """Where the first segment ends, space behind it included; None while that cannot be known."""
    if not text:
        return None
    end = {"sentence": _sentence_end, "line": _line_end, "word": _word_end}[by](text)
    lead = len(text) - len(text.lstrip())
    if end is not None and end <= lead + limit:
        return end
    body = text[lead:]
    if len(body) > limit and (end is not None or not body[: limit + 1].isspace()):
        return lead + _cut(body, limit)
    return len(text) if is_end else end


def _sentence_end(text: str) -> int | None:
    """After the first stop whose next word is known not to go on with the sentence."""
    for match in _STOP.finditer(text):
        if match.end() == len(text) or not text[: match.start() + 1].strip():
            continue
        if match["line"] is not None or _closes(text, match):
            return match.end()
    return None


def _closes(text: str, match: re.Match[str]) -> bool:
    if "\n" in match["space"]:
        return True
    following = text[match.end()]
    if following.islower():
        return False
    if match["stop"] != ".":
        return True
    before = text[: match.start("stop") + 1]
    if _NUMBERING.search(before):
        return False
    abbreviation = _ABBREVIATION.search(before)
    if abbreviation is None:
        return True
    return abbreviation[0].strip(" \n\t(\"'“.").lower() in _ENDS_OFTEN and following.isupper()


def _line_end(text: str) -> int | None:
    at = text.find("\n")
    return None if at < 0 else at + 1


def _word_end(text: str) -> int | None:
    match = re.search(r"\S\s+", text)
    return None if match is None or match.end() == len(text) else match.end()


def _cut(body: str, limit: int) -> int:
    """The best place to cut a segment that is too long: behind a comma, else a space, else anywhere."""
    head = body[: limit + 1]
    for mark in (r"[,;:–—]\s", r"\s"):
        places = [m.end() for m in re.finditer(mark, head) if m.end() <= limit]
        if places and places[-1] > limit // 3:
            return places[-1]
    return limit
