"""Autoregressive decoding: prefill chunks and single tokens of many requests in one flat batch per step."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from omniflow.lease import Lease
from omniflow.loops.ar_step import run_step
from omniflow.loops.base import BadResult, Done, Emit, Loop, Memory, Start, Unit, Wait
from omniflow.loops.columns import check_columns, make_columns
from omniflow.loops.decoding import PREFILL, PROMPT, TOKEN, Decoding, Step
from omniflow.loops.sampling import Sampling, read_sampling
from omniflow.pool import Pool
from omniflow.roles import Autoregressor, NamesRows, Primed, SelfGuided, SequenceState
from omniflow.vocabulary import num_left
from omniflow_compiler.schedule import Node

POOL = "cache"  # what a sequence waits for while its expert has no room
TURN = "turn"  # what it waits for while another request gathers caches to hand on
PROMPT_PORTS = frozenset({"prompt", "prompt_embeds", "forced"})
OTHER_PORTS = frozenset({"kv", "tokens", "embeds", "logprobs", "codes"})  # ports out that need no hidden states


@lru_cache
def _wanted_rows(wanted: frozenset[str]) -> tuple[bool, bool]:
    """Whether somebody reads hidden states (or taps) of the prompt, and of what is written."""
    rows = wanted - OTHER_PORTS
    return any(port.startswith(PROMPT) for port in rows), any(not port.startswith(PROMPT) for port in rows)


class ARDecode(Loop[Decoding]):
    """Ports in: `prompt` or `prompt_embeds`, `forced`, `condition` (a stream, one row per decoded token), and the

    expert's own conditions. With `prompt_embeds`, `prompt` is what the repetition penalty counts as seen. Ports out:
    `tokens` without the stop token, `hidden` and `embeds` (the final hidden state and the input embedding of every
    emitted token; without `feed_last` not of one that reached the bound), `prompt_hidden` (final hidden states of the
    prompt), the expert's taps by their names, with `prompt_` those of the prompt, `logprobs` (of the emitted tokens
    under the expert's logits). With `delays` each step chooses a code of every codebook, and frames leave at `codes`.
    With `cfg` a second sequence runs beside, under the conditions that guidance steers away from.
    """

    streams = frozenset({"condition"})
    optional = frozenset({"prompt", "prompt_embeds", "forced", "condition"})
    lanes: ClassVar[int] = 64

    def __init__(self, node: Node, expert: Autoregressor, *, pool: Pool, holds: Mapping[str, Any], chunk: int) -> None:
        check_columns(expert, node.attributes)
        self.node = node
        self.expert = expert
        self.pool = pool
        self.chunk = chunk
        self.key = ("ar", id(expert))
        self.primed = expert if isinstance(expert, Primed) else None
        self.held_row = self._held_row(holds.get("condition"))
        self._read: tuple[Mapping[str, Any], Sampling] = ({}, Sampling())  # the attributes that were read last

    def _held_row(self, when_empty: Any) -> Tensor | str | None:
        if not isinstance(when_empty, Mapping):
            return None
        name = str(when_empty["hold"])
        if name == "last":
            return name
        if not isinstance(self.expert, NamesRows):
            raise ValueError(f"its expert has no named rows, so it cannot hold {name!r}")
        return self.expert.named_row(name)

    def check(self, params: Mapping[str, Any]) -> None:
        """Errors: ValueError for parameters out of bounds, not of this expert, or such that no id is left to choose."""
        numbers = {name: value for name, value in params.items() if name != "max_tokens"}
        if num_left(read_sampling(numbers), self.expert.vocab_size) == 0:
            raise ValueError("its stop, suppress, suppress_from and min_tokens leave no id to choose")
        check_columns(self.expert, params)
        if params.get("cfg", 1.0) != 1.0 and not isinstance(self.expert, SelfGuided):
            raise ValueError("cfg is on, and its expert has no conditions that guidance could leave")

    def init(self, start: Start) -> Decoding:
        """Errors: ValueError for parameters out of bounds, an empty prompt, or ids outside the vocabulary."""
        forced, ids = start.values.get("forced"), start.values.get("prompt")
        sampling = self._sampling(start.params)
        conditions = {k: v for k, v in start.values.items() if k not in PROMPT_PORTS and isinstance(v, Tensor)}
        has_forced = forced is not None and len(forced) > 0  # nobody chose those: they are no behaviour
        has_columns = bool(start.params.get("delays"))
        prompt = self._prompt(start.values, conditions, has_forced=has_forced, has_columns=has_columns)
        if start.memory is not None:
            prompt = torch.cat([start.memory, prompt])
        wants_prompt, wants_hidden = _wanted_rows(start.wanted)
        cfg = float(start.params.get("cfg", 1.0))
        is_alone = cfg == 1.0 and not conditions and not wants_prompt
        may_reuse = self.pool.reuse is not None and prompt.ndim == 1 and is_alone
        return Decoding(
            pool=self.pool,
            sampling=sampling,
            rng=start.rng,
            prompt=prompt,
            ids=array("q", prompt.tolist()).tobytes() if may_reuse else b"",
            conditions=conditions,
            condition=start.streams.get("condition"),
            forced=tuple(forced.tolist()) if forced is not None else (),
            prompt_ids=tuple((prompt if prompt.ndim == 1 else ids).tolist()) if ids is not None else (),
            max_tokens=sampling.max_tokens,
            bound=start.bound,
            wants_hidden=wants_hidden,
            wants_embeds="embeds" in start.wanted,
            hands_on="kv" in start.wanted,
            owner=start.owner,
            gathers=start.gathers,
            wants_logprobs="logprobs" in start.wanted or (start.rollout and not has_forced),
            wants_prompt=wants_prompt,
            feeds_last=bool(start.params.get("feed_last", True)),
            columns=make_columns(self.expert, start.params),
            cfg=cfg,
            unconditional=self._unconditional(conditions, start) if cfg != 1.0 else None,
        )

    def _sampling(self, params: Mapping[str, Any]) -> Sampling:
        """Most requests have the attributes of the card, which are read once."""
        if params is not self._read[0]:
            self._read = params, read_sampling(params)
        return self._read[1]

    def _unconditional(self, conditions: Mapping[str, Tensor], start: Start) -> Mapping[str, Tensor]:
        assert isinstance(self.expert, SelfGuided)  # `check` has seen to it
        if "kv" in start.wanted:
            raise ValueError("cfg is on, and a cache that is handed on is of one sequence")
        return self.expert.unconditional(conditions)

    def _prompt(
        self, values: Mapping[str, Any], conditions: Mapping[str, Tensor], *, has_forced: bool, has_columns: bool
    ) -> Tensor:
        embeds, ids = values.get("prompt_embeds"), values.get("prompt")
        if embeds is not None:
            prompt: Tensor = embeds
        elif ids is not None:
            prompt = ids
            if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < self.expert.vocab_size:
                raise ValueError(f"the prompt has a token outside the vocabulary of {self.expert.vocab_size}")
        elif self.primed is not None:
            prompt = self.primed.prompt(conditions)
        else:
            prompt = torch.tensor(list(self.expert.start_ids), dtype=torch.int64)
            prompt = prompt[None] if has_columns else prompt
        if not len(prompt) and not has_forced:
            raise ValueError("the prompt is empty: there is nothing to decode from")
        return prompt

    def next(self, state: Decoding) -> Unit | Wait | Done:
        """Prefill first, then one token at a time, until stop or bound."""
        if state.reason is not None:
            return Done(state.reason)
        if state.sequence is None:
            if state.forced and not state.needs_model:
                return Done("forced")
            if state.limit == 0 and not state.hands_on:
                return Done("bound")
            if state.hands_on and not self.pool.turns.may(state.owner, self.node.id, state.gathers):
                return Wait(TURN)
            if state.ids:
                self.pool.touch(state.ids)
            state.sequence, state.beside = self._open(state)
            if state.sequence is None:
                return Wait(POOL)
            if state.hands_on:
                self.pool.turns.took(state.owner, state.gathers)
        if not self.pool.is_here(state.sequence) and not self.pool.bring_back_all(state.sequences):
            return Wait(POOL)
        left = state.num_prompt - state.num_fed
        if left > 0 and state.hands_on:  # in one piece: where it is cut would show in what is handed on
            return Unit(PREFILL, self.key, state, size=left)
        if left > 0:
            return Unit(PREFILL, self.key, state, size=min(left, self.chunk), divisible=True)
        stream = state.condition
        if stream is not None and not state.has_row:
            if stream.available():
                state.row, state.has_row = stream.take(1).data, True
            elif not stream.has_ended():
                return Wait(stream.port)
            elif not isinstance(self.held_row, str):
                state.row = self.held_row
        if state.unit is None:
            state.unit = Unit(TOKEN, self.key, state)
        return state.unit

    def _open(self, state: Decoding) -> tuple[SequenceState | None, SequenceState | None]:
        """Its sequence and the one beside it, where there is room for all that it needs."""
        conditions = [state.conditions, *([] if state.unconditional is None else [state.unconditional])]
        found = self.pool.open_all(conditions, max_positions=state.num_prompt + state.limit)
        return (None, None) if found is None else (found[0], found[1] if len(found) > 1 else None)

    def execute(self, expert: Autoregressor, units: Sequence[Unit]) -> list[Step | BadResult]:
        """One step of the expert over prefill chunks and tokens alike."""
        return run_step(expert, units)

    def advance(self, state: Decoding, result: Step) -> list[Emit]:
        """A token leaves when it is chosen; its hidden state and embedding when it has been fed."""
        return state.fold(result)

    def finalize(self, state: Decoding) -> list[Emit]:
        """Forced ids that needed no model leave here, and the cache by reference: `kv`, of all that was fed."""
        emits: list[Emit] = []
        if state.forced and not state.tokens:
            emits.append(Emit("tokens", torch.tensor(state.forced, dtype=torch.int64)))
        if state.hands_on and state.sequence is not None:
            state.lease, state.sequence = Lease(self.pool, state.sequence, state.owner), None
            emits.append(Emit("kv", state.lease))
        return emits

    def behaviour(self, state: Decoding) -> Mapping[str, Any]:
        """The tokens and their log-probabilities under the expert's own logits; forced ids are no choice of its own.

        With delays, the frames and those of their codes. Guided logits are what counts where guidance is on.
        """
        if state.columns is not None:
            return state.columns.behaviour()
        return {"tokens": list(state.tokens) or list(state.forced), "logprobs": list(state.logprobs)}

    def remember(self, state: Decoding) -> Memory:
        """All ids that were read and written, int64 [n]: the next turn's come behind them."""
        ids = torch.cat([state.prompt, torch.tensor(state.tokens, dtype=torch.int64)])
        return Memory(ids, ids.numel() * ids.element_size())

    def takes_room(self, state: Decoding) -> bool:
        """Every unit needs it."""
        del state
        return True

    def set_aside(self, state: Decoding) -> bool:
        """What the sequence has cached; later prompts do not begin with it any more."""
        if state.sequence is None:
            return True
        state.ids, state.is_shared = b"", False
        return all(self.pool.set_aside(sequence) for sequence in state.sequences)

    def release(self, state: Decoding) -> None:
        """Closes the sequence, unless somebody still reads it."""
        if state.lease is not None:
            state.lease.drop()
            state.lease = None
        elif state.hands_on:
            self.pool.turns.left(state.owner)  # the request ends before it has gathered all
        if state.beside is not None:
            beside, state.beside = state.beside, None
            self.pool.close(beside)
        if state.sequence is not None:
            sequence, state.sequence = state.sequence, None
            if state.is_shared and state.reason is not None:
                self.pool.keep(sequence, state.cached_ids)
            else:
                self.pool.close(sequence)
