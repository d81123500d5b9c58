"""The loop protocol: what every iterative computation of a node looks like to the engine.

`init -> (next -> execute -> advance)* -> finalize`, and `release` whatever happens. A loop object belongs to a node
of a loaded schedule and holds nothing of any request: that is in the state that `init` makes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from omniflow.channel import Channel, Window
from omniflow.rng import Source
from omniflow.values import Shared, Value

Result = Any  # what `execute` gives back for one unit; only the loop that made the unit looks inside

S = TypeVar("S")


class Emit(NamedTuple):
    """A piece for an output port. `ends_item` separates the items that an op makes of a starred output.

    `ends_port`: nothing more will leave there, so who needs the whole need not wait for the end of the node.
    """

    port: str
    data: Value
    ends_item: bool = False
    ends_port: bool = False


class Wait(NamedTuple):
    """Nothing to do until that input port (or pool) has something new."""

    on: str


class Done(NamedTuple):
    """The loop is through; `reason` goes into the run record (`stop`, `bound`, `end`)."""

    reason: str


class Memory(NamedTuple):
    """What a loop hands to the next turn of its session: a value that nobody changes, and the bytes it occupies.

    A value held by reference is let go of when the session has another one, or ends.
    """

    value: Value
    num_bytes: int

    def let_go(self) -> None:
        """Nobody will go on from it."""
        if isinstance(self.value, Shared):
            self.value.drop()


class BadResult(NamedTuple):
    """In place of a result: the expert's answer for this row is of no use, and why. Fails its own request only.

    is_of_values: what the row was given is at fault, not who computed it. is_finite: whether it was numbers at least.
    """

    problem: str
    is_of_values: bool = False
    is_finite: bool = True


class Unit:
    """The next work unit of one state. Units with equal `key` run as one forward, whatever request they are from.

    `size` is how many tokens (frames, rows) it would like to compute, of which the batcher grants `grant`: all of them
    unless the unit is `divisible` and the batch is full. `cached` is how many (or how many items) it found done by
    another unit before. `expert` is set when it is not the node's own. `rests_on` is the port at which the state waits
    once the unit has run, unless something new has come there: it need not be asked before that.
    """

    __slots__ = (
        "cached", "divisible", "expert", "grant", "key", "kind", "lane", "payload", "rests_on", "size", "state",
    )  # fmt: skip

    def __init__(
        self,
        kind: str,
        key: tuple[Hashable, ...],
        state: Any,
        *,
        payload: Any = None,
        size: int = 1,
        divisible: bool = False,
    ) -> None:
        self.kind = kind
        self.key = key
        self.state = state
        self.payload = payload
        self.size = size
        self.divisible = divisible
        self.grant = size
        self.cached = 0
        self.rests_on: str | None = None
        self.expert: Any = None
        self.lane: Any = None  # set by the engine: whose unit this is


class Stream:
    """An input port that is taken window by window: one item, or item after item of a starred channel (`walks`)."""

    __slots__ = ("channel", "is_over", "item", "port", "wait", "walks")

    def __init__(self, port: str, channel: Channel, item: int, *, walks: bool) -> None:
        self.port = port
        self.wait = Wait(port)
        self.channel = channel
        self.item = item
        self.walks = walks
        self.is_over = False  # the last window of the last item was taken

    def ready(self) -> int | None:
        """New elements in the next window; None while it has to be waited for, or after the last."""
        if self.is_over:
            return None
        count = self.channel.ready(self.item)
        if count is None and self.walks and self.channel.is_ended and self.item not in self.channel.items:
            self.is_over = True
        return count

    @property
    def is_feedback(self) -> bool:
        """Whether it comes from behind its reader: its end is the reader's, however much is left of it."""
        return self.channel.spec.back_edge is not None

    def available(self) -> int:
        """New elements of the item that are there, windows aside."""
        return self.channel.available(self.item)

    def has_ended(self) -> bool:
        """Whether all of the item is there (it may still have to be taken)."""
        return self.is_over or self.channel.is_item_ended(self.item)

    def next(self) -> Window | None:
        """The next window, or None where `ready` gives None."""
        if self.channel.is_plain and not self.is_over:
            window = self.channel.take_come(self.item)
            if window is not None:
                if window.is_last:
                    self._end_item()
                return window
        count = self.ready()
        return None if count is None else self.take(count)

    def take(self, new: int) -> Window:
        """The next `new` elements with the edge's context around them."""
        window = self.channel.take(self.item, new)
        if window.is_last:
            self._end_item()
        return window

    def _end_item(self) -> None:
        if self.walks:
            self.item += 1
        else:
            self.is_over = True


