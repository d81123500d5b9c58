"""Counters of an engine by the names that Prometheus expects, added up when batches and requests end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omniflow.loops.base import Unit
from omniflow.node import expert_of

if TYPE_CHECKING:
    from omniflow.engine import Engine
    from omniflow.request import Request

Labels = tuple[tuple[str, str], ...]

HELP = {
    "omniflow_requests_total": "Requests that ended, by state.",
    "omniflow_batches_total": "Batches that ran, by kind of their first unit and expert.",
    "omniflow_batch_units_total": "Units in those batches.",
    "omniflow_batch_seconds_total": "Seconds that those batches took.",
    "omniflow_preemptions_total": "How often requests that ended gave up room in a cache.",
    "omniflow_preempted_units_total": "Units that were computed in vain before.",
    "omniflow_units_total": "Units of requests that ended, by node and kind.",
    "omniflow_output_elements_total": "Elements that left by outputs of requests that ended: characters, samples.",
    "omniflow_first_output_seconds_sum": "Seconds from submission to an output's first piece, added up.",
    "omniflow_first_output_seconds_count": "How many first pieces there were.",
    "omniflow_queue_depth": "Requests that wait.",
    "omniflow_queue_bytes": "Bytes of their inputs.",
    "omniflow_requests_running": "Requests in work.",
    "omniflow_open_sequences": "Sequences that hold cache, by expert.",
    "omniflow_cache_tokens_used": "Tokens of cache that are leased, by expert.",
    "omniflow_cached_total": "Tokens (of encoders: items) that requests found computed before, by node.",
    "omniflow_kept_sequences": "Finished sequences that prompts may begin with, by expert.",
    "omniflow_kept_feature_bytes": "Bytes of encoders' inputs and features that are kept, by cache.",
}
GAUGES = frozenset(name for name in HELP if not name.endswith(("_total", "_sum", "_count")))


@dataclass(slots=True)
class Batches:
    """Batches of one kind on one component."""

    count: int = 0
    units: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Heard:
    """What left by one output, and how long its first pieces took."""

    elements: int = 0
    seconds: float = 0.0
    count: int = 0


class Metrics:
    """Totals since the engine was made."""

    def __init__(self) -> None:
        self.totals: Counter[tuple[str, Labels]] = Counter()
        self.batches: dict[tuple[str, str], Batches] = {}  # by component and kind
        self.units: dict[tuple[str, str], int] = {}  # by kind and node
        self.outputs: dict[str, Heard] = {}  # by name

    def batch(self, units: Sequence[Unit], seconds: float) -> None:
        """A batch ran."""
        key = expert_of(units[0]), units[0].kind
        batches = self.batches.get(key)
        if batches is None:
            batches = self.batches[key] = Batches()
        batches.count += 1
        batches.units += len(units)
        batches.seconds += seconds

    def end(self, request: Request) -> None:
        """A request ended."""
        self.totals["omniflow_requests_total", (("state", str(request.state)),)] += 1
        if request.num_evicted:
            self.totals["omniflow_preemptions_total", ()] += request.num_evicted
            self.totals["omniflow_preempted_units_total", ()] += request.units_evicted
        for run in request.nodes:
            node = run.bound.spec.id
            if run.count.cached:
                self.totals["omniflow_cached_total", (("node", node),)] += run.count.cached
            for (_, kind), spent in run.count.spent.items():
                self.units[kind, node] = self.units.get((kind, node), 0) + spent.units
        for name, outlet in request.outlets.items():
            heard = self.outputs.get(name)
            if heard is None:
                heard = self.outputs[name] = Heard()
            heard.elements += outlet.num_elements
            if outlet.first is not None:
                heard.seconds += outlet.first - request.submitted
                heard.count += 1

    def render(self, engine: Engine) -> str:
        """The text format of Prometheus, with the engine's gauges as they are now."""
        totals = dict(self.totals)  # a copy: another thread may be stepping
        samples: list[tuple[str, Labels, float]] = [(name, labels, n) for (name, labels), n in totals.items()]
        samples += self._batches()
        samples += self._requests()
        samples += _gauges(engine)
        lines = []
        for name in HELP:
            found = sorted((labels, value) for other, labels, value in samples if other == name)
            if found:
                kind = "gauge" if name in GAUGES else "counter"
                lines += [f"# HELP {name} {HELP[name]}", f"# TYPE {name} {kind}"]
                lines += [f"{name}{_braces(labels)} {value:.10g}" for labels, value in found]
        return "\n".join(lines) + "\n"

    def _batches(self) -> Iterator[tuple[str, Labels, float]]:
        for (expert, kind), batches in list(self.batches.items()):
            labels = (("expert", expert), ("kind", kind))
            yield "omniflow_batches_total", labels, batches.count
            yield "omniflow_batch_units_total", labels, batches.units
            yield "omniflow_batch_seconds_total", labels, batches.seconds

    def _requests(self) -> Iterator[tuple[str, Labels, float]]:
        for (kind, node), count in list(self.units.items()):
            yield "omniflow_units_total", (("kind", kind), ("node", node)), count
        for name, heard in list(self.outputs.items()):
            labels = (("output", name),)
            yield "omniflow_output_elements_total", labels, heard.elements
            if heard.count:
                yield "omniflow_first_output_seconds_sum", labels, heard.seconds
                yield "omniflow_first_output_seconds_count", labels, heard.count


def _gauges(engine: Engine) -> list[tuple[str, Labels, float]]:
    found: list[tuple[str, Labels, float]] = [
        ("omniflow_queue_depth", (), len(engine.lobby.queue)),
        ("omniflow_queue_bytes", (), engine.lobby.queue.num_bytes),
        ("omniflow_requests_running", (), len(engine.running)),
    ]
    for name, cache in engine.bound.stores.features.items():
        found.append(("omniflow_kept_feature_bytes", (("cache", name),), cache.num_bytes))
    for pool in engine.bound.pools.pools:
        found.append(("omniflow_open_sequences", (("expert", pool.name),), pool.live))
        if pool.reuse is not None:
            found.append(("omniflow_kept_sequences", (("expert", pool.name),), pool.num_kept))
        if pool.num_used is not None:
            found.append(("omniflow_cache_tokens_used", (("expert", pool.name),), pool.num_used))
    return found


def _braces(labels: Labels) -> str:
    def quoted(value: str) -> str:
        return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

    return "{" + ",".join(f'{key}="{quoted(value)}"' for key, value in labels) + "}" if labels else ""
