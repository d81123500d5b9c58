"""A loop inside a loop: after each outer token a run of fixed length, whose steps are units of their own expert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from omniflow.loops.ar_decode import ARDecode
from omniflow.loops.base import BadResult, Done, Emit, Loop, Start, Unit, Wait
from omniflow.loops.decoding import Decoding, Step
from omniflow.roles import Autoregressor
from omniflow_compiler.inner import ENDS
from omniflow_compiler.schedule import Inner

HELD = frozenset({"tokens", "logprobs"})  # ports whose pieces leave with the frame


@dataclass(slots=True, kw_only=True, eq=False)
class Nested:
    """An outer sequence and, while one is open, the inner run that completes the frame of its newest token."""

    outer: Decoding
    start: Start
    params: Mapping[str, Any]  # of the inner loop, the request's own on top
    inner: Decoding | None = None
    held: list[Emit] = field(default_factory=list)  # the newest token, until its frame is whole
    codes: list[list[int]] = field(default_factory=list)
    logprobs: list[list[float]] = field(default_factory=list)


class NestedDecode(Loop[Nested]):
    """Ports as of the outer loop, and `codes` [T, 1 + length]: each outer token with its inner ones.

    A token leaves together with its frame. See docs/decisions/0003-a-loop-inside-a-loop.md.
    """

    streams = ARDecode.streams
    optional = ARDecode.optional
    lanes: ClassVar[int] = ARDecode.lanes

    def __init__(self, spec: Inner, outer: ARDecode, inner: ARDecode) -> None:
        self.spec = spec
        self.outer = outer
        self.inner = inner
        self.feeds = frozenset(spec.feed.values())

    def check(self, params: Mapping[str, Any]) -> None:
        """Errors: ValueError as of both loops, or for a request that changes the inner length or may cut it short."""
        prefix = f"{self.spec.loop}."
        own = {k.removeprefix(prefix): v for k, v in params.items() if k.startswith(prefix)}
        if own.get("max_tokens", self.spec.length) != self.spec.length:
            raise ValueError(f"{prefix}max_tokens is {own['max_tokens']}, and every frame has {self.spec.length}")
        early = next((name for name in ENDS if own.get(name)), None)
        if early is not None:
            raise ValueError(f"{prefix}{early} would end a frame early, and every frame has {self.spec.length}")
        self.outer.check(params)
        self.inner.check({**self.spec.attributes, **own})

    def init(self, start: Start) -> Nested:
        """Errors: ValueError as of the outer loop."""
        prefix = f"{self.spec.loop}."
        own = {k.removeprefix(prefix): v for k, v in start.params.items() if k.startswith(prefix)}
        outer = self.outer.init(start)
        outer.feeds = self.feeds
        return Nested(outer=outer, start=start, params={**self.spec.attributes, **own} if own else self.spec.attributes)

    def next(self, state: Nested) -> Unit | Wait | Done:
        """The inner run first, then the next outer token."""
        if state.inner is None:
            return self.outer.next(state.outer)
        answer = self.inner.next(state.inner)
        if isinstance(answer, Unit):
            answer.expert = self.inner.expert
            answer.divisible = False  # its prompt is a few rows: they stay together, so that requests keep step
        return answer

    def execute(self, expert: Autoregressor, units: Sequence[Unit]) -> list[Step | BadResult]:
        """One step of the expert; the units of a batch are all outer or all inner ones."""
        return self.outer.execute(expert, units)

    def advance(self, state: Nested, result: Step) -> list[Emit]:
        """A chosen outer token opens an inner run; the last inner token completes the frame."""
        if state.inner is None:
            return self._advance_outer(state, result)
        self.inner.advance(state.inner, result)
        return [] if state.inner.reason is None else self._close(state)

    def _advance_outer(self, state: Nested, result: Step) -> list[Emit]:
        num_tokens = len(state.outer.tokens)
        emits = self.outer.advance(state.outer, result)
        if len(state.outer.tokens) > num_tokens:
            state.inner = self._open(state, result)
        state.held = [emit for emit in emits if emit.port in HELD]
        return [emit for emit in emits if emit.port not in HELD]

    def _open(self, state: Nested, result: Step) -> Decoding:
        values = {port: _value(name, state.outer, result) for port, name in self.spec.feed.items()}
        return self.inner.init(
            Start(
                values=values,
                streams={},
                params=state.params,
                rng=state.start.rng.inside(len(state.outer.tokens) - 1),
                bound=None,
                wanted=frozenset({self.spec.back}),
                rollout=state.start.rollout,
            )
        )

    def _close(self, state: Nested) -> list[Emit]:
        """The frame becomes the next step's ids, [1, 1 + length], and a row of `codes`."""
        assert state.inner is not None
        inner, outer = state.inner, state.outer
        self.inner.release(inner)
        state.inner = None
        codes = [outer.tokens[-1], *inner.tokens]
        stop = outer.sampling.stop_frame
        if stop and stop.issuperset(codes[:-1]):
            outer.reason = "stop"
            if codes[-1] in stop:
                outer.tokens.pop()
                return []
        outer.feed = torch.tensor([codes])
        if state.start.rollout:
            state.codes.append(codes)
            state.logprobs.append(inner.logprobs)
        return [*state.held, Emit("codes", outer.feed)]

    def finalize(self, state: Nested) -> list[Emit]:
        """Nothing is held back."""
        del state
        return []

    def behaviour(self, state: Nested) -> Mapping[str, Any]:
        """The outer loop's record, the frames, and the log-probabilities of the inner tokens, a row per frame."""
        return {**self.outer.behaviour(state.outer), "codes": state.codes, "inner_logprobs": state.logprobs}

    def takes_room(self, state: Nested) -> bool:
        """The inner run goes on without any in the outer expert's cache."""
        return state.inner is None

    def set_aside(self, state: Nested) -> bool:
        """The outer sequence; the inner run, on its own expert, goes on to the end of its frame."""
        return self.outer.set_aside(state.outer)

    def release(self, state: Nested) -> None:
        """Closes both sequences."""
        if state.inner is not None:
            self.inner.release(state.inner)
            state.inner = None
        self.outer.release(state.outer)


def _value(name: str, outer: Decoding, result: Step) -> Tensor:
    """What the outer step hands on: the chosen token [1], the hidden state that chose it or its embedding, [1, D]."""
    value = {"token": outer.feed, "hidden": result.last_hidden, "embeds": result.embedding}[name]
    assert value is not None
    return value
