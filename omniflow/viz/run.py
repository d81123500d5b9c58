"""A run record as the graph needs it: what each node and each edge took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omniflow_compiler.schedule import Schedule

from omniflow.viz.model import DrawError, LinkRun, VertexRun


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTotals:
    """Units that ran at a node, the seconds they took together, and the rows of the batches they ran in."""

    units: int
    seconds: float
    width: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeTotals:
    """What went over an edge."""

    chunks: int
    elements: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Totals per node id and per channel id. `schedule` is the hash of what ran, empty when the record has none."""

    source: str
    schedule: str
    nodes: Mapping[str, NodeTotals]
    edges: Mapping[str, EdgeTotals]

    def check_matches(self, schedule: Schedule) -> None:
        """Errors: DrawError when the record is of another schedule or names nodes that this one does not have."""
        known = {node.id for node in schedule.nodes}
        strangers = sorted(set(self.nodes) - known)
        if strangers:
            raise DrawError(
                f"{self.source}: this run has a node `{strangers[0]}` that program `{schedule.program}` has not; "
                "draw it with the program that was run"
            )

    def vertex(self, node_id: str) -> VertexRun | None:
        """The node's totals and its share of the busy time; None for a node that did not run."""
        totals = self.nodes.get(node_id)
        if totals is None:
            return None
        busy = sum(other.seconds for other in self.nodes.values())
        share = totals.seconds / busy if busy > 0 else 0.0
        return VertexRun(units=totals.units, seconds=totals.seconds, share=share, width=totals.width)

    def link(self, channel_id: str) -> LinkRun | None:
        """The edge's totals and its bytes over those of the busiest edge; None for an edge that carried nothing."""
        totals = self.edges.get(channel_id)
        if totals is None:
            return None
        most = max(other.bytes for other in self.edges.values())
        share = totals.bytes / most if most > 0 else 0.0
        return LinkRun(chunks=totals.chunks, elements=totals.elements, bytes=totals.bytes, share=share)
