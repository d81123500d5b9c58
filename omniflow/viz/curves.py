"""Paths of cubic Bezier pieces: cutting them at vertical lines, moving them, joining them by rounded right angles."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

Point = tuple[float, float]
Piece = tuple[Point, Point, Point, Point]
Path = tuple[Piece, ...]

_ARC = 0.5523  # how far the handles of a quarter circle reach
_STEPS = 40
_END = 1e-6  # a piece that starts or ends on a line does not cross it there


def from_points(points: Sequence[Point]) -> Path:
    """Pieces from Graphviz's flat list of 3n + 1 control points."""
    return tuple((points[i], points[i + 1], points[i + 2], points[i + 3]) for i in range(0, len(points) - 3, 3))


def reversed_path(path: Path) -> Path:
    """The same curve from its end to its start."""
    return tuple((d, c, b, a) for a, b, c, d in reversed(path))


def moved(path: Path, right: float, down: float) -> Path:
    """The path, shifted."""
    return tuple(tuple((x + right, y + down) for x, y in piece) for piece in path)  # type: ignore[misc]


def cut(path: Path, lines: Sequence[float]) -> Path:
    """The same curve in pieces that cross none of the vertical `lines`, except at their ends."""
    pieces: list[Piece] = []
    waiting = list(reversed(path))
    while waiting:
        piece = waiting.pop()
        at = _first_crossing(piece, lines)
        if at is None:
            pieces.append(piece)
            continue
        before, after = _split(piece, at)
        pieces.append(before)
        waiting.append(after)
    return tuple(pieces)


def along(piece: Piece) -> list[Point]:
    """Some points on the piece, both ends among them."""
    return [_at(piece, step / 8) for step in range(9)]


def straight(start: Point, end: Point) -> Piece:
    """A straight line as a piece."""
    (a, b), (c, d) = start, end
    return start, (a + (c - a) / 3, b + (d - b) / 3), (c - (c - a) / 3, d - (d - b) / 3), end


def rounded(corners: Sequence[Point], radius: float) -> Path:
    """A path through `corners` in straight lines, its inner corners rounded."""
    path: list[Piece] = []
    here = corners[0]
    for corner, following in pairwise(corners[1:]):
        entry = _towards(corner, here, radius)
        leave = _towards(corner, following, radius)
        path.append(straight(here, entry))
        path.append((entry, _towards(entry, corner, radius * _ARC), _towards(leave, corner, radius * _ARC), leave))
        here = leave
    path.append(straight(here, corners[-1]))
    return tuple(path)


def _towards(start: Point, goal: Point, distance: float) -> Point:
    width, height = goal[0] - start[0], goal[1] - start[1]
    length = (width * width + height * height) ** 0.5
    if length == 0:
        return start
    part = min(distance / length, 0.5 if distance < length * 2 else 1.0)
    return start[0] + width * part, start[1] + height * part


def _first_crossing(piece: Piece, lines: Sequence[float]) -> float | None:
    low, high = min(x for x, _ in piece), max(x for x, _ in piece)
    lines = [line for line in lines if low < line < high]  # a curve stays within its control points
    if not lines:
        return None
    xs = [_at(piece, step / _STEPS)[0] for step in range(_STEPS + 1)]
    for step in range(_STEPS):
        for line in lines:
            if (xs[step] > line) != (xs[step + 1] > line):
                at = _bisect(piece, line, step / _STEPS, (step + 1) / _STEPS)
                if _END < at < 1 - _END:
                    return at
    return None


def _bisect(piece: Piece, line: float, low: float, high: float) -> float:
    side = _at(piece, low)[0] > line
    for _ in range(40):
        middle = (low + high) / 2
        if (_at(piece, middle)[0] > line) == side:
            low = middle
        else:
            high = middle
    return high


def _at(piece: Piece, t: float) -> Point:
    return _split(piece, t)[0][3]


def _split(piece: Piece, t: float) -> tuple[Piece, Piece]:
    a, b, c, d = piece
    ab, bc, cd = _between(a, b, t), _between(b, c, t), _between(c, d, t)
    abc, bcd = _between(ab, bc, t), _between(bc, cd, t)
    middle = _between(abc, bcd, t)
    return (a, ab, abc, middle), (middle, bcd, cd, d)


def _between(a: Point, b: Point, t: float) -> Point:
    return a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t
