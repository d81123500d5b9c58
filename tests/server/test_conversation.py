from __future__ import annotations

from pathlib import Path

import pytest

import omniflow
from tests.server.served import serving
from tests.verify.ways import conversation, llama

pytestmark = pytest.mark.hf
CHAT = "/v1/chat/completions"


def test_a_conversation_is_answered_turn_by_turn_and_read_once(tmp_path: Path) -> None:
    llama(tmp_path)
    params = {"weights": str(tmp_path), "dtype": "float32", "max_tokens": "6"}
    schedule = omniflow.compile("llama.conversation", params=params)
    long = conversation(*["photo of a red robot cat with a hat on the mat under the moon"] * 4)
    with serving(omniflow.load(schedule)) as served:
        before = served.engine.metrics.totals.copy()
        for messages in (long[:-2], long):
            answer = served.post(CHAT, {"model": "llama.conversation", "messages": messages})
            assert answer.status == 200, answer.body
            want = omniflow.load(schedule).run({"messages": messages}).outputs["text"]
            assert answer.json["choices"][0]["message"]["content"] == want
        cached = ("omniflow_cached_total", (("node", "think"),))
        assert served.engine.metrics.totals[cached] - before[cached] > 0


def test_messages_that_are_none_name_the_one_that_is_not(tmp_path: Path) -> None:
    llama(tmp_path)
    engine = omniflow.load(
        omniflow.compile("llama.conversation", params={"weights": str(tmp_path), "dtype": "float32"})
    )
    bounds = {"think.max_tokens": 2}
    for messages in ([], [{"role": "user"}], {"role": "user"}):
        result = engine.run({"messages": messages}, params=bounds)
        assert result.state == "refused"
        assert "message" in (result.error or "")
    assert engine.run({"messages": "hello"}, params=bounds).state == "done"
