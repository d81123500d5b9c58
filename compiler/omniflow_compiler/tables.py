"""Tables of plain text: columns in line, no frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def table(rows: Sequence[Sequence[str]], align: str, *, indent: int = 0) -> Iterator[str]:
    """The rows as lines; `align` has `<` or `>` per column. The last column is not padded when it is on the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    for row in rows:
        cells = [
            cell.rjust(width) if side == ">" else cell.ljust(width)
            for cell, width, side in zip(row, widths, align, strict=True)
        ]
        yield (" " * indent + "  ".join(cells)).rstrip()
