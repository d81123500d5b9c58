"""Reads one YAML document strictly: YAML 1.2 scalars, positions on everything, no duplicate keys, tags or merge keys.

PyYAML's C parser composes the nodes; scalars are resolved here because YAML 1.1 rules turn `on` into a boolean,
`16:9` into 969 and `1e-4` into a string (yaml/pyyaml#376, #395, #173).
"""

from __future__ import annotations

import gc
import re
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.levels import Suppression, suppressions
from omniflow_compiler.quantities import show_bytes
from omniflow_compiler.reads import MAX_FILE_BYTES, note_file, num_bytes, read_bytes
from omniflow_compiler.source import Source, SourceSet, Span
from omniflow_compiler.suggest import did_you_mean

MAX_DEPTH = 64
MAX_EXPANDED_BY_ALIASES = 100_000

_INT = re.compile(r"[-+]?[0-9]+\Z")
_HEX_OR_OCTAL = re.compile(r"0x[0-9a-fA-F]+\Z|0o[0-7]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_CONSTANTS: dict[str, bool | None] = {
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
    "null": None, "Null": None, "NULL": None, "~": None, "": None,
}  # fmt: skip

_TAG = re.compile(r"(?:^|[\s\[{,])!", re.MULTILINE)
MAX_NUMBER = 1 << 53  # what every reader of JSON holds exactly

ScalarValue = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar and the text it was written as."""

    value: ScalarValue
    span: Span
    written: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A key's span and its value."""

    key: Span
    value: Tree


@dataclass(frozen=True, slots=True)
class Mapping:
    """A mapping with text keys, in the file's order. `uses_params` is false when no text in it begins with `$`;
    `repeats` counts the keys that were left out because they are there already.
    """

    entries: dict[str, Entry]
    span: Span
    uses_params: bool = True
    repeats: int = 0

    def get(self, key: str) -> Tree | None:
        entry = self.entries.get(key)
        return None if entry is None else entry.value


@dataclass(frozen=True, slots=True)
class Sequence:
    """A sequence. `uses_params` is false when no text in it begins with `$`."""

    items: tuple[Tree, ...]
    span: Span
    uses_params: bool = True


@dataclass(frozen=True, slots=True)
class Unread:
    """A value that cannot be used. Its fault was reported, and nothing else complains about it."""

    span: Span


Tree = Scalar | Mapping | Sequence | Unread


_TEXT = "tag:yaml.org,2002:str"
_TAGS: dict[type[yaml.Node], str] = {
    yaml.ScalarNode: _TEXT, yaml.SequenceNode: "tag:yaml.org,2002:seq", yaml.MappingNode: "tag:yaml.org,2002:map",
}  # fmt: skip


class _Loader(yaml.CSafeLoader):
    """Composes nodes without resolving plain scalars."""

    yaml_implicit_resolvers = {}  # noqa: RUF012  (the name is PyYAML's)

    def resolve(self, kind: type[yaml.Node], value: str | None, implicit: bool | tuple[bool, bool]) -> str:  # noqa: ARG002
        """The tag of a node that has none; what a plain scalar is, is found out here below."""
        return _TAGS[kind]


def read_document(path: Path, sources: SourceSet, report: Report) -> tuple[Source, Mapping] | None:
    """The file's one document as a mapping; None when it cannot be used, with the reason in the report."""
    source = read_source(path, sources, report)
    if source is None:
        return None
    tree = read_text(source, report)
    if tree is None:
        return None
    if not isinstance(tree, Mapping):
        report.add(codes.WRONG_TYPE, tree.span, "a spec is a mapping of keys to values")
        return None
    _read_suppressions(source, tree, report)
    return source, tree


