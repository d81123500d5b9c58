"""`omniflow verify` of what outlives a request: caches and sessions that were told wrong are found out."""

from __future__ import annotations

import pytest
from torch import Tensor

import omniflow
from omniflow import Schedule
from omniflow.experts.null_language import NullThinker
from omniflow.features import FeatureCache, Features, Inputs
from omniflow.loops.ar_decode import ARDecode, Decoding
from omniflow.loops.base import Memory
from omniflow.roles import SequenceState
from omniflow.verification.cases import make_cases
from omniflow.verification.verify import verify
from tests.runtime.caches.programs import paint, talk

PREFIX, SESSION = "warm caches", "sessions"


def verdicts(schedule: Schedule) -> dict[str, bool]:
    cases = make_cases(schedule, 3, [])
    return {row.mode: row.holds for row in verify(schedule, cases, pruned=lambda output: None)}


def test_caches_and_sessions_are_verified_where_a_program_has_them() -> None:
    assert {PREFIX, SESSION} & verdicts(talk(reuse=False)).keys() == set()
    assert {PREFIX, SESSION} & verdicts(talk()).keys() == {PREFIX}
    assert {PREFIX, SESSION} & verdicts(talk(loop=", session: true")).keys() == {PREFIX, SESSION}
    assert {PREFIX, SESSION} & verdicts(paint()).keys() == {PREFIX}
    assert all(verdicts(talk(loop=", session: true")).values())
    assert all(verdicts(paint()).values())


def test_a_prefix_that_is_taken_over_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = NullThinker.fork

    def fork(self: NullThinker, source: SequenceState, target: SequenceState, num_tokens: int) -> None:
        right(self, source, target, num_tokens)
        target.past.neg_()  # type: ignore[attr-defined]

    monkeypatch.setattr(NullThinker, "fork", fork)
    found = verdicts(talk())
    assert not found[PREFIX]
    assert found["serial again"]  # nobody's cache is warm there


def test_features_of_another_input_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = FeatureCache.find

    def find(self: FeatureCache, origin: object, inputs: Inputs) -> Features | None:
        found = right(self, origin, inputs)  # type: ignore[arg-type]
        return found and {name: value + 1 for name, value in found.items() if isinstance(value, Tensor)}

    monkeypatch.setattr(FeatureCache, "find", find)
    assert not verdicts(paint())[PREFIX]


def test_a_session_that_goes_on_from_another_ones_words_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right, told = ARDecode.remember, list[Memory | None]()

    def remember(self: ARDecode, state: Decoding) -> Memory | None:
        told.append(right(self, state))
        return told[-1] if len(told) <= 6 else told[0]  # three recomputed conversations of two turns are told right

    monkeypatch.setattr(ARDecode, "remember", remember)
    assert not verdicts(talk(loop=", session: true"))[SESSION]


def test_requests_are_made_up_that_say_something_even_where_nothing_need_be_said() -> None:
    cases = make_cases(omniflow.compile("qwen2_5_omni.speech"), 3, [])
    assert [sorted(case.inputs) for case in cases] == [["prompt"]] * 3
    assert len({case.inputs["prompt"] for case in cases}) == 3
