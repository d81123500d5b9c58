"""Clients that stream, that do not read, and that leave."""

from __future__ import annotations

import asyncio

import pytest
import torch

from omniflow import Ended, Engine, InputError, Limits, Piece, State
from omniflow.pump import Mailbox
from tests.runtime.program import PROMPTS, alone, engine


async def gather(
    running: Engine, prompt: str, *, capacity: int = 64, pause: float = 0.0
) -> tuple[str, torch.Tensor, Ended]:
    text, audio = "", []
    async for event in running.stream({"prompt": prompt}, capacity=capacity):
        if isinstance(event, Ended):
            return text, torch.cat(audio), event
        if event.output == "text":
            text += event.data
        else:
            audio.append(event.data)
        if pause:
            await asyncio.sleep(pause)
    raise AssertionError("the stream has no end")


def test_streams_together_give_each_what_it_gives_alone() -> None:
    async def main() -> None:
        running = engine()
        results = await asyncio.gather(*(gather(running, prompt) for prompt in PROMPTS))
        for prompt, (text, audio, ended) in zip(PROMPTS, results, strict=True):
            assert text == alone(prompt)[0]
            assert torch.equal(audio, alone(prompt)[1])
            assert ended.result.state is State.DONE
            assert ended.result.outputs == {}
        assert running.live == 0

    asyncio.run(main())


def test_clients_beyond_the_limit_come_after_those_that_run() -> None:
    async def main() -> None:
        running = engine(limits=Limits(running=1))
        results = await asyncio.gather(*(gather(running, prompt) for prompt in PROMPTS[:3]))
        assert [text for text, _, _ in results] == [alone(prompt)[0] for prompt in PROMPTS[:3]]

    asyncio.run(asyncio.wait_for(main(), timeout=120))


def test_a_step_says_that_there_was_something_to_do_while_somebody_waits() -> None:
    running = engine(limits=Limits(running=1))
    ids = [running.submit({"prompt": prompt}) for prompt in PROMPTS[:2]]
    while running.step():
        pass
    assert all(running.result(request) is not None for request in ids)


def test_a_client_that_reads_slowly_gets_all_and_holds_nobody_else() -> None:
    async def main() -> None:
        running = engine()
        slow = asyncio.create_task(gather(running, PROMPTS[0], capacity=2, pause=0.002))
        fast = await gather(running, PROMPTS[1])
        assert fast[0] == alone(PROMPTS[1])[0]
        text, audio, _ = await slow
        assert text == alone(PROMPTS[0])[0]
        assert torch.equal(audio, alone(PROMPTS[0])[1])

    asyncio.run(main())


def test_a_client_that_does_not_read_holds_its_request_to_bounded_memory() -> None:
    running = engine()
    got: list[Piece] = []
    request = running.submit({"prompt": PROMPTS[0]}, listener=got.append, keep=False)

    def step_until_quiet() -> None:
        while running.step():
            if len(got) >= 5:
                running.hold(request, is_held=True)

    step_until_quiet()
    first = len(got)
    assert 5 <= first <= 8
    assert not running.step()
    held = running.live
    for _ in range(20):
        running.step()
    assert running.live == held
    running.hold(request, is_held=False)
    while not running.is_idle:
        running.step()
    assert "".join(piece.data for piece in got if piece.output == "text") == alone(PROMPTS[0])[0]


def test_a_client_that_leaves_cancels_its_request() -> None:
    async def main() -> None:
        running = engine()
        stream = running.stream({"prompt": PROMPTS[0]})
        async for _ in stream:
            break
        await stream.aclose()  # type: ignore[attr-defined]
        for _ in range(200):
            if running.is_idle:
                break
            await asyncio.sleep(0.005)
        assert running.is_idle
        assert running.live == 0
        assert (await gather(running, PROMPTS[1]))[0] == alone(PROMPTS[1])[0]

    asyncio.run(main())


def test_the_engine_goes_on_in_another_event_loop() -> None:
    running = engine()
    assert asyncio.run(gather(running, PROMPTS[0]))[0] == alone(PROMPTS[0])[0]
    assert asyncio.run(gather(running, PROMPTS[1]))[0] == alone(PROMPTS[1])[0]


def test_wrong_inputs_are_an_error_before_the_first_event() -> None:
    async def main() -> None:
        with pytest.raises(InputError, match="prompt"):
            await anext(engine().stream({}))

    asyncio.run(main())


@pytest.mark.parametrize("way", ["deadline", "cancel"])
def test_a_request_whose_client_does_not_read_ends_when_it_must(way: str) -> None:
    async def main() -> None:
        running = engine()
        stream = running.stream({"prompt": PROMPTS[0]}, capacity=2, deadline=0.3 if way == "deadline" else None)
        await anext(stream)
        await asyncio.sleep(0.1)  # by now the box is full and the engine sleeps
        assert running.running
        if way == "cancel":
            await asyncio.to_thread(running.cancel, 0)
        for _ in range(200):
            if running.is_idle:
                break
            await asyncio.sleep(0.01)
        assert running.live == 0
        *_, ended = [event async for event in stream]
        assert isinstance(ended, Ended)
        assert ended.result.state is State.CANCELLED

    asyncio.run(main())


def test_a_box_that_is_let_go_on_too_late_holds_again() -> None:
    """The client empties the box and fills up again before the engine hears of the first."""

    async def main() -> None:
        running = engine()
        box = Mailbox(running, capacity=2)
        box.request = running.submit({"prompt": PROMPTS[0]}, listener=box.put)
        while not box.is_full:
            running.step()
        while box.pieces:
            box.take()
        for _ in range(2):
            box.put(Piece(box.request, "text", "x", 0, ends_item=False))
        while running.step():
            pass
        assert len(box.pieces) <= 6

    asyncio.run(main())
