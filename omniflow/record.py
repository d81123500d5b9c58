"""The run record: what one request did, as plain JSON, and its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omniflow.endings import describe
from omniflow.execution import Lost
from omniflow.node import NodeRun
from omniflow.request import Request, Result, State
from omniflow.stream import Outlet
from omniflow_compiler.schedule import Schedule

RECORD_FORMAT = 1


def result_of(request: Request, schedule: Schedule) -> Result:
    """The result of a request that has just ended; outputs hold what came, all of it when the state is done.

    One that is done fails where an output cannot be put together.
    """
    outputs = {}
    for name, outlet in request.outlets.items():
        if outlet.keep:
            try:
                outputs[name] = outlet.value()
            except Exception as error:  # noqa: BLE001  pieces of an expert that do not fit together
                _lose(request, outlet, error)
    return Result(
        id=request.id,
        state=request.state,
        outputs=outputs,
        record=record_of(request, schedule),
        error=request.error,
        behaviour=request.behaviour,
    )


def _lose(request: Request, outlet: Outlet, error: Exception) -> None:
    """An output whose pieces cannot be joined fails its request, and no other output of it."""
    outlet.is_lost, outlet.is_ended = True, False
    name = f"output {outlet.spec.name}"
    problem = request.errors[name] = f"{outlet.spec.place}: {name}: its pieces do not fit together: {describe(error)}"
    if request.state is State.DONE:
        request.state = State.FAILED
    request.error = request.error or problem


def record_of(request: Request, schedule: Schedule) -> dict[str, Any]:
    """JSON of one request. Times are seconds after submission."""
    outputs = {name: _output(outlet, request.submitted) for name, outlet in request.outlets.items()}
    seconds = (request.ended or 0.0) - request.submitted
    audio = sum(output.get("audio_seconds", 0.0) for output in outputs.values())
    return {
        "omniflow": 1,
        "kind": "run",
        "format": RECORD_FORMAT,
        "program": schedule.program,
        "schedule": schedule.content_hash,
        "seed": request.seed,
        "session": None if request.session is None else request.session.id,
        "state": str(request.state),
        "error": request.error,
        "errors": request.errors,
        "seconds": round(seconds, 6),
        "preempted": {"times": request.num_evicted, "units": request.units_evicted},
        "queued_seconds": round((request.started or request.ended or 0.0) - request.submitted, 6),
        "tokens": sum(_tokens(run) for run in request.nodes),
        "cached_tokens": sum(run.count.cached for run in request.nodes if run.bound.spec.name == "ar_decode"),
        "time_to_first_text": _first(outputs, "text"),
        "time_to_first_audio": _first(outputs, "audio"),
        "audio_seconds": round(audio, 6),
        "real_time_factor": round(seconds / audio, 6) if audio else None,
        "outputs": outputs,
        "nodes": {run.bound.spec.id: _node(run, request.submitted) for run in request.nodes},
    }


def _tokens(run: NodeRun) -> int:
    """Tokens (or frames) of loops that write for the whole request; those of an `each` node are parts of words."""
    spec = run.bound.spec
    emitted = run.count.emitted
    return emitted.get("tokens", emitted.get("codes", 0)) if spec.name == "ar_decode" and not spec.each else 0


def _output(outlet: Outlet, submitted: float) -> dict[str, Any]:
    kind = outlet.spec.type
    found: dict[str, Any] = {
        "type": kind.text,
        "base": kind.base,
        "whole": outlet.is_ended,
        "state": "done" if outlet.is_ended else "failed" if outlet.is_lost else "stopped",
        "pieces": outlet.num_pieces,
        "elements": outlet.num_elements,
        "first": _after(outlet.first, submitted),
        "last": _after(outlet.last, submitted),
    }
    if kind.base == "audio" and kind.rate_hz:
        found["audio_seconds"] = round(outlet.num_elements / kind.rate_hz, 6)
    return found


def _node(run: NodeRun, submitted: float) -> dict[str, Any]:
    count = run.count
    return {
        "place": run.bound.place,
        "units": count.units,
        "spent": [
            {"expert": expert, "kind": kind, "units": spent.units, "seconds": round(spent.seconds, 6)}
            for (expert, kind), spent in sorted(count.spent.items())
        ],
        "seconds": round(count.seconds, 6),
        "items": count.items,
        "emitted": count.emitted,
        "cached": count.cached,
        "reasons": dict(count.reasons),
        "first": _after(count.first, submitted),
        "last": _after(count.last, submitted),
    }


def _first(outputs: dict[str, Any], base: str) -> float | None:
    """When there was something to read or to hear."""
    return min((o["first"] for o in outputs.values() if o["base"] == base and o["elements"]), default=None)


def _after(time: float | None, submitted: float) -> float | None:
    return None if time is None else round(time - submitted, 6)


def hold_of(request: Request) -> str:
    """Which outputs the request's own listener holds back, where nobody can let them go on."""
    held = [outlet for outlet in request.outlets.values() if outlet.is_full and outlet.writer is not None]
    names = " and ".join(f"output {spec.name} ({spec.node}.{spec.port})" for spec in (each.spec for each in held))
    return (
        f"{held[0].spec.place}: its listener holds {names} back, and nobody can let it go on while `run` waits: "
        "use `stream`, or `submit` and `step`"
    )


def stall_of(request: Request, lost: Sequence[Lost] = ()) -> str:
    """What a request that can never go on waits for: the deepest waiting node and the edge it waits at.

    One that has waited long enough for room which a lost call may hold waits for that.
    """
    for node in request.roomless:
        call = next((call for call in lost if call.holds_cache_of(node.expert)), None)
        if call is not None:
            return (
                f"{node.spec.place}: node {node.spec.id} waits for room in its cache, and a call of its expert that "
                f"has not answered for {call.seconds:g} s may hold it"
            )
    for run in reversed(request.runs.values()):
        for lane in run.lanes.values():
            spec = run.bound.spec
            if run.num_full:
                full = [ch.id for chs in run.outputs.values() for ch in chs if ch.is_full]
                return f"{spec.place}: node {spec.id} waits for ever: nobody takes from {', '.join(full)}"
            if lane.waits_on is not None:
                edges = [ch for ch in run.inputs.get(lane.waits_on, []) if not ch.is_ended]
                where = f"{edges[0].spec.place}: edge {edges[0].id}" if edges else f"its {lane.waits_on}"
                return f"{spec.place}: node {spec.id} waits for ever for {where}"
    return "it waits for ever"
