"""Ties comments and blank lines to the entries they belong to."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from omniflow_compiler.layout.pieces import Document, Entry, Group, Lines


def tie_comments(document: Document) -> list[str]:
    """Puts every comment beside its entry; gives the lines at the top of the file, before its first key."""
    table = _Table(document)
    head: list[str] = []
    first = document.root.entries[0].start if document.root.entries else len(document.text)
    for offset, text in document.comments:
        line = table.lines.of(offset)
        is_alone = not table.lines.text[line][: table.lines.column(offset)].strip()
        blank = [""] if table.lines.is_blank(line - 1) else []
        entry = None if is_alone else table.beside(offset, line)
        if entry is not None:
            entry.trailing = f"{entry.trailing}  {text}" if entry.trailing else text
        elif offset < first:
            head += [*blank, text]
        else:
            table.place_of(offset).extend([*blank, text])
    for entry, group in table.entries:
        if table.lines.is_blank(table.lines.of(entry.start) - 1) and not group.in_flow:
            entry.leading.append("")
    return head


class _Table:
    """All entries in the order of the file, with the groups around them."""

    def __init__(self, document: Document) -> None:
        self.lines = Lines(document.text)
        self.root = document.root
        self.entries: list[tuple[Entry, Group]] = []
        self.parents: dict[int, Group] = {}  # by id of a group: the group around it
        self.owners: dict[int, Entry] = {}  # by id of a group: the entry whose value it is
        for entry, group in _walk(document.root):
            self.entries.append((entry, group))
            if isinstance(entry.value, Group):
                self.parents[id(entry.value)] = group
                self.owners[id(entry.value)] = entry
        self.starts = [entry.start for entry, _ in self.entries]
        self.by_line: dict[int, list[int]] = {}
        for index, (entry, _) in enumerate(self.entries):
            for line in {self.lines.of(entry.start), self.lines.of(max(entry.start, entry.value.end - 1))}:
                self.by_line.setdefault(line, []).append(index)

    def beside(self, offset: int, line: int) -> Entry | None:
        """The entry that a comment at the end of a line speaks of: the one that ended or began last before it."""
        here = [self.entries[i][0] for i in self.by_line.get(line, ()) if self.entries[i][0].start < offset]
        ended = [entry for entry in here if entry.value.end <= offset and self.lines.of(entry.value.end - 1) == line]
        begun = [entry for entry in here if entry.value.end > offset and self.lines.of(entry.start) == line]
        last = max(reversed(ended), key=lambda entry: entry.value.end) if ended else None
        if last is None or (begun and begun[-1].start >= last.value.end):
            return begun[-1] if begun else None
        return last

    def place_of(self, offset: int) -> list[str]:
        """Where a comment on a line of its own goes: before the next entry, or behind the last one of a group."""
        next_index = bisect_right(self.starts, offset)
        flow = self._flow_around(offset)
        following = self.entries[next_index] if next_index < len(self.entries) else None
        if flow is not None and not flow.entries:
            return self.owners[id(flow)].leading
        if flow is not None:
            inside = following is not None and following[0].start < flow.end
            return following[0].leading if inside and following else flow.tail
        column = self.lines.column(offset)
        least = -1 if following is None else following[1].column
        if following is not None and column <= least:
            return following[0].leading
        for group in self._open_groups(next_index - 1):
            if least < group.column <= column:
                return group.tail
        return self.root.tail if following is None else following[0].leading

    def _open_groups(self, index: int) -> Iterator[Group]:
        """The block groups around an entry, innermost first."""
        group: Group | None = self.entries[index][1]
        while group is not None:
            if not group.in_flow:
                yield group
            group = self.parents.get(id(group))

    def _flow_around(self, offset: int) -> Group | None:
        """The innermost `{...}` or `[...]` that an offset lies in."""
        index = bisect_right(self.starts, offset) - 1
        if index < 0:
            return None
        entry, around = self.entries[index]
        group: Group | None = entry.value if isinstance(entry.value, Group) else around
        while group is not None:
            if group.in_flow and group.start < offset < group.end:
                return group
            group = self.parents.get(id(group))
        return None


def _walk(root: Group) -> Iterator[tuple[Entry, Group]]:
    stack: list[tuple[Entry, Group]] = [(entry, root) for entry in reversed(root.entries)]
    while stack:
        entry, group = stack.pop()
        yield entry, group
        if isinstance(entry.value, Group):
            inner = entry.value
            stack.extend((child, inner) for child in reversed(inner.entries))
