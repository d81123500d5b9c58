"""A world goes on chunk by chunk behind its past: as by hand, whoever else is in work, and from turn to turn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import pytest
import torch
from torch import Tensor

import omniflow
from omniflow import Engine, Result, State
from omniflow.experts.null_world import NullWorld
from omniflow.rng import Source
from omniflow.roles import ChunkRow
from omniflow.stream import Piece
from omniflow.verification.cases import Case
from omniflow.verification.verify import verify
from tests.house.process import ROOT

PROGRAM = ROOT / "specs" / "null" / "world.program.yaml"
WINDOW, STEPS = 4, 3


@cache
def schedule() -> omniflow.Schedule:
    return omniflow.compile(PROGRAM, params={"steps": str(STEPS), "chunks": "12"})


def inputs(num_chunks: int, seed: int = 0) -> dict[str, object]:
    actions = torch.randint(-1, 2, (num_chunks, 3), generator=torch.Generator().manual_seed(seed)).float()
    return {"prompt": f"a house by the sea, number {seed}", "actions": actions}


def chunks_of(result: Result) -> Sequence[Tensor]:
    frames = result.outputs["video"]
    return frames.split(2) if len(frames) else ()


def video(engine: Engine, values: dict[str, object], seed: int = 5, session: int | None = None) -> Sequence[Tensor]:
    result = engine.run(values, seed=seed, session=session)
    assert result.state is State.DONE, result.error
    return chunks_of(result)


def by_hand(engine: Engine, values: dict[str, object], seed: int) -> list[Tensor]:
    """The same world chunk after chunk, one row at a time."""
    world, screen = engine.bound.experts["world"], engine.bound.experts["screen"]
    tokens = torch.tensor(engine.bound.experts["tokenizer"].encode(values["prompt"]))
    (read,) = engine.bound.experts["encoder"].encode([{"tokens": tokens}])
    given, rng = {"condition": read["embeds"]}, Source(seed, "roll", 0)
    kept: list[Tensor] = []
    frames = []
    for index, action in enumerate(values["actions"]):  # type: ignore[arg-type, var-annotated]
        x = world.initial(given, generator=rng.generator(index, "chunk"))
        row = ChunkRow(x, 0.0, tuple(kept[-WINDOW:]), index, given, action)
        times = torch.linspace(0, 1, STEPS + 1).tolist()
        for begin, end in pairwise(times):
            (velocity,) = world.velocity([row._replace(latent=x, time=begin)])
            x = x + float(torch.tensor(end - begin)) * velocity
        frames += screen.decode_tiles([x])
        kept += world.keep([row._replace(latent=x, time=1.0)])
    return frames


def equal(found: Sequence[Tensor], expected: Sequence[Tensor]) -> bool:
    return len(found) == len(expected) and all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_a_world_is_what_its_expert_makes_chunk_after_chunk() -> None:
    engine, values = omniflow.load(schedule()), inputs(7)
    assert equal(video(engine, values), by_hand(engine, values, 5))
    assert engine.live == 0


def test_chunks_and_times_of_many_worlds_share_forwards_and_change_no_bit() -> None:
    engine = omniflow.load(schedule(), trace=True)
    cases = [inputs(2 + 3 * i, i) for i in range(4)]
    ids = [engine.submit(case, seed=i) for i, case in enumerate(cases)]
    while not engine.is_idle:
        engine.step()
    for i, (number, case) in enumerate(zip(ids, cases, strict=True)):
        result = engine.result(number)
        assert result is not None
        assert equal(chunks_of(result), by_hand(engine, case, i))
    assert engine.trace is not None
    assert max(event.width for event in engine.trace.units if event.kind == "chunk_step") == len(cases)


def test_a_chunk_is_shown_as_soon_as_it_is_denoised() -> None:
    engine, heard = omniflow.load(schedule()), list[int]()

    def hear(piece: Piece) -> None:
        (request,) = engine.running.values()
        heard.append(next(run for run in request.nodes if run.bound.spec.id == "roll").count.num_units)

    engine.submit(inputs(5), listener=hear)
    while not engine.is_idle:
        engine.step()
    assert sorted(set(heard)) == [STEPS + i * (STEPS + 1) for i in range(5)]


def test_a_chunk_depends_on_its_action_and_on_the_window_behind_it_alone() -> None:
    engine, values = omniflow.load(schedule()), inputs(8)
    plain = video(engine, values)
    changed = {**values, "actions": values["actions"].clone()}  # type: ignore[attr-defined]
    changed["actions"][2] += 1.0  # type: ignore[index]
    other = video(engine, changed)
    assert [torch.equal(a, b) for a, b in zip(plain, other, strict=True)][:3] == [True, True, False]


def test_the_world_ends_with_the_actions_or_at_its_most_chunks() -> None:
    engine = omniflow.load(schedule())
    assert len(video(engine, inputs(3))) == 3
    assert len(video(engine, inputs(20))) == 12
    result = engine.run(inputs(20), params={"roll.chunks": 2})
    assert len(chunks_of(result)) == 2
    assert result.record["nodes"]["roll"]["reasons"] == {"bound": 1}
    assert chunks_of(engine.run(inputs(0))) == ()


def test_turns_of_a_session_go_on_as_one_world() -> None:
    engine, values = omniflow.load(schedule()), inputs(9)
    whole, session = video(engine, values), engine.session()
    parts: list[Tensor] = []
    for first, end in ((0, 4), (4, 5), (5, 9)):
        turn = {**values, "actions": values["actions"][first:end]}  # type: ignore[index]
        parts += video(engine, turn, session=session)
    assert equal(parts, whole)
    assert engine.kept == 1
    assert engine.lobby.sessions.num_bytes == WINDOW * 4 * 4 * 2 * 8 * 8  # the window and no more
    engine.close_session(session)
    assert engine.kept == 0


def test_a_turn_that_is_cancelled_leaves_the_world_as_it_was() -> None:
    engine, values = omniflow.load(schedule()), inputs(6)
    session, other = engine.session(), engine.session()
    for each in (session, other):
        video(engine, values, session=each)
    cancelled = engine.submit(inputs(8, 3), session=session)
    for _ in range(12):
        engine.step()
    engine.cancel(cancelled)
    while not engine.is_idle:
        engine.step()
    result = engine.result(cancelled)
    assert result is not None
    assert result.state is State.CANCELLED
    assert equal(video(engine, inputs(3, 4), session=session), video(engine, inputs(3, 4), session=other))


@pytest.mark.parametrize(
    ("method", "said"), [("velocity", "a velocity [4, 1] of a latent"), ("keep", "values that are not numbers")]
)
def test_an_expert_that_errs_in_one_row_fails_its_request_and_no_other(
    method: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = omniflow.load(schedule())
    world: NullWorld = engine.bound.experts["world"]
    real = getattr(world, method)

    def broken(rows: Sequence[ChunkRow]) -> list[Tensor]:
        spoilt = torch.zeros(4, 1) if method == "velocity" else torch.full((4, 2, 8, 8), torch.nan)
        return [spoilt if row.number == 2 else value for row, value in zip(rows, real(rows), strict=True)]

    expected = by_hand(engine, inputs(2, 1), 1)
    monkeypatch.setattr(world, method, broken)
    short, long = engine.submit(inputs(2, 1), seed=1), engine.submit(inputs(6, 2), seed=2)
    while not engine.is_idle:
        engine.step()
    well, ill = engine.result(short), engine.result(long)
    assert well is not None
    assert ill is not None
    assert (well.state, ill.state) == (State.DONE, State.FAILED)
    assert said in str(ill.error)
    assert len(ill.outputs.get("video", ())) < 12
    assert equal(chunks_of(well), expected)
    assert engine.live == 0


def test_every_mode_gives_the_same_world() -> None:
    cases = [Case(inputs=inputs(2 + i, i), seed=i) for i in range(4)]
    rows = list(verify(schedule(), cases, pruned=lambda output: None))
    assert "sessions" in {row.mode for row in rows}
    assert all(row.holds for row in rows), [row.mode for row in rows if not row.holds]
