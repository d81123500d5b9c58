"""Writes pieces in the canonical layout.

Sections are open, one entry per line; an entry's mapping stands in braces behind its key, in one column with its
neighbours', as long as it fits and holds no comment. Otherwise it goes over several lines, two spaces in.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from omniflow_compiler.layout.order import ALWAYS_OPEN, rank
from omniflow_compiler.layout.pieces import Document, Entry, Group, Leaf, Piece

WIDTH = 120
MAX_KEY = 32  # longer keys do not move the column of their neighbours' values
MAX_COMMENTED = 80  # nor do longer lines that of comments
GAP = "  "
_EDGE = re.compile(r"(\S+?)\s*(->|~>)\s*(\S+)\Z")
_HEADER = re.compile(r"([|>])([-+1-9]*)(.*)\Z")

Path = tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class _Line:
    """A line of the result; `comment` is put in one column with those of other lines of the same `block`, but for 0.

    Blank lines behind one that `keeps` them would become part of its value.
    """

    text: str
    comment: str = ""
    block: int = 0
    keeps: bool = False


def write_document(document: Document, head: list[str], kind: str) -> str:
    """The document's canonical text."""
    writer = _Writer(kind, may_move=not document.has_aliases)
    lines = [_Line(text=text) for text in _squeezed(head)]
    if head and document.root.entries and document.root.entries[0].leading[:1] == [""]:
        lines.append(_Line(text=""))
    if document.root.entries:
        document.root.entries[0].leading = [text for text in document.root.entries[0].leading if text]
    lines += writer.mapping(document.root, 0, ())
    return "".join(f"{line}\n" for line in _finish(lines))


def _squeezed(lines: list[str]) -> list[str]:
    """Without blank lines at the top and without two in a row."""
    kept: list[str] = []
    for line in lines:
        if line or (kept and kept[-1]):
            kept.append(line)
    return kept


def _finish(lines: list[_Line]) -> list[str]:
    """Puts comments in their columns."""
    columns: dict[int, int] = {}
    for line in lines:
        if line.comment and line.block and len(line.text) <= MAX_COMMENTED:
            columns[line.block] = max(columns.get(line.block, 0), len(line.text))
    return [
        f"{line.text.ljust(columns.get(line.block, 0))}{GAP}{line.comment}" if line.comment else line.text
        for line in lines
    ]


