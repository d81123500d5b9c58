"""A request: what it was asked, where it is, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import torch

from omniflow.admission import bytes_of
from omniflow.batcher import Readiness
from omniflow.bounds import MOST_TOKENS, evaluate, most_tokens
from omniflow.loops.ar_decode import POOL, TURN
from omniflow.loops.base import Memory
from omniflow.node import BoundNode, NodeRun
from omniflow.sessions import Session
from omniflow.stream import Outlet, Piece
from omniflow.values import Value
from omniflow_compiler.schedule import Node


class State(StrEnum):
    """Where a request is; the last four are ends, of which it reaches exactly one."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REFUSED = "refused"

    @property
    def is_end(self) -> bool:
        return self not in (State.QUEUED, State.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a request ended: outputs by name, its record, its error line.

    Outputs hold all of it when done, otherwise what came; the record says which of them are whole.
    """

    id: int
    state: State
    outputs: Mapping[str, Value]
    record: Mapping[str, Any]
    error: str | None
    behaviour: Mapping[str, Any] = field(default_factory=dict)  # under `rollout`: per loop node, a record per item


MAX_EVICTED = 4  # after so many times a request keeps what it has


class Request:
    """One request. Made when it is submitted; its nodes and channels exist only while it runs."""

    def __init__(
        self,
        request_id: int,
        *,
        inputs: Mapping[str, Value],
        seed: int,
        generator: torch.Generator | None = None,
        params: Mapping[str, Mapping[str, Any]],
        submitted: float,
        deadline: float | None,
        priority: int,
        rollout: bool,
        keep: bool,
        listener: Callable[[Piece], None] | None,
        outputs: Collection[str],
        session: Session | None = None,
    ) -> None:
        self.id = request_id
        self.inputs = inputs
        self.seed = seed
        self.generator = generator  # all its draws, node after node; None derives each draw from where it is made
        self.params = params
        self.submitted = submitted
        self.deadline = deadline  # seconds after that
        self.priority = priority
        self.num_bytes = bytes_of(inputs)
        self.started: float | None = None
        self.ended: float | None = None
        self.rollout = rollout
        self.keep = keep
        self.listener = listener
        self.session = session  # whose turn it is
        self.wanted = outputs  # names of outputs
        self.memories: dict[str, Memory] = {}  # by node: the session's, once this is done
        self.state = State.QUEUED
        self.error: str | None = None
        self.runs: dict[str, NodeRun] = {}  # by node id, in topological order
        self.readiness = Readiness(0, {})
        self.num_open = 0  # nodes that have not finished
        self.outlets: dict[str, Outlet] = {}
        self.errors: dict[str, str] = {}  # of nodes that failed, the first one first
        self.num_evicted = 0  # how often it gave up room in a cache
        self.units_then = 0  # how many units it had run when it did so last
        self.is_spared = False  # it waited so long for its room that nobody takes it away again
        self.units_evicted = 0  # units that were computed in vain
        self.behaviour: dict[str, list[Any]] = {}

    def is_evictable(self, expert: Any, *, is_stalled: bool = False) -> bool:
        """Whether it may hold sequences of that expert and can give them back; nobody has to for ever.

        Where all is stalled it may have to again each time that it has come further.
        """
        is_done = self.num_evicted >= MAX_EVICTED and not (is_stalled and self.num_units > self.units_then)
        if self.is_spared or is_done:
            return False
        if any(lane.is_stuck for run in self.nodes for lane in run.lanes.values()):
            return False
        return self.holds_cache_of(expert)

    def holds_cache_of(self, expert: Any) -> bool:
        """Whether it has room in that expert's cache."""
        return any(run.bound.expert is expert and run.may_hold_cache for run in self.nodes)

    @property
    def roomless(self) -> list[BoundNode]:
        """Its nodes that wait for room in their expert's cache, or for their turn to gather some."""
        lanes = (lane for run in self.nodes for lane in run.lanes.values())
        return [lane.node.bound for lane in lanes if lane.waits_on in (POOL, TURN)]

    @property
    def missing(self) -> list[Any]:
        """The experts of those nodes."""
        return [node.expert for node in self.roomless]

    @property
    def num_units(self) -> int:
        """Units that have run, of all its nodes."""
        return sum(run.count.num_units for run in self.nodes)

    def give_way(self) -> None:
        """It loses room to another request, or to itself."""
        self.num_evicted += 1
        self.units_then = max(self.units_then, self.num_units)

    def begin_anew(self) -> None:
        """Back to where it was submitted; what clients have been told stays told."""
        self.units_evicted += self.num_units
        self.state = State.QUEUED
        self.runs, self.num_open, self.behaviour, self.errors = {}, 0, {}, {}
        while self.memories:
            self.memories.popitem()[1].let_go()
        if self.generator is not None:
            self.generator.manual_seed(self.seed)

    def lose(self, failed: NodeRun) -> list[NodeRun]:
        """Marks the outputs that depend on a node that failed; gives the nodes in work that no other output needs."""
        behind = failed.bound.downstream | 1 << failed.bound.index
        needed = 0
        for outlet in self.outlets.values():
            if outlet.writer is not None and behind >> outlet.writer.bound.index & 1:
                outlet.is_lost = True
            if outlet.writer is not None and not outlet.is_lost:
                needed |= 1 << outlet.writer.bound.index
        return [
            run
            for run in self.nodes
            if not run.is_finished and not needed & (run.bound.downstream | 1 << run.bound.index)
        ]

    @property
    def is_held_back(self) -> bool:
        """Whether its client must read before it can go on."""
        return any(outlet.is_full for outlet in self.outlets.values())

    @property
    def nodes(self) -> Collection[NodeRun]:
        """Its nodes, in topological order."""
        return self.runs.values()

    def memory_of(self, node: Node) -> Value:
        """What the turn before has left to a node; None without one."""
        memory = None if self.session is None else self.session.memories.get(node.id)
        return None if memory is None else memory.value

    def goes_on(self, nodes: Collection[str]) -> bool:
        """Whether one of the nodes has something of the turn before."""
        return self.session is not None and not self.session.memories.keys().isdisjoint(nodes)

    def params_of(self, node: Node) -> Mapping[str, Any]:
        """The node's attributes with the request's own over them; a token bound that depends on others is the largest

        that it can become. Errors: ValueError.
        """
        own = self.params.get(node.id)
        params = {**node.attributes, **own} if own else node.attributes
        if isinstance(params.get(MOST_TOKENS), str):
            nodes = {node_id: run.bound.spec for node_id, run in self.runs.items()}
            return {**params, MOST_TOKENS: most_tokens(node, nodes, self._written)}
        return params

    def seed_of(self, node: Node) -> int:
        """The seed of a node's draws: the request's, unless it gave the node one of its own."""
        return int(self.params.get(node.id, {}).get("seed", self.seed))

    def bound_of(self, node: Node) -> Callable[[], int | None] | None:
        """Tells the node's exact token bound, or None until what it depends on has ended; None for a plain number."""
        text = self._written(node).get(MOST_TOKENS)
        if not isinstance(text, str):
            return None
        ports = {name: port.rpartition(".") for name, port in node.lengths.items()}

        def exact() -> int | None:
            sources = {name: self.runs[source] for name, (source, _, _) in ports.items()}
            if not all(run.is_finished for run in sources.values()):
                return None
            return evaluate(text, {name: run.count.emitted.get(ports[name][2], 0) for name, run in sources.items()})

        return exact

    def _written(self, node: Node) -> Mapping[str, Any]:
        return {**node.attributes, **self.params.get(node.id, {})}
