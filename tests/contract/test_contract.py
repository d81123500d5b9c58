from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import omniflow_compiler
from omniflow.bind import bind
from omniflow.contract import contract_faults
from omniflow.engine import Engine
from omniflow.roles import ChunkRow, DecoderRows, DecoderState
from omniflow_compiler.library.signature import ExpertSignature
from omniflow_compiler.schedule import Schedule
from tests.compiler.programs import check, ports

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("program", sorted(path.name for path in (ROOT / "specs" / "null").glob("*.program.yaml")))
def test_the_tiny_experts_are_what_their_signatures_say(program: str) -> None:
    schedule = omniflow_compiler.compile(ROOT / "specs" / "null" / program)
    assert contract_faults(schedule, bind(schedule).experts) == []


@pytest.mark.weights
def test_the_speech_experts_are_what_their_signatures_say() -> None:
    schedule = omniflow_compiler.compile(ROOT / "specs" / "smol_speech" / "speech.program.yaml")
    assert contract_faults(schedule, bind(schedule).experts) == []


ENCODER = ExpertSignature(
    use="t.encoder", role="encoder", sizes={"width": 16}, doc="",
    serves={"encode": ports({"x": "f32[T, width]"}, {"y": "f32[2*T, width]", "mask": "i64[T]"})},
)  # fmt: skip
VOCODER = ExpertSignature(
    use="t.vocoder", role="vocoder", hop=4, doc="",
    serves={"audio_decode": ports({"x~": "f32[F, 3]"}, {"audio~": "audio[4*F]"})},
)  # fmt: skip
WORLD = ExpertSignature(
    use="t.world", role="world_model", doc="",
    serves={"chunk_rollout": ports({"words": "f32[P, 3]"}, {"latents~": "f32[2*T, 5]"})},
)  # fmt: skip
LM = ExpertSignature(
    use="t.lm", role="lm", sizes={"vocabulary": 10, "hidden": 4}, doc="",
    serves={
        "ar_decode": ports(
            {"prompt": "tokens[P] < vocabulary"}, {"tokens~": "tokens[T] < vocabulary", "embeds~": "act[T, hidden]"}
        )
    },
)  # fmt: skip


def schedule_of(folder: Path, signature: ExpertSignature, kind: str, inputs: str, port: str, **card: str) -> Schedule:
    extra = "".join(f", {key}: {value}" for key, value in card.items())
    bound = {"ar_decode": ", max_tokens: 3", "chunk_rollout": ", chunks: 3, window: 2, steps: 2"}.get(kind, "")
    entry = signature.serves[kind].inputs[0].name
    compilation = check(
        folder,
        f"components:\n  e: {{use: {signature.use}{extra}}}\nloops: {{run: {{kind: {kind}, binds: e{bound}}}}}\n",
        f"inputs: {{x: {inputs!r}}}\noutputs: {{y: n.{port}}}\nnodes: {{n: {{loop: run}}}}\nedges: [x -> n.{entry}]\n",
        [signature],
    )
    assert compilation.schedule is not None, list(compilation.report)
    return compilation.schedule


def messages(schedule: Schedule, expert: Any) -> list[str]:
    return [fault.message for fault in contract_faults(schedule, {"e": expert})]


class Doubling(nn.Module):
    """An encoder; what it gets wrong is told by its arguments."""

    def __init__(self, width: int = 16, times: int = 2, mask: bool = True) -> None:
        super().__init__()
        self.project = nn.Linear(16, width)
        self.times = times
        self.mask = mask

    def encode(self, rows: Sequence[Mapping[str, Tensor]]) -> list[Mapping[str, Tensor]]:
        found: list[Mapping[str, Tensor]] = []
        for row in rows:
            y = self.project(row["x"]).repeat_interleave(self.times, dim=0)
            found.append({"y": y, "mask": torch.ones(len(row["x"]), dtype=torch.int64)} if self.mask else {"y": y})
        return found


def test_an_encoder_that_lies_is_caught_with_the_line_of_its_component(tmp_path: Path) -> None:
    schedule = schedule_of(tmp_path, ENCODER, "encode", "f32[T, 16]", "y")
    assert messages(schedule, Doubling()) == []
    assert messages(schedule, Doubling(mask=False)) == ["it gives no mask"]
    (fault,) = contract_faults(schedule, {"e": Doubling(times=3)})
    assert fault.message == "y has shape [18, 16], its port says f32[2*T=2*inputs.x.T, 16]: 12 elements, not 18"
    assert str(fault).startswith(f"{tmp_path.name}/card.yaml:5:3: component e: y has shape")
    assert any("16 elements, not 8" in message for message in messages(schedule, Doubling(width=8)))


def test_shapes_are_compared_on_the_meta_device_without_weights(tmp_path: Path) -> None:
    schedule = schedule_of(tmp_path, ENCODER, "encode", "f32[T, 16]", "y")
    with torch.device("meta"):
        right, wrong = Doubling(), Doubling(times=3)
    assert messages(schedule, right) == []
    assert len(messages(schedule, wrong)) == 1


def test_weights_of_another_dtype_are_caught(tmp_path: Path) -> None:
    schedule = schedule_of(tmp_path, ENCODER, "encode", "f32[T, 16]", "y", dtype="bfloat16")
    assert "its weights are float32, the card says bfloat16" in messages(schedule, Doubling())