def read_source(path: Path, sources: SourceSet, report: Report) -> Source | None:
    """The file's text, bounded in size; None with the reason in the report."""
    here = Span(sources.name_of(path), 1, 1, 1, 1)
    try:
        size = num_bytes(path)
        content = read_bytes(path) if size <= MAX_FILE_BYTES else b""
        size = max(size, len(content))  # what is no file of a disk tells no size
        if size > MAX_FILE_BYTES:
            note_file(path)
            message = f"file has {show_bytes(size)}, the limit is {show_bytes(MAX_FILE_BYTES)}"
            report.add(codes.TOO_LARGE, here, message, help=["share parts of it as graphs"])
            return None
        note_file(path, content)
        text = content.decode("utf-8-sig")
    except OSError as error:
        note_file(path)
        inside = (
            sorted(found.name for found in path.glob("*.program.y*ml"))[:3]
            if isinstance(error, IsADirectoryError)
            else []
        )
        help = [f"name a file of it: {', '.join(f'`{name}`' for name in inside)}"] if inside else []
        reason = (error.strerror or "error").lower()
        report.add(codes.UNREADABLE, here, f"cannot read `{here.file}`: {reason}", help=help)
        return None
    except UnicodeDecodeError as error:
        source = sources.add(path, content.decode("utf-8", errors="replace"))
        before = content[: error.start].decode("utf-8", errors="replace")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        span = Span(source.name, line, column, line, column + 1)
        message = f"file is not UTF-8: byte {error.start + 1} (0x{content[error.start]:02x}) cannot be decoded"
        report.add(codes.TOO_LARGE, span, message, help=["save it as UTF-8"])
        return None
    return sources.add(path, text)


def read_text(source: Source, report: Report) -> Tree | None:
    """Composes and converts a source's text; None with the reason in the report."""
    try:
        with without_collection():
            node = yaml.compose(source.text, Loader=_Loader)
            if node is None:
                report.add(codes.SYNTAX, Span(source.name, 1, 1, 1, 1), "file is empty")
                return None
            _refuse_tags(source, report)
            return _Converter(source, report).convert(node)
    except yaml.MarkedYAMLError as error:
        _report_syntax(error, source, report)
    except yaml.reader.ReaderError as error:
        before = source.text[: error.position]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        span = Span(source.name, line, column, line, column + 1)
        report.add(codes.SYNTAX, span, f"not valid YAML: {error.reason}")
    except _Stop:
        pass
    return None


# What libyaml says, and what it means for a person.
_PROBLEMS = {
    "did not find expected ',' or '}'": "a `}` or a comma is missing",
    "did not find expected ',' or ']'": "a `]` or a comma is missing",
    "mapping values are not allowed in this context": "a colon is not allowed here; quote the text that has one",
    "could not find expected ':'": "a colon is missing after a key",
    "found character that cannot start any token": "this character cannot begin a value; indent with spaces",
    "found unexpected end of stream": "the file ends inside a quoted text",
    "found unexpected document indicator": "the file ends inside a quoted text",
    "did not find expected key": "a key is expected here; look at the indentation and at quotes",
    "did not find expected '-' indicator": "an entry of the list (`- `) is expected here; look at the indentation",
    "did not find expected node content": "a value is expected here",
    "did not find expected alphabetic or numeric character": "an alias (`*name`) or anchor (`&name`) has no name",
    "found undefined alias": "an alias stands for a value that is not there; quote a text that begins with `*`",
    "but found another document": "a file is one document, and a second one begins here",
    "did not find expected <document start>": "the file goes on after its end; look at the indentation",
}


_OPEN = {
    "flow mapping": "this `{` is not closed",
    "flow sequence": "this `[` is not closed",
    "quoted scalar": "this quote is not closed",
    "block mapping": "the mapping begins here",
    "block collection": "the list begins here",
    "simple key": "this key",
}


def _report_syntax(error: yaml.MarkedYAMLError, source: Source, report: Report) -> None:
    """A fault of the text, with the place where the unfinished part begins."""
    mark = error.problem_mark or error.context_mark
    problem = str(error.problem)
    if problem.startswith("exceeded maximum nesting depth"):
        report.add(codes.ALIAS_BUDGET, _mark_span(source.name, mark), f"nested deeper than {MAX_DEPTH} levels")
        return
    message = next((meaning for said, meaning in _PROBLEMS.items() if problem.startswith(said)), problem)
    labels = []
    begin = error.context_mark
    if begin is not None and mark is not None and begin.line != mark.line:
        text = next((meaning for said, meaning in _OPEN.items() if said in str(error.context)), "it begins here")
        labels = [Label(span=_mark_span(source.name, begin), text=text)]
    span = _mark_span(source.name, mark)
    if span.line > len(source.lines) > 0:  # at the end of the file: shown behind its last line
        end = len(source.lines[-1]) + 1
        span = Span(source.name, len(source.lines), end, len(source.lines), end)
    report.add(codes.SYNTAX, span, f"not valid YAML: {message}", labels=labels)


