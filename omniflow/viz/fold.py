"""Folds a long strip of a layout into rows, like a line of text: cuts where few edges pass and leads those around."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

from omniflow.viz.curves import Path, Piece, Point, along, cut, moved, rounded
from omniflow.viz.layout import Box, Layout

BEST_RATIO = 2.1  # width over height: between a screen and a page
_WORTH = 3.2  # strips below this stay as they are,
_WIDE = 1000.0  # and those that fit a page anyway
_MAX_CROSSING = 6
_LANE = 9.0
_MARGIN = 22.0
_GUTTER = 30.0
_RADIUS = 9.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fold:
    """`lines` are the x of the cuts, in order; `shifts` moves each row to its place."""

    lines: tuple[float, ...]
    shifts: tuple[tuple[float, float], ...]
    bottoms: tuple[float, ...]  # y of each row's lower border, after the move
    right: float  # x of the rows' right border, after the move

    def row(self, x: float) -> int:
        return sum(x > line for line in self.lines)


def fold(layout: Layout) -> Layout:
    """The same layout in rows when it is much wider than high and can be cut; otherwise unchanged."""
    if _ratio(layout) < _WORTH or layout.width < _WIDE:
        return layout
    rows = max(2, int((layout.width / (BEST_RATIO * (layout.height + 2 * _GUTTER))) ** 0.5))
    best, since = layout, 0
    while since < 2:
        folded = _fold_at(layout, _cuts(layout, rows))
        better = abs(log(_ratio(folded) / BEST_RATIO)) < abs(log(_ratio(best) / BEST_RATIO))
        best, since, rows = (folded, 0, rows + 1) if better else (best, since + 1, rows + 1)
    return best


def _ratio(layout: Layout) -> float:
    return layout.width / max(layout.height, 1.0)


def _fold_at(layout: Layout, lines: tuple[float, ...]) -> Layout:
    if not lines:
        return layout
    pieces = {name: cut(path, lines) for name, path in layout.paths.items()}
    crossing = _crossings(pieces, lines)
    plan = _place_rows(layout, lines, pieces, crossing)
    lanes = _lanes(crossing)
    paths = {name: _led(name, path, plan, lanes) for name, path in pieces.items()}
    most = max(len(names) for names in crossing.values())
    return Layout(
        cards={name: _moved_box(box, plan) for name, box in layout.cards.items()},
        labels={name: _moved_box(box, plan) for name, box in layout.labels.items()},
        paths=paths,
        rows={name: plan.row(box.x) for name, box in layout.cards.items()},
        width=plan.right + _MARGIN + most * _LANE,
        height=plan.bottoms[-1],
    )


def _cuts(layout: Layout, rows: int) -> tuple[float, ...]:
    gaps = _gaps(layout)
    lines: list[float] = []
    for number in range(1, rows):
        ideal = layout.width * number / rows
        reach = layout.width / rows * 0.45
        near = [gap for gap in gaps if abs(gap - ideal) < reach and gap not in lines]
        costs = {gap: _num_crossing(layout, gap) * 120 + abs(gap - ideal) for gap in near}
        best = min(costs, key=lambda gap: (costs[gap], gap), default=None)
        if best is not None and _num_crossing(layout, best) <= _MAX_CROSSING:
            lines.append(best)
    return tuple(sorted(lines))


def _gaps(layout: Layout) -> list[float]:
    """x between two columns where a row may end: left of a card's or label's column, where no box is in the way."""
    boxes = sorted([*layout.cards.values(), *layout.labels.values()], key=lambda box: box.x)
    gaps, end = [], boxes[0].x + boxes[0].width
    for box in boxes[1:]:
        if box.x > end + 4:
            gaps.append((box.x + end) / 2)
        end = max(end, box.x + box.width)
    return gaps


def _num_crossing(layout: Layout, line: float) -> int:
    return sum(_passes(path, line) for path in layout.paths.values())


def _passes(path: Path, line: float) -> bool:
    xs = [x for piece in path for x, _ in (piece[0], piece[3])]
    return min(xs) < line < max(xs)


def _crossings(pieces: Mapping[str, Path], lines: Sequence[float]) -> dict[int, list[tuple[str, int]]]:
    """Per cut, the (link, piece) pairs after which a path changes its row there, from top to bottom."""
    found: dict[int, list[tuple[float, str, int]]] = {number: [] for number in range(len(lines))}
    for name, path in pieces.items():
        for number in range(len(path) - 1):
            here, there = _row_of(path[number], lines), _row_of(path[number + 1], lines)
            if here != there:
                found[min(here, there)].append((path[number][3][1], name, number))
    return {cut_at: [(name, number) for _, name, number in sorted(items)] for cut_at, items in found.items()}


def _row_of(piece: Piece, lines: Sequence[float]) -> int:
    middle = (piece[0][0] + piece[1][0] * 3 + piece[2][0] * 3 + piece[3][0]) / 8
    return sum(middle > line for line in lines)


def _place_rows(
    layout: Layout,
    lines: Sequence[float],
    pieces: Mapping[str, Path],
    crossing: Mapping[int, Sequence[tuple[str, int]]],
) -> _Fold:
    spans = _spans(layout, lines, pieces)
    margin = _MARGIN + _LANE * max(len(names) for names in crossing.values())
    edges = [0.0, *lines, layout.width]
    shifts, bottoms, top = [], [], 0.0
    for number, (low, high) in enumerate(spans):
        shifts.append((margin - edges[number], top - low))
        bottoms.append(top + high - low)
        top = bottoms[-1] + _GUTTER + _LANE * len(crossing.get(number, ()))
    right = margin + max(edges[number + 1] - edges[number] for number in range(len(spans)))
    return _Fold(lines=tuple(lines), shifts=tuple(shifts), bottoms=tuple(bottoms), right=right)


def _spans(layout: Layout, lines: Sequence[float], pieces: Mapping[str, Path]) -> list[tuple[float, float]]:
    """Lowest and highest y of what each row holds."""
    ys: defaultdict[int, list[float]] = defaultdict(list)
    for box in [*layout.cards.values(), *layout.labels.values()]:
        row = sum(box.x > line for line in lines)
        ys[row] += [box.y, box.y + box.height]
    for path in pieces.values():
        for piece in path:
            ys[_row_of(piece, lines)] += [y for _, y in along(piece)]
    return [(min(ys[row]), max(ys[row])) for row in range(len(lines) + 1)]


def _lanes(crossing: Mapping[int, Sequence[tuple[str, int]]]) -> dict[tuple[str, int], tuple[int, int]]:
    """For each change of rows: which lane it takes, counted from the top edge, and how many share the gutter.

    The top edge goes furthest right, lowest in the gutter and nearest to its row on the left: so none cross.
    """
    return {item: (lane, len(items)) for items in crossing.values() for lane, item in enumerate(items)}


def _led(name: str, path: Path, plan: _Fold, lanes: Mapping[tuple[str, int], tuple[int, int]]) -> Path:
    """The path with its pieces moved to their rows and led around from row to row."""
    out: list[Piece] = []
    for number, piece in enumerate(path):
        row = _row_of(piece, plan.lines)
        out += moved((piece,), *plan.shifts[row])
        if (name, number) in lanes:
            following = _row_of(path[number + 1], plan.lines)
            out += _around(piece[3], row, following, plan, *lanes[name, number])
    return tuple(out)


def _around(point: Point, here: int, there: int, plan: _Fold, lane: int, num_lanes: int) -> Path:
    upper = min(here, there)
    start = (point[0] + plan.shifts[upper][0], point[1] + plan.shifts[upper][1])
    end = (point[0] + plan.shifts[upper + 1][0], point[1] + plan.shifts[upper + 1][1])
    right = plan.right + _MARGIN * 0.5 + _LANE * (num_lanes - 1 - lane)
    left = end[0] - _MARGIN * 0.5 - _LANE * lane
    down = plan.bottoms[upper] + _GUTTER * 0.5 + _LANE * (num_lanes - 1 - lane)
    corners = [start, (right, start[1]), (right, down), (left, down), (left, end[1]), end]
    return rounded(corners if here < there else corners[::-1], _RADIUS)


def _moved_box(box: Box, plan: _Fold) -> Box:
    right, down = plan.shifts[plan.row(box.x)]
    return replace(box, x=box.x + right, y=box.y + down)
