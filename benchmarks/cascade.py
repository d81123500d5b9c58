"""The speech cascade: streamed and batched by the engine, beside the same experts called one after another.

    python benchmarks/cascade.py [--family null|smol] [--json FILE]

The baseline is what a script does: the whole reply, then its words one by one, then each sentence's sound at once,
request after request, on the very same expert objects. Both give the same text and the same number of samples.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import omniflow
from omniflow.catalog import find_spec
from omniflow.ops.base import Call
from omniflow.ops.segment import Rest, segment
from omniflow.rng import Source
from omniflow.roles import DecoderRows, TokenRows

PROMPTS = (
    "Why is the sky blue? Answer in one sentence.",
    "What do bees do? Answer in two short sentences.",
    "Name the capital of France.",
    "Tell me one fact about the ocean.",
)
REPEATS = 2
COUNTS = (1, 4, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Seconds until a request's first audio, their mean and the earliest, and until all was done; samples in all."""

    first_audio: float
    earliest_audio: float
    total: float
    samples: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", default="smol", choices=("null", "smol"))
    parser.add_argument("--json", help="where to write the figures")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    name = "null.speech" if options.family == "null" else "smol_speech.speech"
    schedule = omniflow.compile(find_spec(name), params={"max_tokens": "40"})
    engine(schedule, 1)
    one_after_another(schedule, 1)
    report: dict[str, Any] = {}
    for count in COUNTS:
        runs: dict[str, list[Served]] = {"omniflow": [], "one after another": []}
        for _ in range(REPEATS):
            runs["omniflow"].append(engine(schedule, count))
            runs["one after another"].append(one_after_another(schedule, count))
        medians = {who: _median(found) for who, found in runs.items()}
        ours, theirs = medians["omniflow"], medians["one after another"]
        assert ours.samples == theirs.samples, "the two must do the same work"
        seconds = ours.samples / 24_000
        print(
            f"{count:>2} requests: first audio on average after {ours.first_audio:.2f} s against "
            f"{theirs.first_audio:.2f} s ({theirs.first_audio / ours.first_audio:.1f} times earlier; the earliest "
            f"{ours.earliest_audio:.2f} s against {theirs.earliest_audio:.2f} s), all {seconds:.0f} s of audio in "
            f"{ours.total:.2f} s against {theirs.total:.2f} s ({theirs.total / ours.total:.1f} times faster)"
        )
        report[str(count)] = {who: asdict(served) for who, served in medians.items()}
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _median(found: list[Served]) -> Served:
    return Served(
        first_audio=statistics.median(s.first_audio for s in found),
        earliest_audio=statistics.median(s.earliest_audio for s in found),
        total=statistics.median(s.total for s in found),
        samples=found[0].samples,
    )


def engine(schedule: omniflow.Schedule, count: int) -> Served:
    """All requests at once through the engine."""
    running = omniflow.load(schedule)
    start = time.perf_counter()
    ids = [running.submit({"prompt": PROMPTS[i % len(PROMPTS)]}, seed=i) for i in range(count)]
    while not running.is_idle:
        running.step()
    total = time.perf_counter() - start
    results = [result for i in ids if (result := running.result(i)) is not None]
    assert [result.state for result in results] == ["done"] * count
    firsts = [result.record["time_to_first_audio"] for result in results]
    samples = sum(len(result.outputs["audio"]) for result in results)
    return Served(first_audio=statistics.mean(firsts), earliest_audio=min(firsts), total=total, samples=samples)


def one_after_another(schedule: omniflow.Schedule, count: int) -> Served:
    """The same experts, called in turn."""
    experts = omniflow.load(schedule).bound.experts
    attributes = {node.id: node.attributes for node in schedule.nodes}
    start = time.perf_counter()
    firsts, samples = [], 0
    for i in range(count):
        samples += len(speak(experts, attributes, PROMPTS[i % len(PROMPTS)], seed=i))
        firsts.append(time.perf_counter() - start)
    return Served(first_audio=statistics.mean(firsts), earliest_audio=firsts[0], total=firsts[-1], samples=samples)


def speak(experts: Mapping[str, Any], attributes: Mapping[str, Any], prompt: str, *, seed: int) -> Tensor:
    """One request from prompt to samples."""
    tokenizer, lexicon = experts["tokenizer"], experts["lexicon"]
    ids = tokenizer.encode_chat([{"role": "user", "content": prompt}])
    reply = decode(experts["thinker"], {}, torch.tensor(ids), attributes["think"])
    clips: list[Tensor] = []
    phrase: list[int] = []
    item = 0
    for sentence in sentences(tokenizer.decode(reply)):
        for characters, forced in lexicon.spell(sentence):
            word = forced or decode(
                experts["talker"],
                {"source": torch.tensor(characters)},
                torch.tensor(experts["talker"].start_ids),
                attributes["speak"],
            )
            phrase.extend(i for i in word if i != lexicon.end_id)
            if lexicon.end_id in word:
                clips.append(sound(experts, lexicon.to_acoustic(phrase), seed, item))
                phrase, item = [], item + 1
    gap = torch.zeros(attributes["join"]["gap"])
    return torch.cat([part for clip in clips for part in (gap, clip)][1:]) if clips else gap[:0]


def decode(expert: Any, conditions: Mapping[str, Tensor], prompt: Tensor, loop: Mapping[str, Any]) -> list[int]:
    """Greedy decoding of one sequence."""
    sequence = expert.open(conditions, max_positions=len(prompt) + loop["max_tokens"])
    ids, out = prompt, []
    while len(out) < loop["max_tokens"]:
        (result,) = expert.step([TokenRows(sequence=sequence, ids=ids)])
        token = int(result.logits.argmax())
        if token in loop["stop"]:
            break
        out.append(token)
        ids = torch.tensor([token])
    expert.close(sequence)
    return out


def sentences(text: str) -> list[str]:
    """The text cut as the program cuts it."""
    call = Call(values={}, windows={}, params={}, component=None, memory=Rest(text), is_end=True)
    return [str(emit.data) for emit in segment(call)]


def sound(experts: Mapping[str, Any], phonemes: list[int], seed: int, item: int) -> Tensor:
    """A sentence's samples, the vocoder fed with all frames at once."""
    (frames,) = experts["acoustic"].encode([{"phonemes": torch.tensor(phonemes)}])
    state = experts["vocoder"].open(generator=Source(seed, "wave", item).generator())
    count = len(frames["f0"])
    rows = DecoderRows(state=state, frames=frames, left=0, new=count, right=0, is_last=True)
    return torch.as_tensor(experts["vocoder"].decode([rows])[0])


if __name__ == "__main__":
    main()
