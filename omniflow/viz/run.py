"""A run record (`run.json` of `omniflow run`) as the graph needs it: what each node took and what left its ports."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import log1p
from pathlib import Path
from typing import Any

from omniflow.viz.model import DrawError, LinkRun, VertexRun
from omniflow_compiler.schedule import Schedule

MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTotals:
    """Units that ran at a node, their seconds, elements that left by port, and when its first and last unit ended."""

    units: int
    seconds: float
    emitted: Mapping[str, int]
    first: float | None
    last: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run: totals per node id, elements per program output. `name` is the file's, for messages."""

    name: str
    program: str
    schedule: str
    state: str
    seconds: float
    nodes: Mapping[str, NodeTotals]
    outputs: Mapping[str, int]

    def check_matches(self, schedule: Schedule) -> None:
        """Errors: DrawError when the record is of another program or names nodes that this one does not have."""
        if self.program != schedule.program:
            raise DrawError(f"{self.name}: a run of `{self.program}`, not of `{schedule.program}`; draw what was run")
        strangers = sorted(set(self.nodes) - {node.id for node in schedule.nodes})
        if strangers:
            raise DrawError(
                f"{self.name}: the run has a node `{strangers[0]}` that this graph has not; "
                "draw the same version of the program, with the same --outputs"
            )

    def vertex(self, node_id: str) -> VertexRun | None:
        """The node's totals and its share of the busy time; None for a node that did not run."""
        totals = self.nodes.get(node_id)
        if totals is None:
            return None
        busy = sum(other.seconds for other in self.nodes.values())
        share = totals.seconds / busy if busy > 0 else 0.0
        return VertexRun(units=totals.units, seconds=totals.seconds, share=share, first=totals.first, last=totals.last)

    def port(self, node_id: str, port: str) -> LinkRun | None:
        """The elements that left a port; None where nothing was counted."""
        totals = self.nodes.get(node_id)
        return None if totals is None else self._volume(totals.emitted.get(port))

    def output(self, name: str) -> LinkRun | None:
        """The elements that left the program by an output."""
        return self._volume(self.outputs.get(name))

    def _volume(self, elements: int | None) -> LinkRun | None:
        if elements is None:
            return None
        most = max((n for node in self.nodes.values() for n in node.emitted.values()), default=0)
        return LinkRun(elements=elements, weight=min(1.0, log1p(elements) / log1p(most)) if most else 0.0)


def read_run(path: Path) -> Run:
    """The run record in a file. Errors: DrawError when it cannot be read or is something else."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DrawError(f"{path}: too large for a run record")
        body = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DrawError(f"{path}: cannot be read: {(error.strerror or 'error').lower()}") from None
    except (ValueError, RecursionError):
        raise DrawError(f"{path}: not a run record: not valid JSON") from None
    if not isinstance(body, dict) or body.get("kind") != "run":
        raise DrawError(f"{path}: not a run record; `omniflow run` writes one as run.json")
    if body.get("format") != 1:
        raise DrawError(f"{path}: a run record of format {body.get('format')!r}; this version reads format 1")
    try:
        return _parse(path, body)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DrawError(f"{path}: not a whole run record; run the program again") from None


def _parse(path: Path, body: Mapping[str, Any]) -> Run:
    return Run(
        name=str(path),
        program=str(body["program"]),
        schedule=str(body["schedule"]),
        state=str(body["state"]),
        seconds=float(body["seconds"]),
        nodes={str(name): _totals(node) for name, node in body["nodes"].items()},
        outputs={str(name): int(output["elements"]) for name, output in body["outputs"].items()},
    )


def _totals(node: Mapping[str, Any]) -> NodeTotals:
    return NodeTotals(
        units=sum(int(count) for count in node["units"].values()),
        seconds=float(node["seconds"]),
        emitted={str(port): int(elements) for port, elements in node["emitted"].items()},
        first=None if node["first"] is None else float(node["first"]),
        last=None if node["last"] is None else float(node["last"]),
    )
