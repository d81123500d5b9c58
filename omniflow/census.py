"""What an engine holds for its requests, counted from the things themselves: nothing may be left when none is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omniflow.engine import Engine


def count_live(engine: Engine) -> int:
    """Lanes, elements in channels, ready units, lanes that wait for a cache, open sequences, memories of open turns."""
    requests = engine.running.values()
    runs = [run for request in requests for run in request.nodes]
    lanes = sum(len(run.lanes) for run in runs)
    held = sum(channel.recount() for run in runs for channels in run.inputs.values() for channel in channels)
    ready = sum(len(group.units) for group in engine.batcher.groups.values())
    memories = sum(len(request.memories) for request in requests)
    return lanes + held + ready + memories + engine.conductor.rooms.num_waiting + engine.bound.pools.live
