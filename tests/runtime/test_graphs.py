"""Small graphs that no catalogue program has: back-pressure, switched-off branches, bounds over lengths, stalls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

import omniflow
from omniflow import Engine, Schedule, State
from omniflow.experts.null_language import load_thinker
from omniflow.experts.null_text import NullTokenizer
from omniflow.roles import DecoderRows, DecoderState
from tests.runtime.program import drain
from tests.schedules import edge, expert, node, schedule

TOKENS = "tokens[T]"


def thinking(
    *, extra: Sequence[Any] = (), edges: Sequence[Any] = (), outputs: Mapping[str, tuple[str, str]], **think: Any
) -> Schedule:
    """tokenize -> think, and what a test adds behind them."""
    return schedule(
        inputs={"prompt": "text"},
        outputs=outputs,
        nodes=[
            node("cut", "op.tokenize", expert="tok", inputs={"text": "text"}, outputs={"tokens": TOKENS}),
            node(
                "think", "loop.ar_decode", expert="lm", inputs={"prompt": TOKENS},
                outputs={"tokens": TOKENS, "hidden": "act[T, 16]", "embeds": "act[T, 16]", "logprobs": "act[T]"},
                attributes={"max_tokens": 20, "stop": [2], **think}, line=14,
            ),
            *extra,
        ],
        edges=[edge("prompt -> cut.text", "text"), edge("cut.tokens -> think.prompt", TOKENS), *edges],
        experts=[expert("tok", "null.tokenizer"), expert("lm", "null.thinker")],
    )  # fmt: skip


def run(program: Schedule, prompt: str = "Rain fell.", **load: Any) -> Any:
    running = omniflow.load(program, **load)
    result = running.run({"prompt": prompt})
    assert running.live == 0
    running.bound.pools.check()
    return result


class SlowFrames:
    """A stream decoder of one sample per frame."""

    def open(self, *, generator: torch.Generator) -> DecoderState:
        del generator
        return DecoderState()

    def decode(self, rows: Sequence[DecoderRows]) -> list[torch.Tensor]:
        for row in rows:
            row.state.num_frames += row.new
        return [row.frames["x"][row.left : row.left + row.new].float() for row in rows]


def test_hidden_states_and_embeddings_come_one_per_token_and_add_up() -> None:
    extra = [
        node("both", "op.add", inputs={"a": "act[T, 16]", "b": "act[T, 16]"}, outputs={"sum": "act[T, 16]"}),
    ]
    edges = [edge("think.hidden ~> both.a", "act[T, 16]"), edge("think.embeds ~> both.b", "act[T, 16]")]
    outputs = {
        "tokens": ("think.tokens", TOKENS), "hidden": ("think.hidden", "act[T, 16]"),
        "embeds": ("think.embeds", "act[T, 16]"), "sum": ("both.sum", "act[T, 16]"),
    }  # fmt: skip
    lm = load_thinker(expert("lm", "null.thinker"), None)
    for stop in ([2], []):
        result = run(thinking(extra=extra, edges=edges, outputs=outputs, stop=stop))
        assert result.state is State.DONE, result.error
        tokens = result.outputs["tokens"]
        assert torch.equal(result.outputs["embeds"], lm.embed(tokens))
        assert result.outputs["hidden"].shape == (len(tokens), 16)
        assert torch.equal(result.outputs["sum"], result.outputs["hidden"] + result.outputs["embeds"])


def test_logprobs_are_those_of_the_chosen_tokens_and_recorded_under_rollout() -> None:
    outputs = {"tokens": ("think.tokens", TOKENS), "logprobs": ("think.logprobs", "act[T]")}
    served, rolled = run(thinking(outputs=outputs)), run(thinking(outputs=outputs), profile="rollout")
    assert torch.equal(served.outputs["tokens"], rolled.outputs["tokens"])
    assert served.behaviour == {}
    (record,) = rolled.behaviour["think"]
    assert record["tokens"] == rolled.outputs["tokens"].tolist()
    assert record["logprobs"] == pytest.approx(rolled.outputs["logprobs"].tolist())
    assert all(logprob <= 0 for logprob in record["logprobs"])


@pytest.mark.parametrize(
    ("attributes", "reason"), [({"stop": [2], "max_tokens": 200}, "stop"), ({"max_tokens": 5}, "bound")]
)
def test_a_loop_says_why_it_ended(attributes: dict[str, Any], reason: str) -> None:
    result = run(thinking(outputs={"tokens": ("think.tokens", TOKENS)}, **attributes))
    assert result.record["nodes"]["think"]["reasons"] == {reason: 1}
    assert 2 not in result.outputs["tokens"].tolist()
    if reason == "bound":
        assert len(result.outputs["tokens"]) == 5


def test_min_tokens_keeps_a_loop_from_stopping_early() -> None:
    short = run(thinking(outputs={"tokens": ("think.tokens", TOKENS)}, max_tokens=200))
    count = len(short.outputs["tokens"])
    long = run(thinking(outputs={"tokens": ("think.tokens", TOKENS)}, max_tokens=200, min_tokens=count + 1))
    assert len(long.outputs["tokens"]) > count


def test_an_empty_prompt_is_refused_with_a_reason() -> None:
    result = run(thinking(outputs={"tokens": ("think.tokens", TOKENS)}), prompt="")
    assert result.state is State.REFUSED
    assert result.error == "hand.program.yaml:14:3: node think: the prompt is empty: there is nothing to decode from"


def test_nothing_to_decode_is_an_empty_stream() -> None:
    extra = [node("text", "op.detokenize", expert="tok", inputs={"tokens": TOKENS}, outputs={"text": "text"})]
    edges = [edge("think.tokens ~> text.tokens", TOKENS)]
    outputs = {"text": ("text.text", "text"), "tokens": ("think.tokens", TOKENS)}
    result = run(thinking(extra=extra, edges=edges, outputs=outputs, max_tokens=0))
    assert result.state is State.DONE, result.error
    assert result.outputs["text"] == ""
    assert result.outputs["tokens"].tolist() == []


def frames(**attributes: Any) -> Engine:
    """think ~> a decoder that takes windows of its tokens."""
    extra = [node("wave", "loop.audio_decode", expert="voice", inputs={"x": TOKENS}, outputs={"audio": "audio[T]"})]
    edges = [edge("think.tokens ~> wave.x", TOKENS, **attributes)]
    program = thinking(
        extra=extra, edges=edges, outputs={"audio": ("wave.audio", "audio[T]"), "tokens": ("think.tokens", TOKENS)}
    )
    program = replace(program, experts=(*program.experts, expert("voice", "given")))
    return omniflow.load(program, experts={"voice": SlowFrames()}, trace=True)


@pytest.mark.parametrize(
    "attributes",
    [
        {"chunk": 3},
        {"chunk": 5, "first_chunk": 1, "capacity": 5},
        {"chunk": 4, "left_context": 2, "right_context": 3},
        {},
        {"chunk": 50},
    ],
)
def test_windows_of_a_stream_are_decoded_once_each(attributes: dict[str, int]) -> None:
    result = frames(**attributes).run({"prompt": "Rain fell."})
    assert result.state is State.DONE, result.error
    assert result.outputs["audio"].tolist() == result.outputs["tokens"].tolist()


def test_start_drops_the_first_elements_for_one_reader() -> None:
    result = frames(start=3).run({"prompt": "Rain fell."})
    assert result.outputs["audio"].tolist() == result.outputs["tokens"].tolist()[3:]


def test_a_reader_that_lags_holds_its_writer_to_the_capacity() -> None:
    running = frames(chunk=4, capacity=6)
    request = running.submit({"prompt": "Rain fell."})
    most = 0
    while not running.is_idle:
        running.step()
        active = running.running.get(request)
        if active is not None:
            most = max(most, active.runs["wave"].inputs["x"][0].count)
    assert 4 <= most <= 7


def switched(when: str) -> Schedule:
    """Two ways to make parts, each behind its own `when`; concat takes those that are on."""
    nodes = [
        node(
            "a",
            "op.tokenize",
            expert="tok",
            inputs={"text": "text"},
            outputs={"tokens": TOKENS},
            when="inputs.prompt != ''",
        ),
        node("b", "op.tokenize", expert="tok", inputs={"text": "text"}, outputs={"tokens": TOKENS}, when=when),
        node("c", "op.strip", inputs={"tokens": TOKENS}, outputs={"tokens": TOKENS}, attributes={"drop": []}),
        node("all", "op.concat", inputs={"parts": TOKENS}, outputs={"whole": TOKENS}),
    ]
    edges = [
        edge("prompt -> a.text", "text"),
        edge("prompt -> b.text", "text"),
        edge("b.tokens -> c.tokens", TOKENS),
        edge("a.tokens -> all.parts", TOKENS, order=0),
        edge("c.tokens -> all.parts", TOKENS, order=1),
    ]
    return schedule(
        inputs={"prompt": "text"},
        outputs={"whole": ("all.whole", TOKENS), "second": ("c.tokens", TOKENS)},
        nodes=nodes,
        edges=edges,
        experts=[expert("tok", "null.tokenizer")],
    )


def test_a_branch_that_is_off_does_not_run_and_a_variadic_port_takes_the_rest() -> None:
    ids = NullTokenizer().encode("Hi")
    on, off = run(switched("true"), "Hi"), run(switched("inputs.prompt == 'never'"), "Hi")
    assert on.outputs["whole"].tolist() == ids * 2
    assert off.outputs["whole"].tolist() == ids
    assert off.outputs["second"].tolist() == []
    assert set(off.record["nodes"]) == {"a", "all"}


def test_a_request_whose_every_node_is_off_is_done_at_once() -> None:
    result = run(switched("inputs.prompt != ''"), "")
    assert result.state is State.DONE
    assert result.outputs["whole"].tolist() == []


@pytest.mark.parametrize(("bound", "want"), [("2 * think.tokens + 1", 41), ("think.tokens - 15", 5), ("7", 7)])
def test_a_bound_over_anothers_length_counts_what_came(bound: str, want: int) -> None:
    lengths = {"think.tokens": "think.tokens"} if "think" in bound else {}
    second = node(
        "again", "loop.ar_decode", expert="lm", inputs={"prompt": TOKENS}, outputs={"tokens": TOKENS},
        attributes={"max_tokens": bound, "stop": []}, lengths=lengths,
    )  # fmt: skip
    program = thinking(
        extra=[second],
        edges=[edge("think.tokens -> again.prompt", TOKENS)],
        outputs={"tokens": ("again.tokens", TOKENS), "first": ("think.tokens", TOKENS)},
        stop=[],
    )
    result = run(program)
    assert result.state is State.DONE, result.error
    assert len(result.outputs["first"]) == 20
    assert len(result.outputs["tokens"]) == want


def test_item_streams_that_do_not_match_are_refused_with_both_counts() -> None:
    spelled = {"characters": "tokens[W*, C]", "forced": "tokens[W*, K]"}
    nodes = [
        node("a", "op.segment", inputs={"text": "text"}, outputs={"segments": "text[N*]"}),
        node("b", "op.segment", inputs={"text": "text"}, outputs={"segments": "text[N*]"}),
        node("one", "op.spell", expert="lex", inputs={"text": "text[N*]"}, outputs=spelled),
        node("two", "op.spell", expert="lex", inputs={"text": "text[N*]"}, outputs=spelled),
        node(
            "speak", "loop.ar_decode", expert="talk", each=True, line=9, attributes={"max_tokens": 4},
            inputs={"source": "tokens[W*, C]", "forced": "tokens[W*, K]"}, outputs={"tokens": "tokens[W*, T]"},
        ),
    ]  # fmt: skip
    program = schedule(
        inputs={"prompt": "text", "other": "text"},
        outputs={"tokens": ("speak.tokens", "tokens[W*, T]")},
        nodes=nodes,
        edges=[
            edge("prompt -> a.text", "text"),
            edge("other -> b.text", "text"),
            edge("a.segments ~> one.text", "text[N*]"),
            edge("b.segments ~> two.text", "text[N*]"),
            edge("one.characters ~> speak.source", "tokens[W*, C]"),
            edge("two.forced ~> speak.forced", "tokens[W*, K]"),
        ],
        experts=[expert("lex", "null.lexicon"), expert("talk", "null.talker")],
    )
    result = omniflow.load(program).run({"prompt": "the sky is blue", "other": "the sky"})
    assert result.state is State.REFUSED
    assert "hand.program.yaml:9:3: node speak: port forced has 4 items, and another port has more" in str(result.error)


def test_a_condition_that_has_ended_is_held_or_left_out() -> None:
    second = node(
        "speak", "loop.ar_decode", expert="lm", inputs={"prompt": TOKENS, "condition": "act[T, 16]"},
        outputs={"tokens": TOKENS}, attributes={"max_tokens": 12},
    )  # fmt: skip

    def spoken(**attributes: Any) -> list[int]:
        program = thinking(
            extra=[second],
            edges=[
                edge("cut.tokens -> speak.prompt", TOKENS),
                edge("think.hidden ~> speak.condition", "act[T, 16]", **attributes),
            ],
            outputs={"tokens": ("speak.tokens", TOKENS)},
            max_tokens=4,
        )
        result = run(program)
        assert result.state is State.DONE, result.error
        tokens: list[int] = result.outputs["tokens"].tolist()
        return tokens

    free, last, pad = spoken(), spoken(when_empty={"hold": "last"}), spoken(when_empty={"hold": "stop"})
    assert len(free) == len(last) == len(pad) == 12
    assert free[:5] == last[:5] == pad[:5]
    assert len({tuple(free), tuple(last), tuple(pad)}) == 3


def test_a_held_row_that_the_expert_does_not_know_is_found_at_load() -> None:
    second = node(
        "speak", "loop.ar_decode", expert="lm", inputs={"prompt": TOKENS, "condition": "act[T, 16]"},
        outputs={"tokens": TOKENS}, attributes={"max_tokens": 12}, line=6,
    )  # fmt: skip
    program = thinking(
        extra=[second],
        edges=[
            edge("cut.tokens -> speak.prompt", TOKENS),
            edge("think.hidden ~> speak.condition", "act[T, 16]", when_empty={"hold": "nobody"}),
        ],
        outputs={"tokens": ("speak.tokens", TOKENS)},
    )
    with pytest.raises(omniflow.BindError, match=r"hand.program.yaml:6:3: node speak: .*nobody"):
        omniflow.load(program)


def test_two_loops_on_one_expert_run_in_one_batch() -> None:
    second = node(
        "again", "loop.ar_decode", expert="lm", inputs={"prompt": TOKENS}, outputs={"tokens": TOKENS},
        attributes={"max_tokens": 20, "stop": []},
    )  # fmt: skip
    program = thinking(
        extra=[second],
        edges=[edge("cut.tokens -> again.prompt", TOKENS)],
        outputs={"tokens": ("think.tokens", TOKENS), "other": ("again.tokens", TOKENS)},
        stop=[],
    )
    running = omniflow.load(program, trace=True)
    result = running.run({"prompt": "Rain"})
    assert torch.equal(result.outputs["tokens"], result.outputs["other"])
    assert running.trace is not None
    assert {unit.width for unit in running.trace.units if unit.kind == "ar_token"} == {2}


def test_an_edge_that_can_never_move_on_is_named() -> None:
    """Both inputs of `add` come from one writer, of which one reader waits for the whole and the other is full."""
    extra = [
        node("later", "op.concat", inputs={"parts": "act[T, 16]"}, outputs={"whole": "act[T, 16]"}),
        node("both", "op.add", inputs={"a": "act[T, 16]", "b": "act[T, 16]"}, outputs={"sum": "act[T, 16]"}, line=8),
    ]
    edges = [
        edge("think.hidden -> later.parts", "act[T, 16]"),
        edge("later.whole ~> both.a", "act[T, 16]"),
        edge("think.embeds ~> both.b", "act[T, 16]", capacity=4),
    ]
    result = run(thinking(extra=extra, edges=edges, outputs={"sum": ("both.sum", "act[T, 16]")}, stop=[]))
    assert result.state is State.FAILED
    assert "waits for ever" in str(result.error)
    assert "both" in str(result.error)


def test_chunks_of_a_long_prompt_do_not_hold_up_others() -> None:
    running = omniflow.load(thinking(outputs={"tokens": ("think.tokens", TOKENS)}, stop=[]), trace=True)
    short = running.submit({"prompt": "Rain"})
    for _ in range(4):
        running.step()
    running.submit({"prompt": "x" * 1000})
    drain(running)
    assert running.trace is not None
    prefills = [unit for unit in running.trace.units if unit.kind == "ar_prefill" and unit.request == 1]
    tokens = [unit for unit in running.trace.units if unit.kind == "ar_token" and unit.request == short]
    assert len(prefills) >= 1000 // 64
    assert max(unit.size for unit in prefills) <= 64
    during = [unit for unit in tokens if prefills[0].start <= unit.start <= prefills[-1].start]
    assert len(during) >= 10
