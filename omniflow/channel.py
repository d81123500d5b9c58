"""Channels: what travels on an edge, cut into items and windows, bounded, ended exactly once."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, Protocol

from omniflow.values import Shared, Value, concat, cut, is_starred, length
from omniflow_compiler.schedule import Channel as ChannelSpec

VALUE, ITEMS, PIECES = "value", "items", "pieces"  # how a reader takes a port: whole, item by item, or as it comes


class Window(NamedTuple):
    """`left + new + right` elements of item `item`; context is clipped at the item's borders."""

    data: Value
    item: int
    left: int
    new: int
    right: int
    is_last: bool


class Reader(Protocol):
    """Who takes from a channel: told when there is something it can use."""

    def on_item(self, item: int) -> None:
        """Something of `item` came that the reader can use."""

    def on_end(self) -> None:
        """No more will come."""


class Writer(Protocol):
    """Who fills channels: held back while one of them is full."""

    def on_full(self) -> None: ...

    def on_room(self) -> None: ...


class Sink(Protocol):
    """What a writer puts pieces into: a channel, or an output of the program."""

    @property
    def id(self) -> str: ...

    @property
    def is_full(self) -> bool: ...

    def put(self, data: Value, item: int, ends_item: bool, size: int) -> None: ...

    def end(self) -> None: ...


class Item:
    """What has come of one item and has not been taken. Positions count elements from the item's start."""

    __slots__ = ("base", "index", "is_ended", "is_whole_taken", "pieces", "taken", "total")

    def __init__(self, index: int, *, skip: int) -> None:
        self.index = index
        self.pieces: deque[tuple[Value, int]] = deque()  # with their lengths
        self.base = 0  # position of the first element still held
        self.total = 0  # position after the last element that came
        self.taken = skip  # position of the next new element
        self.is_ended = False
        self.is_whole_taken = False  # its last window has been handed out

    def span(self, start: int, stop: int) -> list[Value]:
        """The pieces of elements `start .. stop`."""
        found, at = [], self.base
        for piece, size in self.pieces:
            end = at + size
            if at >= start and end <= stop:
                if size:
                    found.append(piece)
            elif end > start and at < stop:
                found.append(cut(piece, max(start - at, 0), min(stop, end) - at))
            if end >= stop:
                break
            at = end
        return found

    def drop(self, before: int) -> None:
        """Forgets pieces that lie wholly before that position."""
        while self.pieces and self.base + self.pieces[0][1] <= before:
            self.base += self.pieces.popleft()[1]


