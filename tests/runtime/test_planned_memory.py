"""What items in work hold is never more than what the plan says, and more than what one item alone would hold."""

from __future__ import annotations

import torch

import omniflow
from omniflow.experts.null_language import NullSequence
from omniflow.loops.ar_decode import ARDecode
from omniflow.loops.audio_decode import AudioDecode
from omniflow.loops.chunk_rollout import ChunkRollout
from omniflow.loops.diffusion_denoise import DiffusionDenoise
from omniflow.loops.encode import Encode
from omniflow.loops.inner import Nested
from omniflow.loops.op import RunOp
from omniflow.loops.score import POSITIONS, Score
from omniflow.loops.vae_tile import VaeTile
from omniflow.node import NodeRun
from omniflow_compiler.library.loops import LOOPS
from omniflow_compiler.library.ops import OPS
from tests.runtime.program import PROGRAM

BYTES_PER_TOKEN = 64  # of keys and values of a null expert
WORDS = "Why is the old tree near my mat so very tall, and who of us has ever seen it bend in all of that wind?"


def held_bytes(run: NodeRun) -> int:
    """Keys and values of the items of a node that are in work, and what waits for its turn."""
    states = [lane.state for lane in run.lanes.values()]
    sequences = [state.sequence for state in states if state.sequence is not None]
    waiting = [emit.data for lane in run.lanes.values() for emit in lane.held if isinstance(emit.data, torch.Tensor)]
    return sum(sequence.past.nbytes for sequence in sequences) + sum(data.nbytes for data in waiting)


def test_items_that_are_decoded_at_once_are_in_the_plan() -> None:
    schedule = omniflow.compile(PROGRAM)
    planned = schedule.node("speak").state_bytes
    engine = omniflow.load(schedule)
    engine.submit({"prompt": WORDS}, params={"think.stop": [], "think.max_tokens": 300})
    most, lanes = 0, 0
    while not engine.is_idle:
        engine.step()
        for request in engine.running.values():
            for run in request.nodes:
                if run.bound.spec.id == "speak":
                    most, lanes = max(most, held_bytes(run)), max(lanes, len(run.lanes))
    assert lanes > 1
    one = schedule.node("speak").attributes["max_tokens"] * BYTES_PER_TOKEN
    assert one < most <= planned


def test_a_loop_inside_a_loop_holds_what_it_is_given_and_what_it_writes() -> None:
    schedule = omniflow.compile(PROGRAM.with_name("frames.program.yaml"))
    engine = omniflow.load(schedule)
    engine.submit({"prompt": "Air"})
    held = set()
    while not engine.is_idle:
        engine.step()
        for request in engine.running.values():
            states = [lane.state for run in request.nodes for lane in run.lanes.values()]
            runs = [state.inner for state in states if isinstance(state, Nested) and state.inner is not None]
            held |= {run.sequence.past.nbytes for run in runs if isinstance(run.sequence, NullSequence)}
    assert held == {schedule.node("speak").state_bytes}


def test_logits_of_given_tokens_are_in_the_plan() -> None:
    schedule = omniflow.compile(PROGRAM.with_name("score.program.yaml"))
    row = 4 * next(expert.sizes["vocabulary"] for expert in schedule.experts)
    assert schedule.node("score").state_bytes == 2 * POSITIONS * row  # and their softmax


def test_the_plan_knows_how_many_items_the_runtime_has_in_work() -> None:
    kinds = {
        "ar_decode": ARDecode, "audio_decode": AudioDecode, "diffusion_denoise": DiffusionDenoise, "encode": Encode,
        "vae_tile": VaeTile, "score": Score, "chunk_rollout": ChunkRollout,
    }  # fmt: skip
    assert {kind: signature.lanes for kind, signature in LOOPS.items()} == {k: v.lanes for k, v in kinds.items()}
    assert {signature.lanes for signature in OPS.values()} == {RunOp.lanes}
