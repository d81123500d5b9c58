"""The table of diagnostic codes. Each has a page in `explanations/`: why it matters, a bad and a good example."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Literal


@dataclass(frozen=True, slots=True)
class Code:
    """A stable code. `lint` codes may be silenced or raised by the author; errors may not."""

    id: str
    title: str
    level: Literal["error", "warning"] = "error"
    lint: bool = False


CODES: dict[str, Code] = {}


def _code(id: str, title: str, level: Literal["error", "warning"] = "error", lint: bool = False) -> Code:
    CODES[id] = Code(id, title, level, lint)
    return CODES[id]


UNREADABLE = _code("OF1001", "file cannot be read")
TOO_LARGE = _code("OF1002", "file is too large or not UTF-8")
SYNTAX = _code("OF1003", "not valid YAML")
DUPLICATE_KEY = _code("OF1004", "key written twice")
ALIAS_BUDGET = _code("OF1005", "aliases or nesting beyond the budget")
TAG = _code("OF1006", "tags and merge keys are not part of the language")
VERSION = _code("OF1007", "missing or unsupported language version")
KIND = _code("OF1008", "missing or unknown kind of spec")

UNKNOWN_KEY = _code("OF1101", "unknown key")
MISSING_KEY = _code("OF1102", "required key is missing")
WRONG_TYPE = _code("OF1103", "value of the wrong type")
BAD_VALUE = _code("OF1104", "value is not allowed")
BAD_EDGE = _code("OF1105", "edge cannot be read")
BAD_TYPE = _code("OF1106", "type cannot be read")
BAD_EXPRESSION = _code("OF1107", "expression cannot be read")
DUPLICATE_ID = _code("OF1108", "id declared twice")
RESERVED = _code("OF1109", "output has the name of a file that every run writes")

UNKNOWN_PARAM = _code("OF1201", "unknown param")
PARAM_VALUE = _code("OF1202", "param value does not fit its declaration")
PARAM_UNSET = _code("OF1203", "param has no value")

UNKNOWN_CARD = _code("OF1301", "unknown card")
UNKNOWN_EXPERT = _code("OF1302", "unknown expert")
UNKNOWN_OP = _code("OF1303", "unknown op")
UNKNOWN_LOOP = _code("OF1304", "unknown loop")
UNKNOWN_NODE = _code("OF1305", "unknown node")
UNKNOWN_PORT = _code("OF1306", "unknown port")
UNKNOWN_COMPONENT = _code("OF1307", "unknown component")
UNKNOWN_CACHE = _code("OF1308", "cache is named but not declared")
UNKNOWN_OUTPUT = _code("OF1309", "unknown output requested")
UNKNOWN_INPUT = _code("OF1310", "unknown program input")
OUTSIDE = _code("OF1311", "file outside the project")
INCLUDE_CYCLE = _code("OF1312", "files include each other")
UNKNOWN_CAPABILITY = _code("OF1313", "unknown capability")

UNKNOWN_LINT = _code("OF1401", "unknown code in lints")
FIXED_LEVEL = _code("OF1402", "level of an error cannot be changed")
UNUSED_SUPPRESSION = _code("OF1403", "suppression silences nothing", level="warning", lint=True)
BAD_SUPPRESSION = _code("OF1404", "suppression cannot be read")

FAULTS = _code("OF1501", "faults outside the test profile")
COSTS = _code("OF1502", "measured costs cannot be used", level="warning", lint=True)

TWO_PRODUCERS = _code("OF2001", "two producers for one port")
MISSING_INPUT = _code("OF2002", "required input has no producer")
SELF_LOOP = _code("OF2003", "node feeds itself")
CYCLE = _code("OF2004", "undeclared cycle")
BACK_EDGE = _code("OF2005", "back edge that cannot go round")
FEEDS_NOTHING = _code("OF2006", "node feeds nothing", lint=True)
UNREACHABLE_OUTPUT = _code("OF2007", "output cannot be reached from any input")
WRONG_ROLE = _code("OF2008", "expert has the wrong role")
CAPABILITY = _code("OF2009", "capability is declared but no program reaches it")
UNUSED_INPUT = _code("OF2010", "program input is never read", lint=True)
NO_EXIT = _code("OF2011", "ring leads to no output", lint=True)
CACHE_KIND = _code("OF2012", "cache is of another kind than the loop uses")
CACHE_REUSE = _code("OF2013", "expert cannot reuse what is cached")
SESSION = _code("OF2014", "loop cannot keep a session")
PLACEMENT = _code("OF2015", "expert does not have that dtype or device")
QUANTIZED = _code("OF2016", "fewer bits without a tolerance")
CACHE_UNREAD = _code("OF2017", "expert takes no cache")

BASE_MISMATCH = _code("OF2101", "types do not match")
DTYPE_MISMATCH = _code("OF2102", "dtypes do not match")
AXIS_SIZE = _code("OF2103", "sizes of an axis do not match")
AXIS_COUNT = _code("OF2104", "different number of axes")
RATE_MISMATCH = _code("OF2105", "rates do not match")
VOCABULARY = _code("OF2106", "token id outside the vocabulary")
AXIS_ALIGNMENT = _code("OF2107", "values are aligned to different axes")
ITEMS = _code("OF2108", "a stream of items meets a port that takes one")

STREAM_INTO_VALUE = _code("OF2201", "stream enters a port that takes a finished value")
CONTEXT = _code("OF2202", "chunk policy loses samples")
CHUNK_ALIGNMENT = _code("OF2203", "streams of one node are cut differently")
DEADLOCK = _code("OF2204", "streams can deadlock")
UNBOUNDED = _code("OF2205", "stream is not bounded")
STREAM_ATTRIBUTE = _code("OF2206", "stream attribute on an edge that carries a finished value")
HELD_ROW = _code("OF2207", "row to hold is unknown")
OUTLIVES = _code("OF2208", "loop may outlive the stream it reads", level="warning", lint=True)

GUIDANCE = _code("OF2301", "guidance is on but its unconditional branch is missing")
HANDED = _code("OF2302", "cache leaves the component that wrote it")
OVER_BUDGET = _code("OF2401", "memory over budget")
CACHE_ROOM = _code("OF2402", "cache has no room for one sequence")
UNLIMITED = _code("OF2403", "number decides how much memory is needed and has no limit", level="warning", lint=True)

MAYBE_UNFED = _code("OF2501", "node may run while nothing feeds it", lint=True)
OVERLAP = _code("OF2502", "two producers of one port may run together")
CONDITION = _code("OF2503", "condition has no value")
SWITCHED_OFF = _code("OF2504", "requested output is switched off")
CONSTANT_CONDITION = _code("OF2505", "condition is always the same", level="warning", lint=True)

UNUSED_COMPONENT = _code("OF3001", "component is used by no program", level="warning", lint=True)
UNUSED_LOOP = _code("OF3002", "loop is used by no program", level="warning", lint=True)
UNUSED_CACHE = _code("OF3003", "cache is leased by no loop", level="warning", lint=True)
UNUSED_PARAM = _code("OF3004", "param is read by nothing", level="warning", lint=True)
PRECISION = _code("OF3005", "precision is lost without a word", level="warning", lint=True)
ROUND_TRIP = _code("OF3006", "tensors go to the host and back", level="warning", lint=True)


def explanation(code_id: str) -> str:
    """The code's page as Markdown. Errors: KeyError for an unknown code."""
    page = resources.files("omniflow_compiler") / "explanations" / f"{CODES[code_id].id}.md"
    return page.read_text(encoding="utf-8")
