"""`omniflow verify` on every program of the catalogue, as enumerated: a new one needs a way to be verified."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import torch

import omniflow
from omniflow.bind import LOOPS
from omniflow.catalog import catalog
from omniflow.verification.cases import Case
from omniflow.verification.compare import compare_outputs
from omniflow.verification.verify import Row, verify
from omniflow_compiler.schedule import Schedule
from tests.verify.ways import CHECKPOINTS, WAYS

PROGRAMS = [name for name, path in catalog().items() if path.name.endswith(".program.yaml")]
INVARIANT = (
    "null.columns",
    "null.frames",
    "null.score",
    "null.speech",
    "null.image",
    "null.world",
)  # every kind of loop among them
Folders = Callable[[str], Path]


def marked(name: str) -> object:
    """The program as a test's parameter, with the marks of what it needs."""
    way = WAYS.get(name)
    marks = [pytest.mark.hf] if way is not None and way.checkpoint else []
    marks += [pytest.mark.weights, pytest.mark.heavy] if way is not None and way.has_trained_weights else []
    return pytest.param(name, marks=marks)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    torch.set_num_threads(1)

    @cache
    def of(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        CHECKPOINTS[name](folder)
        return folder

    return of


class Verified:
    """A program of the catalogue over its small checkpoint, with its requests."""

    def __init__(self, name: str, folders: Folders) -> None:
        way = WAYS[name]
        self.name = name
        self.params = {**way.params, **({"weights": str(folders(way.checkpoint))} if way.checkpoint else {})}
        self.schedule = omniflow.compile(name, params=self.params)
        self.cases = [Case(inputs=inputs, seed=7 + i) for i, inputs in enumerate(way.requests())]

    def rows(self, *, batch_invariant: bool = False) -> Iterator[Row]:
        def pruned(output: str) -> Schedule:
            return omniflow.compile(self.name, outputs=[output], params=self.params)

        return verify(self.schedule, self.cases, pruned=pruned, batch_invariant=batch_invariant)

    def answers_differ(self) -> bool:
        """Whether two requests give different outputs, all of them: comparing nothing with nothing shows nothing."""
        engine = omniflow.load(self.schedule)
        one, other = (engine.run(case.inputs, seed=case.seed).outputs for case in self.cases[:2])
        return all(found.difference > 0 for found in compare_outputs(one, other))


def test_the_programs_verified_batch_invariant_have_every_kind_of_loop() -> None:
    nodes = [node for name in INVARIANT for node in omniflow.compile(name).nodes if node.kind == "loop"]
    assert {node.name for node in nodes} >= {"ar_decode", "encode", *LOOPS}
    assert any(node.inner is not None for node in nodes)


def test_every_program_of_the_catalogue_has_a_way_to_be_verified() -> None:
    assert sorted(WAYS) == sorted(PROGRAMS)


@pytest.mark.parametrize("name", [marked(name) for name in PROGRAMS])
def test_every_mode_gives_the_same_answer(folders: Folders, name: str) -> None:
    program = Verified(name, folders)
    rows = list(program.rows())
    assert len(rows) > 10
    assert program.answers_differ()
    assert [f"{row.mode}: {row.problem}" for row in rows if not row.holds] == []


@pytest.mark.parametrize("name", INVARIANT)
def test_batch_invariant_every_mode_gives_the_same_bits(folders: Folders, name: str) -> None:
    rows = list(Verified(name, folders).rows(batch_invariant=True))
    assert [f"{row.mode}: {row.problem}" for row in rows if not row.holds or row.difference] == []