class Decoder:
    def __init__(self, hop: int) -> None:
        self.hop = hop

    def open(self, *, generator: torch.Generator) -> DecoderState:
        return DecoderState()

    def decode(self, rows: Sequence[DecoderRows]) -> list[Tensor]:
        return [torch.zeros(row.new * self.hop) for row in rows]


def test_a_decoder_of_another_hop_is_caught(tmp_path: Path) -> None:
    schedule = schedule_of(tmp_path, VOCODER, "audio_decode", "f32[F, 3]", "audio")
    assert messages(schedule, Decoder(4)) == []
    assert len(messages(schedule, Decoder(5))) == 1


class World:
    """Chunks of `frames` frames."""

    def __init__(self, frames: int) -> None:
        self.frames = frames

    def initial(self, conditions: Mapping[str, Any], *, generator: torch.Generator) -> Tensor:
        return torch.randn(self.frames, 5, generator=generator)

    def velocity(self, rows: Sequence[ChunkRow]) -> list[Tensor]:
        return [row.latent * sum(row.past, row.conditions["words"].sum()) for row in rows]

    def keep(self, rows: Sequence[ChunkRow]) -> list[Tensor]:
        return [row.latent.sum() for row in rows]


def test_a_world_of_other_chunks_is_caught(tmp_path: Path) -> None:
    schedule = schedule_of(tmp_path, WORLD, "chunk_rollout", "f32[P, 3]", "latents")
    assert messages(schedule, World(2)) == []
    assert len(messages(schedule, World(3))) == 1


def test_chunks_of_a_world_that_are_no_items_lie_one_behind_the_other(tmp_path: Path) -> None:
    schedule = schedule_of(tmp_path, WORLD, "chunk_rollout", "f32[P, 3]", "latents")
    engine = Engine(bind(schedule, given={"e": World(2)}))
    found = engine.run({"x": torch.ones(4, 3)}).outputs["y"]
    assert found.shape == (2 * 3, 5)
    assert schedule.node("n").units[0].expected == 3 * (2 + 1)


class Language:
    """Only what is looked at."""

    def __init__(self, vocab_size: int, width: int) -> None:
        self.vocab_size = vocab_size
        self.width = width

    def embed(self, ids: Tensor) -> Tensor:
        return torch.zeros(len(ids), self.width)


@pytest.mark.parametrize(
    ("vocab_size", "width", "part"),
    [(10, 4, ""), (12, 4, "emits ids up to 11"), (8, 4, "knows 8 ids"), (10, 6, "4 elements, not 6")],
)
def test_a_language_model_of_another_size_is_caught(tmp_path: Path, vocab_size: int, width: int, part: str) -> None:
    schedule = schedule_of(tmp_path, LM, "ar_decode", "tokens[P]", "tokens")
    found = messages(schedule, Language(vocab_size, width))
    assert (part == "" and found == []) or any(part in message for message in found)


def test_an_expert_that_cannot_work_on_zeros_tells_nothing(tmp_path: Path) -> None:
    class Picky(Doubling):
        def encode(self, rows: Sequence[Mapping[str, Tensor]]) -> list[Mapping[str, Tensor]]:
            raise ValueError("not these")

    class Other(Doubling):
        def encode(self, rows: Sequence[Mapping[str, Tensor]]) -> list[Mapping[str, Tensor]]:
            return [{"y": row["features"]} for row in rows]

    schedule = schedule_of(tmp_path, ENCODER, "encode", "f32[T, 16]", "y")
    assert messages(schedule, Picky()) == []
    assert messages(schedule, Other()) == ["it reads 'features', which is no port of encode"]


WRITER = ExpertSignature(
    use="t.writer", role="lm", sizes={"vocabulary": 10, "characters": 30}, doc="",
    serves={"ar_decode": ports({"source": "tokens[C] < characters"}, {"tokens~": "tokens[T] < vocabulary"})},
)  # fmt: skip


@pytest.mark.parametrize(
    ("vocab_size", "found"),
    [
        (10, []),
        (8, ["it chooses among 8 ids, its port tokens says 10"]),
        (12, ["it emits ids up to 11, its signature says 10 ids"]),
    ],
)
def test_a_writer_of_fewer_or_more_ids_than_it_says_is_caught(
    tmp_path: Path, vocab_size: int, found: list[str]
) -> None:
    schedule = schedule_of(tmp_path, WRITER, "ar_decode", "tokens[C]", "tokens")
    assert messages(schedule, Language(vocab_size, 4)) == found


def test_ids_that_are_forced_upon_a_writer_need_not_be_among_those_it_chooses(tmp_path: Path) -> None:
    spelling = ports(
        {"source": "tokens[C] < vocabulary", "forced?": "tokens[K] < spelled"}, {"tokens~": "tokens[T] < spelled"}
    )
    writer = replace(WRITER, sizes={"vocabulary": 10, "spelled": 13}, serves={"ar_decode": spelling})
    schedule = schedule_of(tmp_path, writer, "ar_decode", "tokens[C]", "tokens")
    assert messages(schedule, Language(10, 4)) == []
    assert messages(schedule, Language(9, 4)) == ["it chooses among 9 ids, its signature says 10"]
