"""What one stage of a workflow hands the next is held to the limits of that stage's input, as a client's inputs are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import omniflow
from omniflow import Engine, InputError, Result, State
from omniflow.limited import LimitedChannel
from omniflow_compiler import codes
from omniflow_compiler.pipeline import Compilation, Options, compile_file
from omniflow_compiler.reader import parse_schedule
from tests.schedules import edge

FILES = {
    "write.card.yaml": """kind: card
id: write
components: {tokenizer: {use: null.tokenizer}, thinker: {use: null.thinker}}
loops:
  think: {kind: ar_decode, binds: thinker, max_tokens: 24}
""",
    "write.program.yaml": """kind: program
id: write.reply
card: write
inputs: {prompt: text}
outputs: {text: reply.text, ids: think.tokens, prompt_ids: tokenize.tokens}
nodes:
  tokenize: {op: tokenize, with: tokenizer}
  think:    {loop: think}
  reply:    {op: detokenize, with: tokenizer}
edges:
  - prompt -> tokenize.text
  - tokenize.tokens -> think.prompt
  - think.tokens ~> reply.tokens
""",
    "read.card.yaml": """kind: card
id: read
components: {encoder: {use: null.text_encoder}}
loops:
  see: {kind: encode, binds: encoder}
""",
    "read.program.yaml": """kind: program
id: read.read
card: read
inputs:
  ids: {type: "tokens[T]", limits: {T: 8}}
outputs: {kept: strip.tokens, features: see.embeds}
nodes:
  strip: {op: strip, drop: [316]}
  see:   {loop: see}
edges:
  - ids ~> strip.tokens
  - ids -> see.tokens
""",
    "both.workflow.yaml": """kind: workflow
id: both
inputs: {prompt: text}
outputs: {text: write.text, kept: read.kept, features: read.features}
stages: {write: {program: write.program.yaml}, read: {program: read.program.yaml}}
edges:
  - prompt -> write.prompt
  - write.ids ~> read.ids
""",
    "outer.workflow.yaml": """kind: workflow
id: outer
inputs: {prompt: text, more: "tokens[M]"}
outputs: {text: inner.text, kept: read.kept}
stages: {inner: {program: both.workflow.yaml}, read: {program: read.program.yaml}}
edges:
  - prompt -> inner.prompt
  - more ~> read.ids
""",
}


def compiled(folder: Path, name: str = "both.workflow.yaml", *changes: tuple[str, str]) -> Compilation:
    for file, text in FILES.items():
        for old, new in changes:
            text = text.replace(old, new)
        (folder / file).write_text(f"omniflow: 1\n{text}")
    return compile_file(folder / name, Options())


def loaded(folder: Path, name: str = "both.workflow.yaml", *changes: tuple[str, str]) -> Engine:
    found = compiled(folder, name, *changes)
    assert found.schedule is not None, [fault.message for fault in found.report]
    return omniflow.load(parse_schedule(found.schedule.to_json(), "again"))


def run(engine: Engine, **params: Any) -> Result:
    return engine.run({"prompt": "Hm"}, params={f"write/think.{name}": value for name, value in params.items()})


@pytest.mark.parametrize("arrow", ["~>", "->"])
def test_more_than_a_stage_lets_in_fails_the_stage_and_says_what_came(tmp_path: Path, arrow: str) -> None:
    engine = loaded(tmp_path, "both.workflow.yaml", ("write.ids ~>", f"write.ids {arrow}"))
    result = run(engine, max_tokens=9)
    assert result.state is State.FAILED
    said = " brings 9 elements along T, at most 8"
    assert f"edge write/think.tokens {arrow} read/strip.tokens{said}" in result.record["errors"]["read/strip"]
    assert f"edge write/think.tokens -> read/see.tokens{said}" in result.record["errors"]["read/see"]
    states = {name: output["state"] for name, output in result.record["outputs"].items()}
    assert states == {"text": "done", "kept": "failed", "features": "failed"}
    assert result.outputs["text"].startswith(run(engine, max_tokens=8).outputs["text"])
    assert engine.live == 0


def test_as_much_as_a_stage_lets_in_passes_as_without_a_limit(tmp_path: Path) -> None:
    limited = run(loaded(tmp_path), max_tokens=8)
    free = run(loaded(tmp_path, "both.workflow.yaml", (", limits: {T: 8}", "")), max_tokens=8)
    assert limited.state is State.DONE, limited.error
    assert torch.equal(limited.outputs["kept"], free.outputs["kept"])
    assert torch.equal(limited.outputs["features"], free.outputs["features"])


def test_limits_hold_in_workflows_of_workflows_and_for_their_own_inputs(tmp_path: Path) -> None:
    engine = loaded(tmp_path, "outer.workflow.yaml")
    assert {spec.name: spec.limits for spec in engine.schedule.inputs} == {"more": (8,), "prompt": ()}
    params = {"inner/write/think.max_tokens": 9}
    with pytest.raises(InputError, match=r"input more has 9 elements along M, at most 8"):
        engine.submit({"prompt": "Hm", "more": [1] * 9}, params=params)
    found = compiled(tmp_path, "outer.workflow.yaml", ("text: inner.text", "text: inner.kept"))
    assert found.schedule is not None
    result = omniflow.load(found.schedule).run({"prompt": "Hm", "more": [1]}, params=params)
    assert "edge inner/write/think.tokens ~> inner/read/strip.tokens brings 9 elements" in str(result.error)


def test_a_length_that_is_known_to_be_too_much_is_found_before_a_run(tmp_path: Path) -> None:
    changes = (('more: "tokens[M]"', 'more: "tokens[9]"'),)
    found = compiled(tmp_path, "outer.workflow.yaml", *changes)
    (fault,) = [fault for fault in found.report if fault.code == codes.AXIS_SIZE.id]
    assert fault.message == "`more` has 9 elements along `9`, and input `ids` lets in 8"


class Heard:
    """What a reader is told."""

    def __init__(self) -> None:
        self.ends = 0

    def on_item(self, item: int) -> None: ...

    def on_end(self) -> None:
        self.ends += 1


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        ([(torch.zeros(2, 3), 0, True), (torch.zeros(2, 3), 1, True)], None),
        ([(torch.zeros(1, 3), 0, False), (torch.zeros(3, 3), 0, True)], "4 elements along S, at most 3"),
        ([(torch.zeros(1, 5), 0, True)], "5 elements along D, at most 4"),
        ([(torch.zeros(1, 3), i, True) for i in range(3)], "3 elements along N, at most 2"),
    ],
)
def test_items_and_every_axis_of_them_are_counted(pieces: list[tuple[Any, int, bool]], said: str | None) -> None:
    reader = Heard()
    spec = edge("a.x ~> b.y", "f32[N*, S, D]", limits=(2, 3, 4))
    channel = LimitedChannel(spec, mode="items", reader=reader, writer=None)
    for data, item, ends_item in pieces:
        channel.put(data, item, ends_item)
    if said is None:
        assert [channel.take_item(i).shape[0] for i in range(2)] == [2, 2]
        return
    assert reader.ends == 1
    assert channel.recount() == channel.count == 0
    with pytest.raises(ValueError, match=said):
        channel.take_item(0)
    channel.put(torch.zeros(1, 3), 7, True)
    channel.end()
    assert channel.recount() == 0
