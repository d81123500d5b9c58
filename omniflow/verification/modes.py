"""The modes a program must not care about. Each runs the cases its own way and gives a result per case."""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from omniflow.batcher import Limits
from omniflow.engine import Engine
from omniflow.loading import load
from omniflow.pool import Pooled
from omniflow.request import Result
from omniflow.verification.cases import Case
from omniflow_compiler.reader import read_schedule
from omniflow_compiler.schedule import Schedule

Outcome = list[Result | None]  # by case; None for a request that the mode cancelled on purpose
Run = Callable[[Schedule, Sequence[Case], Limits], Outcome]
MAX_STEPS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """A way to run. `is_exact` modes keep batch widths as in the baseline, so every bit must agree, unless the mode

    `shares` prefixes among requests: a prompt may be cut elsewhere then. `fits` tells whether a program has what the
    mode is about; `baseline` is what it is compared with, by default the serial run.
    """

    name: str
    run: Run
    is_exact: bool = False
    shares: bool = False
    fits: Callable[[Schedule], bool] | None = None
    baseline: Run | None = None

    def owes_bits(self, schedule: Schedule) -> bool:
        """Whether nothing but equal bits will do."""
        return self.is_exact and not (self.shares and keeps_prefixes(schedule))


def keeps_prefixes(schedule: Schedule) -> bool:
    """Whether prompts may begin with what others have cached."""
    return any(cache.reuse for cache in schedule.caches)


def keeps_anything(schedule: Schedule) -> bool:
    """Whether what a request computed may serve another one."""
    return keeps_prefixes(schedule) or any(cache.kind == "features" for cache in schedule.caches)


def keeps_sessions(schedule: Schedule) -> bool:
    """Whether a request may go on from the one before."""
    return any(node.attributes.get("session") is True for node in schedule.nodes)


def _fresh(schedule: Schedule, limits: Limits, profile: str = "serve") -> Engine:
    """An engine with cold caches: experts are of the process, and so is what is kept of them."""
    engine = load(schedule, limits=limits, profile=profile)
    engine.bound.stores.drop()
    return engine


def _cold(engine: Engine, cases: Sequence[Case]) -> Outcome:
    """One request after another, each before cold caches."""
    outcome: Outcome = []
    for case in cases:
        engine.bound.stores.drop()
        outcome.append(engine.run(case.inputs, seed=case.seed))
    return outcome


def serial(schedule: Schedule, cases: Sequence[Case], limits: Limits) -> Outcome:
    """One request after another: what most other modes are compared with."""
    return _cold(_fresh(schedule, limits), cases)


def interleaved(schedule: Schedule, cases: Sequence[Case], limits: Limits) -> Outcome:
    """Requests in work together, but each unit computed alone."""
    return _together(schedule, cases, replace(limits, width=1))


def batched(width: int) -> Mode:
    """Batches of at most `width` rows."""

    def run(schedule: Schedule, cases: Sequence[Case], limits: Limits) -> Outcome:
        return _together(schedule, cases, replace(limits, width=width))

    return Mode(name=f"batched, width {width}", run=run)


def ragged(schedule: Schedule, cases: Sequence[Case], limits: Limits) -> Outcome:
    """A new request every few steps, so that batches mix prompts, tokens and ends."""
    engine = _fresh(schedule, limits)
    chance = random.Random(5)  # noqa: S311  arrivals, not secrets
    ids: list[int] = []
    for case in cases:
        ids.append(engine.submit(case.inputs, seed=case.seed))
        for _ in range(chance.randrange(1, 7)):
            engine.step()
    return _finish(engine, ids)


def cancelled(schedule: Schedule, cases: Sequence[Case], limits: Limits) -> Outcome:
    """Every other request is cancelled after a number of steps of its own; the others must not notice."""
    engine = _fresh(schedule, limits)
    ids = [engine.submit(case.inputs, seed=case.seed) for case in cases]
    chance = random.Random(11)  # noqa: S311  cancels, not secrets
    victims = {i: chance.randrange(1, 60) for i in ids[1::2]}
    step = 0
    while not engine.is_idle and step < MAX_STEPS:
        for victim, at in victims.items():
            if at == step:
                engine.cancel(victim)
        engine.step()
        step += 1
    return [None if i in victims else engine.result(i) for i in ids]


def whole(schedule: Schedule, cases: Sequence[Case], limits: Limits) -> Outcome:
    """Streams are not cut: every decoder sees an item at once."""
    all_of_it = 1 << 30
    channels = tuple(
        replace(c, chunk=all_of_it, first_chunk=all_of_it, left_context=0, right_context=0) if c.chunk else c
        for c in schedule.channels
    )
    return serial(replace(schedule, channels=channels), cases, limits)


def rollout(schedule: Schedule, cases: Sequence[Case], limits: Limits) -> Outcome:
    """Behaviour is recorded for a trainer; what comes out is the same."""
    return _cold(_fresh(schedule, limits, profile="rollout"), cases)