def _read_suppressions(source: Source, tree: Tree, report: Report) -> None:
    """Registers what the file's comments silence; a `#` inside a quoted text or a block of text begins no comment."""
    texts = _Texts(tree)
    for found in suppressions(source):
        if texts.cover(found.span if isinstance(found, Suppression) else found):
            continue
        if not isinstance(found, Suppression):
            help = ["write `# omniflow: allow OF2006`, several codes with commas"]
            report.add(codes.BAD_SUPPRESSION, found, "this comment cannot be read, so it silences nothing", help=help)
        elif _is_known_lint(found.code, found.span, report):
            report.levels.suppressions[found.span.file, found.code, found.line] = found


class _Texts:
    """Where the texts of a document are that may hold a `#`."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.found: list[Span] | None = None

    def cover(self, place: Span) -> bool:
        """Whether a place lies in one of them."""
        if self.found is None:
            self.found = sorted(_texts(self.tree), key=lambda span: (span.line, span.column))
        here = (place.line, place.column)
        index = bisect_right(self.found, here, key=lambda span: (span.line, span.column)) - 1
        return index >= 0 and here < (self.found[index].end_line, self.found[index].end_column)


def _texts(tree: Tree) -> Iterator[Span]:
    stack = [tree]
    while stack:
        part = stack.pop()
        if isinstance(part, Scalar):
            if isinstance(part.value, str) and "#" in part.value:
                yield part.span
        elif not isinstance(part, Unread):
            stack += [entry.value for entry in part.entries.values()] if isinstance(part, Mapping) else part.items


def read_levels(document: Mapping, report: Report) -> None:
    """Registers what the file says under `lints:`; the form of its values is the schema's."""
    lints = document.get("lints")
    if not isinstance(lints, Mapping):
        return
    levels = report.levels.files.setdefault(document.span.file, {})
    for code, entry in lints.entries.items():
        if report.is_full:
            break
        if _is_known_lint(code, entry.key, report) and isinstance(entry.value, Scalar):
            levels[code] = str(entry.value.value)


def _is_known_lint(code: str, span: Span, report: Report) -> bool:
    known = codes.CODES.get(code)
    if known is not None and known.lint:
        return True
    if known is not None:
        help = ["mend the fault, or take the code out"]
        report.add(codes.FIXED_LEVEL, span, f"`{code}` is always an error ({known.title})", help=help)
    else:
        lints = [] if report.is_crowded else [other.id for other in codes.CODES.values() if other.lint]
        help = did_you_mean(code, lints, "lint") if lints else []
        report.add(codes.UNKNOWN_LINT, span, f"unknown code `{code}`", help=help)
    return False


def _mark_span(name: str, mark: yaml.Mark | None) -> Span:
    if mark is None:
        return Span(name, 1, 1, 1, 1)
    return Span(name, mark.line + 1, mark.column + 1, mark.line + 1, mark.column + 2)