class _Writer:
    def __init__(self, kind: str, *, may_move: bool) -> None:
        self.kind = kind
        self.may_move = may_move
        self.blocks = 0

    def mapping(self, group: Group, indent: int, path: Path) -> list[_Line]:
        """The entries of a mapping, one below the other."""
        self.blocks += 1
        block, margin = self.blocks if path else 0, " " * indent
        entries = self._sorted(group, path)
        braced = {id(entry): text for entry in entries if (text := self._braced(entry, indent, path)) is not None}
        keys = [len(_key(entry)) for entry in entries if id(entry) in braced and len(_key(entry)) <= MAX_KEY]
        column = max(keys, default=0)
        lines: list[_Line] = []
        for entry in entries:
            self._leading(lines, entry, indent)
            text = braced.get(id(entry))
            if text is not None:
                pad = " " * max(0, column - len(_key(entry)))
                if indent + max(column, len(_key(entry))) + 2 + len(text) > WIDTH:
                    pad = ""
                lines.append(_Line(text=f"{margin}{_key(entry)}: {pad}{text}", comment=entry.trailing, block=block))
            else:
                lines += self._entry(entry, f"{margin}{_key(entry)}:", indent, (*path, _name(entry)), block)
        return lines + [_Line(text=f"{margin}{text}" if text else "") for text in _squeezed(group.tail)]

    def _sorted(self, group: Group, path: Path) -> list[Entry]:
        if not self.may_move:
            return group.entries
        return sorted(group.entries, key=lambda entry: rank(self.kind, path, _name(entry)))

    def _braced(self, entry: Entry, indent: int, path: Path) -> str | None:
        """The value in braces, when it is a mapping that fits behind its key."""
        value = entry.value
        if not isinstance(value, Group) or value.is_list or (not path and _name(entry) in ALWAYS_OPEN):
            return None
        text = self._flow(value, (*path, _name(entry)))
        return text if text is not None and indent + len(_key(entry)) + 2 + len(text) <= WIDTH else None

    def _entry(self, entry: Entry, head: str, indent: int, path: Path, block: int) -> list[_Line]:
        """An entry that is not in braces; `head` is all that stands before its value."""
        value = entry.value
        if isinstance(value, Leaf):
            return self._leaf(value, head, indent, entry.trailing, block)
        is_open = len(path) == 1 and path[0] in ALWAYS_OPEN and value.entries
        text = None if is_open else self._flow(value, path)
        if text is not None and (len(head) + 1 + len(text) <= WIDTH or not value.entries):
            return [_Line(text=f"{head} {text}", comment=entry.trailing, block=block)]
        anchor = f" {value.anchor}" if value.anchor else ""
        first = _Line(text=head + anchor, comment=entry.trailing, block=block)
        inner = self.sequence if value.is_list else self.mapping
        return [first, *inner(value, indent + 2, path)]

    def sequence(self, group: Group, indent: int, path: Path) -> list[_Line]:
        """The items of a list, one below the other."""
        self.blocks += 1
        block, margin = self.blocks, " " * indent
        lines: list[_Line] = []
        item = (*path, "*")
        for entry in group.entries:
            self._hoist(entry, item)
            self._leading(lines, entry, indent)
            value = entry.value
            if isinstance(value, Group) and not value.is_list and len(value.entries) == 1 and not value.anchor:
                lines += self._single(entry, value, indent, path, block)
            elif (
                isinstance(value, Group) and not value.is_list and self._flow(value, item) is None and not value.anchor
            ):
                inner = self.mapping(value, indent + 2, item)
                lines += self._dashed(inner, margin, entry.trailing)
            else:
                lines += self._entry(entry, f"{margin}-", indent, item, block)
        return lines + [_Line(text=f"{margin}{text}" if text else "") for text in _squeezed(group.tail)]

    def _single(self, entry: Entry, value: Group, indent: int, path: Path, block: int) -> list[_Line]:
        """`- a ~> b: {chunk: 32}`: an item that is a mapping of one key needs no braces of its own."""
        margin, only = " " * indent, value.entries[0]
        path = (*path, _name(only))
        head = f"{margin}- {_key(only)}:"
        comments = [text for text in (*only.leading, *value.tail) if text]
        lines = [_Line(text=f"{margin}{text}") for text in comments]
        both = GAP.join(text for text in (only.trailing, entry.trailing) if text)
        text = None if isinstance(only.value, Leaf) else self._flow(only.value, path)
        if text is not None and len(head) + 1 + len(text) <= WIDTH:
            return [*lines, _Line(text=f"{head} {text}", comment=both, block=block)]
        moved = Entry(key=only.key, value=only.value, start=only.start, trailing=both)
        return lines + self._entry(moved, head, indent + 2, path, block)

    def _hoist(self, entry: Entry, path: Path) -> None:
        """Comments before the first key of an item stand before the item."""
        value = entry.value
        if isinstance(value, Group) and not value.is_list and value.entries:
            first = self._sorted(value, path)[0]
            entry.leading += [text for text in first.leading if text]
            first.leading = []

    def _dashed(self, lines: list[_Line], margin: str, trailing: str) -> list[_Line]:
        """The lines of a mapping as an item: a dash before its first key."""
        lines[0].text = f"{margin}- {lines[0].text.lstrip()}"
        above = [_Line(text=f"{margin}{trailing}")] if trailing else []
        return above + lines

    def _leading(self, lines: list[_Line], entry: Entry, indent: int) -> None:
        for text in entry.leading:
            if text:
                lines.append(_Line(text=f"{' ' * indent}{text}"))
            elif lines and lines[-1].text and not lines[-1].keeps:
                lines.append(_Line(text=""))

    def _leaf(self, leaf: Leaf, head: str, indent: int, comment: str, block: int) -> list[_Line]:
        if not leaf.has_lines:
            return [_Line(text=f"{head} {_canonical(leaf)}".rstrip(), comment=comment, block=block)]
        first, *rest = leaf.text.split("\n")
        margin = " " * (indent + 2)
        above: list[_Line] = []
        if leaf.style in ("|", ">"):
            if comment:
                above = [_Line(text=head[: len(head) - len(head.lstrip())] + comment)]
            header, lines = _block_scalar(first, rest, leaf, margin)
            head = f"{head} {header}"
        else:
            head = f"{head} {first.rstrip()}"
            lines = [f"{margin}{line.strip()}" if line.strip() else "" for line in rest]
            if comment:  # behind the last line
                last = _Line(text=lines.pop(), comment=comment, block=block)
                return [_Line(text=head), *(_Line(text=line) for line in lines), last]
        keeps = leaf.style in ("|", ">") and "+" in head.partition("#")[0][-4:]
        return [*above, _Line(text=head, keeps=keeps), *(_Line(text=line, keeps=keeps) for line in lines)]

    def _flow(self, piece: Piece, path: Path) -> str | None:
        """The piece in one line; None when it cannot stand in one."""
        if isinstance(piece, Leaf):
            return _flow_leaf(piece)
        if any(piece.tail):
            return None
        parts = []
        entries = piece.entries if piece.is_list else self._sorted(piece, path)
        for entry in entries:
            text = None if entry.has_comment else self._flow(entry.value, (*path, _name(entry)))
            key = None if entry.key is None else _flow_leaf(entry.key)
            if text is None or (entry.key is not None and key is None):
                return None
            parts.append(text if key is None else f"{key}: {text}")
        body = ", ".join(parts)
        anchor = f"{piece.anchor} " if piece.anchor else ""
        return f"{anchor}[{body}]" if piece.is_list else f"{anchor}{{{body}}}"


