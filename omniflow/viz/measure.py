"""The size of every card and label, in points, and where on a card its ports sit."""

from __future__ import annotations

from dataclasses import dataclass

from omniflow.viz.amounts import in_count, in_percent, in_seconds
from omniflow.viz.model import InnerLoop, Link, Socket, Vertex
from omniflow.viz.text import mono_width, sans_width, shorten

NAME_SIZE = 13.5
DETAIL_SIZE = 10.5
UNIT_SIZE = 9.5
PORT_SIZE = 10.0
LABEL_SIZE = 9.5
PAD = 13
NAME_COLUMNS = 30
PORT_COLUMNS = 18
_HEADER = 46
_UNITS = 20
_PORT = 18
_FOOT = 7
_BAR = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CardSize:
    """Whole points. Ports start at `header`, `row` apart; `foot` of it is below the last port."""

    width: int
    height: int
    header: int
    row: int
    units_at: int  # y of the unit chips, 0 when there are none
    inner_at: int  # y of the inner loop's chip, 0 when there is none
    bar_at: int  # y of the measured share, 0 when there is none


def measure_card(vertex: Vertex) -> CardSize:
    """The card that holds the vertex's texts, its linked ports and what was measured."""
    if vertex.kind in ("input", "output"):
        return _measure_tag(vertex)
    rows = max(len(drawn_ports(vertex.inputs)), len(drawn_ports(vertex.outputs)))
    units_at = _HEADER if vertex.units else 0
    inner_at = _HEADER + (_UNITS if vertex.units else 0) if vertex.inner else 0
    header = _HEADER + (_UNITS if vertex.units else 0) + (_UNITS if vertex.inner else 0)
    bar_at = header + rows * _PORT + 3 if vertex.measured else 0
    return CardSize(
        width=_card_width(vertex),
        height=header + rows * _PORT + _FOOT + (_BAR if vertex.measured else 0),
        header=header,
        row=_PORT,
        units_at=units_at,
        inner_at=inner_at,
        bar_at=bar_at,
    )


def _measure_tag(vertex: Vertex) -> CardSize:
    name = sans_width(card_name(vertex), NAME_SIZE, bold=True)
    detail = mono_width(shorten(vertex.detail, NAME_COLUMNS), LABEL_SIZE)
    return CardSize(
        width=round(max(name, detail, 48) + 34), height=44, header=13, row=18, units_at=0, inner_at=0, bar_at=0
    )


def _card_width(vertex: Vertex) -> int:
    name = sans_width(card_name(vertex), NAME_SIZE, bold=True) + (18 if vertex.kind == "loop" else 0)
    detail = sans_width(shorten(vertex.detail, NAME_COLUMNS), DETAIL_SIZE)
    units = sum(unit_width(unit) + 5 for unit in vertex.units) - 5 if vertex.units else 0
    inner = sans_width(inner_text(vertex.inner), UNIT_SIZE, bold=True) + 30 if vertex.inner else 0
    left = max((port_width(socket) for socket in drawn_ports(vertex.inputs)), default=0)
    right = max((port_width(socket) for socket in drawn_ports(vertex.outputs)), default=0)
    measured = sans_width(bar_text(vertex), LABEL_SIZE) if vertex.measured else 0
    return round(max(name, detail, units, inner, left + right + 14, measured, 84) + 2 * PAD)


def drawn_ports(sockets: tuple[Socket, ...]) -> tuple[Socket, ...]:
    """The ports that get a row on the card: those with an edge."""
    return tuple(socket for socket in sockets if socket.linked)


def port_at(size: CardSize, row: int) -> float:
    """y of the middle of a port's row, from the card's top."""
    return size.header + (row + 0.5) * size.row


def card_name(vertex: Vertex) -> str:
    """The vertex's name, short enough for a card."""
    return shorten(vertex.name, NAME_COLUMNS)


def port_width(socket: Socket) -> float:
    """Width of a port's name on the card."""
    return mono_width(shorten(socket.name, PORT_COLUMNS), PORT_SIZE)


def unit_width(unit: str) -> float:
    """Width of the chip that names a unit kind."""
    return sans_width(unit_text(unit), UNIT_SIZE, bold=True) + 12


def inner_text(inner: InnerLoop) -> str:
    """What the chip of an inner loop says."""
    return f"{shorten(inner.name, 20)} ×{inner.length}"


def unit_text(unit: str) -> str:
    """The unit kind as the chip shows it."""
    return shorten(unit, 24)


def bar_text(vertex: Vertex) -> str:
    """The line over the measured share; empty without a measurement."""
    if vertex.measured is None:
        return ""
    measured = vertex.measured
    return f"{in_seconds(measured.seconds)} · {in_percent(measured.share)} · {in_count(measured.units)}×"


def label_lines(link: Link) -> tuple[str, ...]:
    """What an edge's label says: its type, how it is cut, what went over it."""
    lines = [link.type]
    if link.policy:
        lines.append(link.policy)
    if link.measured is not None:
        lines.append(f"{in_count(link.measured.elements)} {'element' if link.measured.elements == 1 else 'elements'}")
    return tuple(lines)


def measure_label(link: Link) -> tuple[int, int]:
    """Width and height of the label's pill."""
    lines = label_lines(link)
    return round(max(mono_width(line, LABEL_SIZE) for line in lines) + 14), 13 * len(lines) + 5