@contextmanager
def without_collection() -> Iterator[None]:
    """Collecting garbage while millions of objects are made, none of which is garbage, costs more than making them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _refuse_tags(source: Source, report: Report) -> None:
    """Reports every tag; one that says what a value is anyway can only be seen among the tokens."""
    if _TAG.search(source.text) is None:
        return
    for token in yaml.scan(source.text, Loader=_Loader):
        if isinstance(token, yaml.TagToken):
            start, end = token.start_mark, token.end_mark
            span = Span(source.name, start.line + 1, start.column + 1, end.line + 1, end.column + 1)
            written = source.lines[start.line][start.column : end.column] if start.line == end.line else "!"
            help = ["leave the tag out: what a value is follows from where it stands"]
            report.add(codes.TAG, span, f"tag `{written}` is not part of the language", help=help)
            if report.is_full:
                raise _Stop


def _has_tag(node: yaml.Node, kind: str) -> bool:
    return node.tag in (f"tag:yaml.org,2002:{kind}", "!")


class _Stop(Exception):
    """The document cannot be used any further; the reason is in the report."""


class _Converter:
    """Turns composed nodes into trees; shared nodes (aliases) are converted once and their expansion is budgeted."""

    def __init__(self, source: Source, report: Report) -> None:
        self.name = source.name
        self.report = report
        self.done: dict[int, tuple[Tree, int]] = {}
        self.open: set[int] = set()
        self.converted = 0
        self.expanded = 0
        self.params = 0  # texts that begin with `$` so far

    def convert(self, node: yaml.Node, depth: int = 0) -> Tree:
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        key = id(node)
        if key in self.done:
            return self._alias(node)
        if key in self.open:
            self._stop(node, "alias contains itself")
        if depth > MAX_DEPTH:
            self._stop(node, f"nested deeper than {MAX_DEPTH} levels")
        self.open.add(key)
        before = self.converted
        self.converted += 1
        tree = self._mapping(node, depth) if isinstance(node, yaml.MappingNode) else self._sequence(node, depth)
        self.open.discard(key)
        self.done[key] = tree, self.converted - before
        return tree

    def _scalar(self, node: yaml.ScalarNode) -> Tree:
        self.converted += 1
        span = self.span(node)
        value = _resolve(node)
        if node.tag != _TEXT and not _has_tag(node, "str"):
            return Unread(span)
        if isinstance(value, int | float) and not -MAX_NUMBER <= value <= MAX_NUMBER:
            help = [f"numbers go up to {MAX_NUMBER}; quote it if it is meant as text"]
            self.report.add(codes.BAD_VALUE, span, f"`{node.value[:40]}` is too large a number", help=help)
            return Unread(span)
        if node.value[:1] == "$":
            self.params += 1
        return Scalar(value, span, node.value)

    def span(self, node: yaml.Node) -> Span:
        start, end = node.start_mark, node.end_mark
        return Span(self.name, start.line + 1, start.column + 1, end.line + 1, end.column + 1)

    def _sequence(self, node: yaml.Node, depth: int) -> Tree:
        before = self.params
        items = tuple([self.convert(child, depth + 1) for child in node.value])
        return (
            Sequence(items, self.span(node), self.params > before) if _has_tag(node, "seq") else Unread(self.span(node))
        )

    def _mapping(self, node: yaml.Node, depth: int) -> Tree:
        entries: dict[str, Entry] = {}
        is_usable, before, repeats = _has_tag(node, "map"), self.params, 0
        for key_node, value_node in node.value:
            key, key_span = self._key(key_node), self.span(key_node)
            value = self.convert(value_node, depth + 1)
            if key == "<<" and not key_node.style:
                is_usable = False
            if key in entries:
                first = Label(span=entries[key].key, text="first written here")
                self.report.add(codes.DUPLICATE_KEY, key_span, f"key `{key}` is written twice", labels=[first])
                if self.report.is_full:
                    raise _Stop
                repeats += 1
                continue
            entries[key] = Entry(key_span, value)
        if not is_usable:
            return Unread(self.span(node))
        return Mapping(entries, self.span(node), self.params > before, repeats)

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            self.report.add(codes.SYNTAX, self.span(node), "keys are plain text, not lists or mappings")
            raise _Stop
        if node.value == "<<" and not node.style:
            help = ["write the keys out"]
            self.report.add(codes.TAG, self.span(node), "merge keys (`<<`) are not part of the language", help=help)
        return str(node.value)

    def _alias(self, node: yaml.Node) -> Tree:
        tree, size = self.done[id(node)]
        self.params += 1  # there may be some in it
        self.converted += size  # what an alias stands for counts wherever it is used
        self.expanded += size
        if self.expanded > MAX_EXPANDED_BY_ALIASES:
            self._stop(node, f"aliases stand for more than {MAX_EXPANDED_BY_ALIASES} values")
        return tree

    def _stop(self, node: yaml.Node, why: str) -> None:
        self.report.add(codes.ALIAS_BUDGET, self.span(node), why)
        raise _Stop


def _resolve(node: yaml.ScalarNode) -> ScalarValue:
    text = str(node.value)
    if node.style:  # quoted or a block
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    first = text[0]
    if first in "0123456789+-.":
        if _INT.match(text) and len(text) < 300:
            return int(text)
        if _HEX_OR_OCTAL.match(text) and len(text) < 300:
            return int(text, 0)
        if _FLOAT.match(text):
            return float(text)
    return text


def plain(tree: Tree) -> object:
    """The tree without positions: dicts, lists and scalars. What cannot be used stays as it is."""
    if isinstance(tree, Scalar):
        return tree.value
    if isinstance(tree, Unread):
        return tree
    if isinstance(tree, Mapping):
        return {key: plain(entry.value) for key, entry in tree.entries.items()}
    return [plain(item) for item in tree.items]
