"""A session's turns go on from one another, one at a time, and one that is not done leaves no trace."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pytest
import torch

import omniflow
from omniflow import BindError, BusyError, Engine, InputError, Limits, Schedule
from omniflow.errors import OmniFlowError
from omniflow.loops.base import Memory
from omniflow.values import Shared
from tests.runtime.caches.programs import TALK_CARD, TOKENS, compile_in, talk
from tests.runtime.program import drain

QUESTIONS = ("Why is the sky blue?", "And the grass?", "So who sat on my mat?")


@cache
def tokens(*, reuse: bool, session: bool = True) -> Schedule:
    card = TALK_CARD.format(
        loop=", session: true" if session else "", cache=", reuse: prefix" if reuse else "", size="64 KiB"
    )
    return compile_in(card, TOKENS)


def load(*, limits: Limits | None = None, faults: Sequence[Mapping[str, Any]] = ()) -> Engine:
    profile = "test" if faults else "serve"
    running = omniflow.load(talk(loop=", session: true"), limits=limits, faults=faults, profile=profile)
    running.bound.stores.drop()
    return running


def say(running: Engine, session: int, text: str) -> str:
    result = running.run({"prompt": text}, session=session)
    assert result.state == "done", result.error
    reply: str = result.outputs["text"]
    return reply


@cache
def conversation() -> tuple[str, ...]:
    """What a session answers to the questions when it is alone."""
    running = load()
    session = running.session()
    return tuple(say(running, session, question) for question in QUESTIONS)


def memories(running: Engine, session: int) -> dict[str, list[int]]:
    return {node: memory.value.tolist() for node, memory in running.lobby.sessions.get(session).memories.items()}


@pytest.mark.parametrize("reuse", [True, False])
def test_a_turn_answers_as_the_whole_conversation_in_one_prompt_would(reuse: bool) -> None:
    running, plain = omniflow.load(tokens(reuse=reuse)), omniflow.load(tokens(reuse=False, session=False))
    running.bound.stores.drop()
    session, so_far = running.session(), torch.zeros(0, dtype=torch.int64)
    for turn in range(4):
        new = torch.arange(10 + turn, 25 + turn)
        answer = running.run({"prompt": new}, session=session)
        so_far = torch.cat([so_far, new])
        want = plain.run({"prompt": so_far}).outputs["tokens"]
        assert torch.equal(answer.outputs["tokens"], want)
        if turn and reuse:
            assert answer.record["cached_tokens"] >= len(so_far) - len(new) - 1  # nothing is read twice
        so_far = torch.cat([so_far, want])
    assert memories(running, session) == {"think": so_far.tolist()}
    running.bound.pools.check()


def test_later_turns_read_their_own_part_of_the_chat_alone() -> None:
    running = load()
    session = running.session()
    assert [say(running, session, question) for question in QUESTIONS] == list(conversation())
    other = running.session()
    assert say(running, other, QUESTIONS[1]) != conversation()[1]
    tokenizer, remembered = running.bound.experts["tokenizer"], memories(running, session)["think"]
    opening = tokenizer.encode_chat([{"role": "user", "content": QUESTIONS[0]}])
    assert remembered[: len(opening)] == opening
    second = tokenizer.encode_turn([{"role": "user", "content": QUESTIONS[1]}])
    assert any(remembered[at : at + len(second)] == second for at in range(len(remembered)))


def test_a_cancelled_turn_leaves_the_session_as_it_was() -> None:
    for stop in range(0, 60, 7):
        running = load()
        session = running.session()
        say(running, session, QUESTIONS[0])
        before = memories(running, session)
        victim = running.submit({"prompt": "Something else altogether"}, session=session)
        for _ in range(stop):
            running.step()
        running.cancel(victim)
        drain(running)
        result = running.result(victim)
        assert result is not None
        assert result.state == "cancelled"
        assert memories(running, session) == before
        assert running.live == 0
        assert [say(running, session, question) for question in QUESTIONS[1:]] == list(conversation()[1:])
        running.bound.pools.check()


def test_a_turn_that_fails_after_its_loop_is_through_leaves_the_session_as_it_was() -> None:
    running = load(faults=[{"at": "reply", "kind": "raise", "number": 3, "request": 1}])
    session = running.session()
    assert say(running, session, QUESTIONS[0]) == conversation()[0]
    result = running.run({"prompt": "Something else"}, session=session)
    assert result.state == "failed"
    assert [say(running, session, question) for question in QUESTIONS[1:]] == list(conversation()[1:])
    assert running.lobby.sessions.get(session).num_turns == 3


def test_a_turn_that_is_refused_leaves_the_session_as_it_was() -> None:
    running = load()
    session = running.session()
    say(running, session, QUESTIONS[0])
    before = memories(running, session)
    refused = running.run({"prompt": "Too much"}, params={"think.max_tokens": 1020}, session=session)
    assert refused.state == "refused"
    assert "the cache of thinker has 1024" in str(refused.error)
    late = running.run({"prompt": "Too late"}, deadline=0.0, session=session)
    assert late.state in ("refused", "cancelled")
    assert memories(running, session) == before
    assert [say(running, session, question) for question in QUESTIONS[1:]] == list(conversation()[1:])


def test_turns_run_one_after_another_in_order_of_submission_and_others_do_not_wait() -> None:
    running = load()
    session, other = running.session(), running.session()
    ids = [
        running.submit({"prompt": question}, session=session, priority=priority)
        for priority, question in enumerate(QUESTIONS)
    ]
    beside = running.submit({"prompt": QUESTIONS[0]}, session=other)
    most, ended = 0, []
    while not running.is_idle:
        running.step()
        most = max(most, len(running.running))
        assert sum(request.id in ids for request in running.running.values()) <= 1
        ended += [i for i in (*ids, beside) if i in running.results and i not in ended]
    assert most == 2
    assert [i for i in ended if i in ids] == ids
    assert ended.index(beside) < len(ended) - 1
    found = [running.result(i) for i in ids]
    assert tuple(result.outputs["text"] for result in found if result) == conversation()


def test_a_waiting_turn_can_be_cancelled_and_counts_as_waiting() -> None:
    running = load(limits=Limits(queued=3))
    session = running.session()
    ids = [running.submit({"prompt": QUESTIONS[0]}, session=session)]
    victim = running.submit({"prompt": "Something else"}, session=session)
    ids.append(running.submit({"prompt": QUESTIONS[1]}, session=session))
    with pytest.raises(BusyError, match="3 requests are waiting"):
        running.submit({"prompt": QUESTIONS[2]}, session=session)
    running.cancel(victim)
    drain(running)
    found = [running.result(i) for i in ids]
    assert tuple(result.outputs["text"] for result in found if result) == conversation()[:2]
    assert len(running.lobby.queue) == running.lobby.queue.num_bytes == 0


def test_a_waiting_turns_deadline_passes_while_it_waits() -> None:
    running = load()
    session = running.session()
    first = running.submit({"prompt": QUESTIONS[0]}, session=session)
    late = running.submit({"prompt": "Something else"}, session=session, deadline=running.schedule.critical_seconds)
    running.agenda._born -= 100.0  # as if that long had passed
    drain(running)
    results = [running.result(first), running.result(late)]
    assert [str(result.state) for result in results if result] == ["done", "cancelled"]
    assert say(running, session, QUESTIONS[1]) == conversation()[1]


def test_a_session_that_lies_unused_ends_and_says_so() -> None:
    running = load(limits=Limits(session_seconds=50.0))
    early, late = running.session(), running.session()
    running.agenda._born -= 30.0
    say(running, late, QUESTIONS[0])
    running.agenda._born -= 30.0
    assert say(running, late, QUESTIONS[1]) == conversation()[1]
    with pytest.raises(InputError, match=f"session {early} has ended: .* lay unused for 50 s"):
        running.submit({"prompt": QUESTIONS[0]}, session=early)
    running.agenda._born -= 60.0
    running.step()
    assert len(running.lobby.sessions) == running.lobby.sessions.num_bytes == 0


def test_a_session_with_a_turn_in_work_does_not_end_while_it_is() -> None:
    running = load(limits=Limits(session_seconds=50.0, sessions=1))
    session = running.session()
    request = running.submit({"prompt": QUESTIONS[0]}, session=session)
    running.step()
    running.agenda._born -= 100.0
    with pytest.raises(BusyError, match="all 1 sessions are in use"):
        running.session()
    drain(running)
    assert running.result(request) is not None
    assert say(running, session, QUESTIONS[1]) == conversation()[1]


def test_of_too_many_sessions_the_longest_unused_makes_room() -> None:
    running = load(limits=Limits(sessions=2))
    first, second = running.session(), running.session()
    say(running, first, QUESTIONS[0])
    third = running.session()
    assert say(running, first, QUESTIONS[1]) == conversation()[1]
    assert say(running, third, QUESTIONS[0]) == conversation()[0]
    with pytest.raises(InputError, match=f"session {second} has ended"):
        say(running, second, QUESTIONS[0])


def test_sessions_that_remember_too_much_make_room_but_not_the_one_just_used() -> None:
    running = load(limits=Limits(session_bytes=700))
    first, second = running.session(), running.session()
    say(running, first, QUESTIONS[0])
    size = running.lobby.sessions.num_bytes
    assert 350 < size < 700
    say(running, second, QUESTIONS[0])
    assert running.lobby.sessions.num_bytes == size
    with pytest.raises(InputError, match=f"session {first} has ended"):
        say(running, first, QUESTIONS[1])
    for question in QUESTIONS[1:]:
        say(running, second, question)
    assert running.lobby.sessions.num_bytes > 700
    assert len(running.lobby.sessions) == 1


def test_closing_a_session_cancels_its_turns_and_forgets_everything() -> None:
    running = load()
    session, other = running.session(), running.session()
    say(running, session, QUESTIONS[0])
    ids = [running.submit({"prompt": question}, session=session) for question in QUESTIONS]
    beside = running.submit({"prompt": QUESTIONS[0]}, session=other)
    for _ in range(9):
        running.step()
    running.close_session(session)
    with pytest.raises(InputError, match="has ended"):
        running.submit({"prompt": "Hm"}, session=session)
    with pytest.raises(InputError, match="has ended"):
        running.close_session(session)
    drain(running)
    assert [str(result.state) for i in ids if (result := running.result(i))] == ["cancelled"] * 3
    kept = running.result(beside)
    assert kept is not None
    assert kept.outputs["text"] == conversation()[0]
    assert running.lobby.sessions.num_memories == 1
    running.close_session(other)
    assert running.live == running.lobby.sessions.num_memories == running.lobby.sessions.num_bytes == 0
    running.bound.stores.drop()
    assert running.kept == 0
    running.bound.pools.check()
    assert running.bound.stores.pools["thinker"].num_used == 0


def test_the_record_tells_the_session() -> None:
    running = load()
    session = running.session()
    assert running.run({"prompt": "Hm"}, session=session).record["session"] == session
    assert running.run({"prompt": "Hm"}).record["session"] is None


def test_turns_stream_to_their_client() -> None:
    running = load()
    session = running.session()

    async def listen(question: str) -> str:
        events = [event async for event in running.stream({"prompt": question}, session=session)]
        return "".join(event.data for event in events if isinstance(event, omniflow.Piece))

    assert tuple(asyncio.run(listen(question)) for question in QUESTIONS) == conversation()


def test_a_program_without_such_a_loop_opens_no_session() -> None:
    with pytest.raises(InputError, match=r"talk\.reply has no loop that keeps sessions"):
        omniflow.load(talk()).session()
    with pytest.raises(InputError, match="there is no session 0"):
        omniflow.load(talk()).submit({"prompt": "Hm"}, session=0)


def test_weights_that_change_between_turns_forget_keys_and_values_and_nothing_else() -> None:
    running = load()
    session = running.session()
    say(running, session, QUESTIONS[0])
    running.invalidate("thinker")
    result = running.run({"prompt": QUESTIONS[1]}, session=session)
    assert result.record["cached_tokens"] == 0
    assert result.outputs["text"] == conversation()[1]


def test_a_chat_over_a_tokenizer_that_cannot_write_a_turn_is_refused_when_it_is_bound() -> None:
    class Short:
        stop_ids = ()
        encode = encode_chat = decode = lambda self, *_: []

    with pytest.raises(BindError, match="node tokenize leads to think, which keeps sessions, and tokenizer cannot"):
        omniflow.load(talk(loop=", session: true"), experts={"tokenizer": Short()})
    assert issubclass(BindError, OmniFlowError)


@pytest.mark.parametrize("aside_bytes", [1 << 20, -1], ids=["set aside", "anew"])
@pytest.mark.parametrize("reuse", [True, False])
def test_a_turn_that_gives_its_room_to_a_higher_priority_goes_on_as_if_it_had_not(
    aside_bytes: int, reuse: bool
) -> None:
    schedule = talk(loop=", session: true", reuse=reuse, size="16 KiB")
    running = omniflow.load(schedule, limits=Limits(aside_bytes=aside_bytes))
    running.bound.stores.drop()
    session = running.session()
    assert say(running, session, QUESTIONS[0]) == conversation()[0]
    turn, following = (running.submit({"prompt": text}, session=session) for text in QUESTIONS[1:])
    for _ in range(12):
        running.step()
    urgent = running.submit({"prompt": "Hm"}, params={"think.max_tokens": 160}, priority=1)
    ended = []
    while not running.is_idle:
        running.step()
        ended += [request for request in running.results if request not in ended]
    assert ended == [urgent, turn, following]
    found = {request: running.result(request) for request in ended}
    records = {request: result.record["preempted"] for request, result in found.items() if result is not None}
    assert records[turn]["times"] == 1
    assert (records[turn]["units"] > 0) == (aside_bytes < 0)
    assert [found[request].outputs["text"] for request in (turn, following)] == list(conversation()[1:])  # type: ignore[union-attr]
    assert running.live == 0
    running.close_session(session)
    running.bound.stores.drop()
    assert running.kept == 0
    running.bound.pools.check()


class Held(Shared):
    """A memory held by reference that counts who lets go of it."""

    num_drops = 0

    def hold(self) -> None: ...

    def drop(self) -> None:
        self.num_drops += 1


def test_what_a_turn_would_have_left_is_let_go_of_when_it_begins_anew() -> None:
    running = load()
    session = running.session()
    say(running, session, QUESTIONS[0])
    turn = running.submit({"prompt": QUESTIONS[1]}, session=session)
    for _ in range(12):
        running.step()
    held = Held()
    request = running.running[turn]
    request.memories["think"] = Memory(held, 8)
    running.bound.pools.pools[0].aside_bytes = -1
    running.conductor.preemption.evict(request, running.bound.experts["thinker"])
    assert held.num_drops == 1
    assert not request.memories
    before = memories(running, session)
    drain(running)
    result = running.result(turn)
    assert result is not None
    assert result.outputs["text"] == conversation()[1]
    assert len(memories(running, session)["think"]) > len(before["think"])
