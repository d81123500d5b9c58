"""Ops as loops: one call per batch of pieces that has come, one last call at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from omniflow.channel import Window
from omniflow.loops.base import BadResult, Done, Emit, Loop, Start, Stream, Unit, Wait
from omniflow.ops.base import Call, Op
from omniflow_compiler.schedule import Node


@dataclass(slots=True, kw_only=True, eq=False)
class Running:
    """One request's (or item's) run of an op: its call and its unit, the same ones every time with other windows."""

    streams: tuple[Stream, ...]
    call: Call
    unit: Unit
    is_done: bool = False


class RunOp(Loop[Running]):
    """Ports are the op's."""

    lanes: ClassVar[int] = 16

    def __init__(self, node: Node, op: Op, component: Any) -> None:
        self.op = op
        self.component = component
        self.streams = op.pieces | op.items
        self.items = op.items
        self.variadic = op.variadic
        self.optional = op.optional
        self.key = ("op", node.id, node.name)

    def init(self, start: Start) -> Running:
        """Fresh memory."""
        call = Call(
            values=start.values,
            windows={},
            params=start.params,
            component=self.component,
            memory=self.op.memory() if self.op.memory else None,
            is_end=False,
            rng=start.rng,
            goes_on=start.goes_on,
        )
        unit = Unit("op", self.key, None, payload=call)
        state = unit.state = Running(streams=tuple(start.streams.values()), call=call, unit=unit)
        return state

    def next(self, state: Running) -> Unit | Wait | Done:
        """A call for what has come. Errors: ValueError when streams that belong together differ in length."""
        if state.is_done:
            return Done("end")
        if not state.streams:
            return self._unit(state, {}, is_end=True)
        if len(state.streams) == 1:
            stream = state.streams[0]
            window = stream.next()
            if window is None:
                return self._unit(state, {}, is_end=True) if stream.is_over else stream.wait
            has_more = window.is_last or (not stream.channel.is_plain and stream.available() > 0)
            rests_on = None if has_more else stream.port
            return self._unit(state, {stream.port: window}, is_end=stream.is_over, rests_on=rests_on)
        return self._next_aligned(state)

    def _next_aligned(self, state: Running) -> Unit | Wait:
        if any(s.is_feedback for s in state.streams) and any(_is_exhausted(s) for s in state.streams):
            return self._unit(state, {}, is_end=True)
        counts: list[int] = []
        for stream in state.streams:
            count = stream.ready()
            if count is not None:
                counts.append(count)
            elif not stream.is_over:
                return stream.wait
        ends = [_is_exhausted(stream) for stream in state.streams]
        if any(ends) and not all(ends):
            raise ValueError("its ports do not run in step: " + " and ".join(s.port for s in state.streams))
        if not counts:
            return self._unit(state, {}, is_end=True)
        windows = {stream.port: stream.take(min(counts)) for stream in state.streams}
        return self._unit(state, windows, is_end=all(stream.is_over for stream in state.streams))

    @staticmethod
    def _unit(state: Running, windows: Mapping[str, Window], *, is_end: bool, rests_on: str | None = None) -> Unit:
        call, unit = state.call, state.unit
        call.windows = windows
        state.is_done = call.is_end = is_end
        unit.rests_on = rests_on
        return unit

    def execute(self, expert: Any, units: Sequence[Unit]) -> list[list[Emit | Done] | BadResult]:
        """Calls one after another: an op is cheap and may fail for its own request alone."""
        del expert
        run = self.op.run
        results: list[list[Emit | Done] | BadResult] = []
        for unit in units:
            try:
                results.append(list(run(unit.payload)))
            except Exception as error:  # noqa: BLE001  an op's fault belongs to the request it was called for
                is_of_values = isinstance(error, ValueError)
                problem = str(error) if is_of_values else f"{type(error).__name__}: {error}"
                results.append(BadResult(problem, is_of_values))
        return results

    def advance(self, state: Running, result: list[Emit | Done]) -> list[Emit]:
        """What the op gave; one that says it is done gets no more calls, and what still comes to it is dropped."""
        emits = [entry for entry in result if type(entry) is Emit]
        if len(emits) < len(result):
            state.is_done, state.unit.rests_on = True, None
        return emits


def _is_exhausted(stream: Stream) -> bool:
    return stream.is_over or (stream.has_ended() and not stream.available())