def warm(schedule: Schedule, cases: Sequence[Case], limits: Limits) -> Outcome:
    """Each request a second time, when caches hold what it and the others have left there."""
    engine = _fresh(schedule, limits)
    for _ in range(2):
        outcome: Outcome = [engine.run(case.inputs, seed=case.seed) for case in cases]
    return outcome


def conversations(schedule: Schedule, cases: Sequence[Case], limits: Limits) -> Outcome:
    """Each request as the second turn of a session whose first is the request before; all sessions at once."""
    engine = _fresh(schedule, limits)
    ids = []
    for before, case in _turns(cases):
        session = engine.session()
        engine.submit(before.inputs, seed=before.seed, session=session, keep=False)
        ids.append(engine.submit(case.inputs, seed=case.seed, session=session))
    return _finish(engine, ids)


def recomputed(schedule: Schedule, cases: Sequence[Case], limits: Limits) -> Outcome:
    """The same turns one after another, of which the second reads all that was said before anew."""
    engine = _fresh(schedule, limits)
    outcome: Outcome = []
    for before, case in _turns(cases):
        session = engine.session()
        for turn in (before, case):
            engine.bound.stores.drop()
            result = engine.run(turn.inputs, seed=turn.seed, session=session)
        outcome.append(result)
        engine.close_session(session)
    return outcome


def _turns(cases: Sequence[Case]) -> Iterator[tuple[Case, Case]]:
    return ((cases[i - 1], case) for i, case in enumerate(cases))


def crowded(schedule: Schedule, cases: Sequence[Case], limits: Limits) -> Outcome:
    """Caches that hold the largest request and no more, and requests of ever higher priority: each that is in work
    loses its room to the next, begins anew later, and must lose nothing else.
    """
    engine = _fresh(_tight(schedule, cases, limits), limits)
    ids: list[int] = []
    for priority, case in enumerate(cases):
        ids.append(engine.submit(case.inputs, seed=case.seed, priority=priority))
        for _ in range(STEPS_BETWEEN):
            engine.step()
    return _finish(engine, ids)


STEPS_BETWEEN = 12  # enough for a request to have taken its room, not to have gone through


def _tight(schedule: Schedule, cases: Sequence[Case], limits: Limits) -> Schedule:
    """The schedule with paged caches as small as the most that one of the cases holds when it runs alone."""
    engine = _fresh(schedule, limits)
    share: dict[str, float] = {}  # of each expert's cache
    for case in cases:
        engine.bound.stores.drop()
        engine.submit(case.inputs, seed=case.seed, keep=False)
        while not engine.is_idle:
            engine.step()
            for pool in engine.bound.pools.pools:
                if pool.num_used is not None and isinstance(pool.expert, Pooled):
                    share[pool.name] = max(share.get(pool.name, 0.0), pool.num_used / pool.expert.arena.num_tokens)
    needed: dict[str, float] = {}  # of each cache
    for node in schedule.nodes:
        bindings = [(node.expert, node.cache), *([(node.inner.expert, node.inner.cache)] if node.inner else [])]
        for expert, cache in bindings:
            if expert is not None and cache is not None:
                needed[cache] = max(needed.get(cache, 0.0), share.get(expert, 1.0))
    small = tuple(
        replace(cache, max_bytes=math.ceil(cache.max_bytes * needed.get(cache.name, 1.0))) for cache in schedule.caches
    )
    return replace(schedule, caches=small)


def reloaded(schedule: Schedule, cases: Sequence[Case], limits: Limits) -> Outcome:
    """The schedule written to a file and read back."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "verify.schedule.json"
        path.write_text(schedule.to_json(), encoding="utf-8")
        return serial(read_schedule(path), cases, limits)


def _together(schedule: Schedule, cases: Sequence[Case], limits: Limits) -> Outcome:
    engine = _fresh(schedule, limits)
    return _finish(engine, [engine.submit(case.inputs, seed=case.seed) for case in cases])


def _finish(engine: Engine, ids: Sequence[int]) -> Outcome:
    for _ in range(MAX_STEPS):
        if engine.is_idle:
            break
        engine.step()
    return [engine.result(i) for i in ids]


BASELINE = Mode(name="serial", run=serial, is_exact=True)
MODES = (
    Mode(name="serial again", run=serial, is_exact=True),
    Mode(name="interleaved", run=interleaved, is_exact=True, shares=True),
    batched(2),
    batched(3),
    batched(8),
    Mode(name="ragged arrivals", run=ragged),
    Mode(name="neighbours cancelled", run=cancelled),
    Mode(name="whole instead of streamed", run=whole),
    Mode(name="rollout profile", run=rollout, is_exact=True),
    Mode(name="crowded caches", run=crowded),
    Mode(name="warm caches", run=warm, fits=keeps_anything),
    Mode(name="sessions", run=conversations, fits=keeps_sessions, baseline=recomputed),
    Mode(name="schedule from disk", run=reloaded, is_exact=True),
)
