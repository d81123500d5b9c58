"""Windows of any chunking put together again are the item, and context never crosses its borders."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st

from omniflow.channel import ITEMS, PIECES, VALUE, Channel
from tests.schedules import edge


class Listener:
    """A reader and writer that only counts what it is told."""

    def __init__(self) -> None:
        self.items: list[int] = []
        self.ends = 0
        self.full = 0

    def on_item(self, item: int) -> None:
        self.items.append(item)

    def on_end(self) -> None:
        self.ends += 1

    def on_full(self) -> None:
        self.full += 1

    def on_room(self) -> None:
        self.full -= 1


def channel(text: str, mode: str, **attributes: Any) -> tuple[Channel, Listener]:
    listener = Listener()
    return Channel(edge("a.x ~> b.y", text, **attributes), mode=mode, reader=listener, writer=listener), listener


pieces = st.lists(st.integers(0, 9), max_size=12)
cuts = st.fixed_dictionaries(
    {
        "chunk": st.integers(0, 7),
        "first_chunk": st.integers(0, 7),
        "left_context": st.integers(0, 5),
        "right_context": st.integers(0, 5),
    }
)


@given(st.lists(pieces, min_size=1, max_size=4), cuts, st.booleans())
def test_windows_add_up_to_the_items(sizes: list[list[int]], cut: dict[str, int], eager: bool) -> None:
    if not cut["chunk"]:
        cut["first_chunk"] = 0
    reading, _ = channel("act[N*, F]", PIECES, capacity=1000, **cut)
    items, taken = [], []

    def take(item: int) -> None:
        while (count := reading.ready(item)) is not None:
            taken.append(reading.take(item, count))

    for item, parts in enumerate(sizes):
        whole = torch.arange(sum(parts)) + 100 * item
        items.append(whole)
        for piece in whole.split(parts) if parts else ():
            reading.put(piece, item, False)
            if eager:
                take(item)
        reading.put(None, item, True)
        if eager:
            take(item)
    reading.end()
    for item, whole in enumerate(items):
        take(item)
        windows = [window for window in taken if window.item == item]
        new = [w.data[w.left : w.left + w.new] for w in windows]
        assert torch.equal(torch.cat([torch.zeros(0, dtype=torch.int64), *new]), whole)
        at = 0
        for window in windows:
            assert window.left == min(at, cut["left_context"])
            assert window.right <= cut["right_context"]
            assert torch.equal(window.data, whole[at - window.left : at + window.new + window.right])
            if cut["chunk"] and not window.is_last:
                assert window.new == (cut["first_chunk"] if at == 0 and cut["first_chunk"] else cut["chunk"])
                assert window.right == min(cut["right_context"], len(whole) - at - window.new)
            at += window.new
        assert [w.is_last for w in windows] == [False] * (len(windows) - 1) + [True]
        if cut["chunk"]:
            assert all(window.new for window in windows) or len(whole) == 0
    assert reading.count == 0
    assert reading.recount() == 0


@given(st.text(max_size=30), st.lists(st.integers(1, 5), max_size=10), st.integers(0, 4))
def test_a_text_put_in_pieces_is_the_text(text: str, sizes: list[int], start: int) -> None:
    reading, _ = channel("text", VALUE, start=start)
    at = 0
    for size in sizes:
        reading.put(text[at : at + size], 0, False)
        at += size
    reading.put(text[at:], 0, False)
    reading.end()
    assert reading.value() == text[start:]


def test_a_stream_that_ends_without_a_piece_is_an_empty_value() -> None:
    ids, frames = torch.zeros(0, dtype=torch.int64), torch.zeros(0, 130)
    for text, empty in (("text", ""), ("tokens[T]", ids), ("act[F, 130]", frames)):
        reading, listener = channel(text, VALUE)
        reading.end()
        assert listener.ends == 1
        value = reading.value()
        assert value == "" if isinstance(empty, str) else torch.equal(value, empty)


def test_a_stream_of_no_items_is_an_empty_list_and_an_empty_item_is_an_item() -> None:
    reading, _ = channel("text[N*]", VALUE)
    reading.end()
    assert reading.value() == []
    reading, _ = channel("text[N*]", VALUE)
    reading.put("", 0, True)
    reading.end()
    assert reading.value() == [""]


def test_a_writer_is_held_back_while_the_channel_is_full() -> None:
    reading, listener = channel("tokens[T]", PIECES, capacity=8)
    for _ in range(4):
        reading.put(torch.zeros(3), 0, False)
    assert listener.full == 1
    assert reading.count == 12
    reading.take(0, 5)
    assert listener.full == 0
    assert reading.recount() - 5 <= reading.count <= reading.recount()


def test_a_capacity_that_windows_could_not_live_with_is_raised() -> None:
    reading, _ = channel("act[F]", PIECES, capacity=1, chunk=8, right_context=4)
    reading.put(torch.zeros(12), 0, False)
    assert reading.capacity == 12
    assert reading.ready(0) == 8


def test_items_count_as_items_for_who_takes_them_whole() -> None:
    reading, listener = channel("tokens[W*, C]", ITEMS, capacity=2)
    for item in range(2):
        reading.put(torch.zeros(100), item, False)
        assert listener.full == 0
        reading.put(None, item, True)
    assert listener.full == 1
    assert len(reading.take_item(0)) == 100
    assert listener.full == 0


def test_a_reader_that_wants_no_more_holds_nobody_back() -> None:
    reading, listener = channel("tokens[T]", PIECES, capacity=2)
    reading.put(torch.zeros(3), 0, False)
    assert listener.full == 1
    reading.close()
    reading.put(torch.zeros(3), 0, False)
    assert (listener.full, reading.count, reading.recount()) == (0, 0, 0)