class Channel:
    """One edge of one request.

    The count that `capacity` bounds is of elements for a reader of pieces and of whole items for a reader of items;
    what a reader must collect before it can use it (a whole value, an unfinished item) is its own assembly buffer and
    not counted. A writer may overshoot the capacity by one piece.
    """

    def __init__(self, spec: ChannelSpec, *, mode: str, reader: Reader, writer: Writer | None) -> None:
        self.spec = spec
        self.id = spec.id
        self.mode = mode if spec.streams or mode != PIECES else ITEMS  # `->` into a streaming port: one whole piece
        self.reader = reader
        self.writer = writer
        self.capacity = max(spec.capacity, max(spec.chunk, spec.first_chunk) + max(spec.right_context, 1))
        self.is_starred = is_starred(spec.type)
        self.start = spec.start
        self.holds = spec.type.base == "kv"
        self.has_context = bool(spec.left_context or spec.right_context)
        is_cut = bool(spec.start or spec.chunk or spec.first_chunk)
        self.is_plain = self.mode == PIECES and not is_cut and not self.has_context  # windows are what has come
        self.items: dict[int, Item] = {}
        self.shared: list[Shared] = []  # values held by reference, until the reader has ended
        self.count = 0
        self.is_full = False
        self.is_ended = False
        self.is_closed = False  # the reader wants no more
        self.num_items = 0  # items ever ended

    # -- writing ---------------------------------------------------------------------------------------------------

    def put(self, data: Value, item: int, ends_item: bool, size: int | None = None) -> None:
        """A piece of an item, `size` elements long if that is known; `data` None ends the item without adding to it."""
        if self.is_closed:
            return
        held = self.items.get(item)
        if held is None:
            held = self.items[item] = Item(item, skip=self.start)
        count = 0
        if data is not None:
            if self.holds and isinstance(data, Shared):
                data.hold()
                self.shared.append(data)
            count = size = length(data) if size is None else size
            held.pieces.append((data, size))
            held.total += size
            if held.taken > held.total - size:  # some of it is skipped
                count = max(held.total - held.taken, 0)
        if ends_item:
            held.is_ended = True
            self.num_items += 1
        if self.mode == PIECES:
            self.count += count
        elif self.mode == ITEMS and ends_item:
            self.count += 1
        else:
            return
        if (self.count >= self.capacity) is not self.is_full:
            self._turn()
        self.reader.on_item(item)

    def end(self) -> None:
        """No more items will come. An unfinished item ends with it."""
        if self.is_ended:
            return
        if not self.is_starred and not self.items and not self.num_items:
            self.put(None, 0, True, 0)
        for held in self.items.values():
            if not held.is_ended:
                held.is_ended = True
                self.num_items += 1
                self._add(1 if self.mode == ITEMS else 0)
        self.is_ended = True
        if not self.is_closed:
            self.reader.on_end()

    def close(self) -> None:
        """The reader wants no more: what is held is freed and what still comes is dropped."""
        self.is_closed = True
        while self.shared:
            self.shared.pop().drop()
        self.items.clear()
        self._add(-self.count)

    def _add(self, count: int) -> None:
        self.count += count
        if (self.count >= self.capacity) is not self.is_full:
            self._turn()

    def _turn(self) -> None:
        """Tells the writer that the channel has become full, or has room again."""
        self.is_full = not self.is_full
        if self.writer is not None:
            if self.is_full:
                self.writer.on_full()
            else:
                self.writer.on_room()

    def recount(self) -> int:
        """Elements held, counted from the pieces themselves."""
        return sum(length(piece) for held in self.items.values() for piece, _ in held.pieces)

    # -- reading ---------------------------------------------------------------------------------------------------

    def value(self) -> Value:
        """The whole value of an ended channel: one item's pieces joined, or the list of items of a starred type."""
        items = [concat(held.span(held.taken, held.total), self.spec.type) for held in self.items.values()]
        if is_starred(self.spec.type):
            return items
        return items[0] if items else concat([], self.spec.type)

    def take_item(self, item: int) -> Value:
        """The whole of an ended item, taken out."""
        held = self.items.pop(item)
        self._add(-1)
        return concat(held.span(held.taken, held.total), self.spec.type)

    def has_item(self, item: int) -> bool:
        """Whether the item has begun (for readers of pieces) or is whole (for readers of items)."""
        held = self.items.get(item)
        return held is not None and (self.mode == PIECES or held.is_ended)

    def available(self, item: int) -> int:
        """Elements of the item that came and were not taken."""
        held = self.items.get(item)
        return 0 if held is None else max(held.total - held.taken, 0)

    def is_item_ended(self, item: int) -> bool:
        """Whether all of the item came."""
        held = self.items.get(item)
        return self.is_ended if held is None else held.is_ended

    def ready(self, item: int) -> int | None:
        """How many new elements the next window of the item has; None while it must wait or has none left.

        A full window leaves once one more element is known behind it (or the end), so that the last one is marked.
        """
        held = self.items.get(item)
        if held is None or held.is_whole_taken:
            return None
        spec, have = self.spec, held.total - held.taken
        if self.mode != PIECES:
            return max(have, 0) if held.is_ended else None
        want = spec.first_chunk if spec.first_chunk and held.taken == spec.start else spec.chunk
        if held.is_ended:
            return max(min(have, want) if want else have, 0)
        if want:
            return want if have >= want + max(spec.right_context, 1) else None
        new = have - spec.right_context
        return new if new > 0 else None

    def take(self, item: int, new: int) -> Window:
        """The next window of the item, with `new` new elements. `ready` (or `available`) told how many there can be."""
        held, spec = self.items[item], self.spec
        start, stop = held.taken, held.taken + new
        first, last = max(start - spec.left_context, spec.start), min(stop + spec.right_context, held.total)
        last = max(last, stop)
        data = concat(held.span(first, last), spec.type)
        held.taken = stop
        is_last = held.is_ended and stop >= held.total
        held.is_whole_taken = is_last
        if is_last:
            del self.items[item]
        else:
            held.drop(stop - spec.left_context)
        if self.mode == PIECES:
            self._add(-new)
        elif is_last:
            self._add(-1)
        return Window(data, item, start - first, new, last - stop, is_last)

    def take_come(self, item: int) -> Window | None:
        """All that has come of an item of a plain channel and its end if that is known; None when that is nothing."""
        held = self.items.get(item)
        if held is None:
            return None
        pieces, new, is_last = held.pieces, held.total - held.taken, held.is_ended
        if not new and not is_last:
            return None
        data = pieces[0][0] if len(pieces) == 1 else concat([piece for piece, size in pieces if size], self.spec.type)
        pieces.clear()
        held.base = held.taken = held.total
        if is_last:
            held.is_whole_taken = True
            del self.items[item]
        self.count -= new
        if self.is_full and self.count < self.capacity:
            self._turn()
        return Window(data, item, 0, new, 0, is_last)
