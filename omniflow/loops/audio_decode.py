"""Streaming decoders: windows of frames in, samples out, chunks of many requests with one shape in one forward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from omniflow.channel import Window
from omniflow.loops.base import BadResult, Done, Emit, Loop, Start, Stream, Unit, Wait
from omniflow.loops.checks import NOT_FINITE, are_finite
from omniflow.roles import DecoderRows, DecoderState, StreamDecoder
from omniflow_compiler.schedule import Node


@dataclass(slots=True, kw_only=True, eq=False)
class Speaking:
    """One item: its aligned input streams and the decoder's own state."""

    streams: Mapping[str, Stream]
    decoder: DecoderState
    is_done: bool = False


class Frames(NamedTuple):
    """A unit's windows, cut at the same frames on every port."""

    data: dict[str, Tensor]
    left: int
    new: int
    right: int
    is_last: bool


class AudioDecode(Loop[Speaking]):
    """In: the expert's frame ports, all streams of equal length. Out: `audio`, samples [S] or [S, channels]."""

    lanes: ClassVar[int] = 1  # items are heard one after another

    def __init__(self, node: Node, expert: StreamDecoder) -> None:
        self.expert = expert
        self.streams = frozenset(port.name for port in node.inputs)
        self.port = node.outputs[0].name
        self.num_axes = sum(not axis.endswith("*") for axis in node.outputs[0].type.axes)

    def init(self, start: Start) -> Speaking:
        """A fresh decoder with the item's own source of noise."""
        return Speaking(streams=start.streams, decoder=self.expert.open(generator=start.rng.generator()))

    def next(self, state: Speaking) -> Unit | Wait | Done:
        """The next windows, once every port has its own. Errors: ValueError when the ports' lengths differ."""
        if state.is_done:
            return Done("end")
        counts = {port: stream.ready() for port, stream in state.streams.items()}
        for port, count in counts.items():
            if count is None:
                return Wait(port)
        if len(set(counts.values())) > 1:
            raise ValueError("its ports do not run in step: " + ", ".join(f"{p} has {n}" for p, n in counts.items()))
        frames = _join({port: stream.take(counts[port] or 0) for port, stream in state.streams.items()})
        if frames.new == 0 and state.decoder.num_frames == 0:
            state.is_done = True
            return Done("end")
        key = ("audio", id(self.expert), frames.left, frames.new, frames.right)
        return Unit("audio_chunk", key, state, payload=frames, size=frames.new)

    @torch.inference_mode()
    def execute(self, expert: StreamDecoder, units: Sequence[Unit]) -> list[Tensor | BadResult]:
        """All chunks in one call."""
        rows = [_row(unit) for unit in units]
        results = expert.decode(rows)
        for unit in units:
            unit.state.is_done = unit.payload.is_last
        finite = are_finite(results)
        return [_checked(result, self.num_axes, ok) for result, ok in zip(results, finite, strict=True)]

    def advance(self, state: Speaking, result: Tensor) -> list[Emit]:
        """Samples leave as they come."""
        del state
        return [Emit(self.port, result)] if len(result) else []


def _join(windows: Mapping[str, Window]) -> Frames:
    return Frames(
        {port: window.data for port, window in windows.items()},
        max(window.left for window in windows.values()),
        max(window.new for window in windows.values()),
        max(window.right for window in windows.values()),
        all(window.is_last for window in windows.values()),
    )


def _row(unit: Unit) -> DecoderRows:
    frames: Frames = unit.payload
    return DecoderRows(
        state=unit.state.decoder,
        frames=frames.data,
        left=frames.left,
        new=frames.new,
        right=frames.right,
        is_last=frames.is_last,
    )


def _checked(result: Tensor, num_axes: int, is_finite: bool) -> Tensor | BadResult:
    if result.ndim != num_axes:
        return BadResult(f"shape {list(result.shape)} where {num_axes} axes are due")
    return result if is_finite else BadResult(NOT_FINITE, is_finite=False)