@dataclass(slots=True, kw_only=True, eq=False)
class Start:
    """What a loop starts an item with. Nobody changes one; it is not frozen because making one would cost more.

    values: finished inputs by port (a tuple of values for variadic ports); absent optional ports are missing.
    streams: inputs that are taken piece by piece. params: the node's attributes with the request's own on top.
    wanted: output ports that somebody reads. rollout: whether behaviour is recorded. owner: the request's number.
    gathers: caches of the expert that the request hands on, 0 for a loop that hands on none.
    memory: what the turn before has left to this loop. goes_on: whether a loop behind has something of the turn before.
    """

    values: Mapping[str, Value]
    streams: Mapping[str, Stream]
    params: Mapping[str, Any]
    rng: Source
    wanted: frozenset[str]
    rollout: bool = False
    owner: int = 0
    gathers: int = 0
    memory: Value = None
    goes_on: bool = False
    bound: Callable[[], int | None] | None = None  # tells max_tokens once it is known, when others' lengths decide it


class Loop(ABC, Generic[S]):
    """One per node of a loaded schedule.

    streams: ports taken piece by piece; items: ports taken item by item; all others are finished values. variadic:
    ports that several edges may enter; optional: ports that may be left out when what feeds them is switched off.
    lanes: how many items of an `each` node are in work at once. is_asked: values that it cannot start with (sizes) are
    what was asked for, whatever computed the others. `execute` may be called on any loop of the same kind
    with units of several nodes: all it needs is in the units.
    """

    streams: frozenset[str] = frozenset()
    items: frozenset[str] = frozenset()
    variadic: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    lanes: ClassVar[int] = 1
    is_asked: ClassVar[bool] = False

    def check(self, params: Mapping[str, Any]) -> None:
        """Before a request is taken: whether it could run with these attributes, its own among them.

        Errors: ValueError for those with which no input could.
        """

    @abstractmethod
    def init(self, start: Start) -> S:
        """The state of one request's item. Errors: ValueError for inputs the loop cannot start with."""

    @abstractmethod
    def next(self, state: S) -> Unit | Wait | Done:
        """Describes the next unit; touches no kernel."""

    @abstractmethod
    def execute(self, expert: Any, units: Sequence[Unit]) -> Sequence[Result | BadResult]:
        """One batched call of the expert, under torch's inference mode; result i belongs to unit i."""

    @abstractmethod
    def advance(self, state: S, result: Result) -> Sequence[Emit]:
        """Folds a result into the state and says what leaves."""

    def finalize(self, state: S) -> Sequence[Emit]:
        """What leaves at the end, after `Done`; nothing unless a loop holds something back."""
        del state
        return ()

    def behaviour(self, state: S) -> Mapping[str, Any] | None:
        """What a trainer needs to know of a finished state's choices, under the rollout profile."""
        del state
        return None

    def remember(self, state: S) -> Memory | None:
        """What a finished state leaves to the next turn, when its node keeps sessions; called before `release`."""
        del state
        return None

    def takes_room(self, state: S) -> bool:
        """Whether a state that has no room in its expert's cache would take some with its next unit."""
        del state
        return False

    def set_aside(self, state: S) -> bool:
        """Gives the room that the state holds in its expert's cache back until `next` takes it again; whether it could.

        Called between batches for a state without room elsewhere. What is cached must come back as it was.
        """
        del state
        return False

    def release(self, state: S) -> None:
        """Gives back what the state holds; called exactly once, also after cancel and failure."""
        del state
