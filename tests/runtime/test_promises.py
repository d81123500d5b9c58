"""A request may change which ids a loop leaves out, unless an edge was compiled on the promise that they never come."""

from __future__ import annotations

from typing import Any

import pytest

from omniflow import InputError, Schedule
from omniflow.experts.null_text import VOCAB
from omniflow.params import check_params
from tests.runtime.caches.programs import TALK, TALK_CARD, TOKENS, compile_in

LAST = VOCAB - 1
STRIPPED = TALK.replace("  reply:", f"  bare: {{op: strip, drop: [{LAST - 1}]}}\n  reply:").replace(
    "  - think.tokens ~> reply.tokens", "  - think.tokens ~> bare.tokens\n  - bare.tokens ~> reply.tokens"
)


def talk(program: str, stop: list[int]) -> Schedule:
    card = TALK_CARD.format(loop="", cache="", size="64 KiB").replace("stop: [2]", f"stop: {stop}")
    return compile_in(card, program)


@pytest.mark.parametrize(
    ("program", "stop", "params"),
    [
        (TALK, [2, LAST], {"think.stop": [LAST]}),  # 2 is below what the reader was promised
        (TALK, [2, LAST], {"think.stop": [2, 3, LAST]}),
        (TALK, [2], {"think.stop": []}),
        (TOKENS, [LAST], {"think.stop": []}),  # nobody reads it
        (STRIPPED, [2, LAST], {"bare.drop": [LAST - 1, 5]}),
    ],
)
def test_what_keeps_every_promise_is_taken(program: str, stop: list[int], params: dict[str, Any]) -> None:
    assert check_params(talk(program, stop), params)


@pytest.mark.parametrize(
    ("program", "params", "said"),
    [
        (TALK, {"think.stop": [2]}, f"think.stop has to keep id {LAST}: edge think.tokens ~> reply.tokens"),
        (STRIPPED, {"think.stop": [2]}, f"relies on ids below {LAST}"),
        (STRIPPED, {"bare.drop": []}, f"bare.drop has to keep id {LAST - 1}: edge bare.tokens ~> reply.tokens"),
    ],
)
def test_what_breaks_one_is_refused_and_says_which_edge(program: str, params: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as error:
        check_params(talk(program, [2, LAST]), params)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