def _name(entry: Entry) -> str:
    return "*" if entry.key is None else entry.key.text.strip("'\"")


def _key(entry: Entry) -> str:
    assert entry.key is not None
    return _canonical(entry.key) + (" " if entry.key.style == "*" else "")


def _canonical(leaf: Leaf) -> str:
    """A plain edge with one space on both sides of its arrow; anything else as written."""
    match = _EDGE.match(leaf.text) if not leaf.style else None
    return f"{match[1]} {match[2]} {match[3]}" if match else leaf.text


def _flow_leaf(leaf: Leaf) -> str | None:
    if leaf.has_lines or leaf.style in ("|", ">") or not leaf.text:
        return None
    if not leaf.style and not leaf.in_flow and any(sign in leaf.text for sign in ",[]{}"):
        return None
    return _canonical(leaf) + (" " if leaf.style == "*" else "")


def _block_scalar(header: str, body: list[str], leaf: Leaf, margin: str) -> tuple[str, list[str]]:
    """The header and the lines of a block scalar, moved to another margin."""
    anchor, mark = ("", header) if header[0] in "|>" else tuple(header.split(None, 1))
    match = _HEADER.match(mark)
    assert match is not None
    digits = re.sub(r"\D", "", match[2])
    if digits:
        depth = leaf.indent + int(digits)
    else:
        depth = next((len(line) - len(line.lstrip(" ")) for line in body if line.strip(" ")), 0)
    signs = re.sub(r"\d", "2", match[2])
    if leaf.is_cut_off and not leaf.text.endswith("\n"):  # the text will end with a line end: it must not become part
        signs = signs.replace("+", "").replace("-", "") + "-"
    if leaf.text.endswith("\n"):
        body = body[:-1]
    shown = " ".join(text for text in (anchor, match[1] + signs + match[3].rstrip()) if text)
    return shown, [f"{margin}{line[depth:]}" if len(line) > depth else "" for line in body]
