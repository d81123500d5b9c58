"""Autoregressive decoding: prefill chunks and single tokens of many requests in one flat batch per step."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, ClassVar, NamedTuple, cast

import torch
from torch import Tensor

from omniflow.lease import Lease
from omniflow.loops.base import BadResult, Done, Emit, Loop, Memory, Start, Stream, Unit, Wait
from omniflow.loops.sampling import PLAIN, Choice, Sampling, choose, read_sampling
from omniflow.pool import Pool
from omniflow.prefixes import ID_BYTES
from omniflow.rng import Source
from omniflow.roles import Autoregressor, Embedder, NamesRows, Primed, SequenceState, StepResult, TokenRows
from omniflow_compiler.schedule import Node

PREFILL, TOKEN = "ar_prefill", "ar_token"
POOL = "cache"  # what a sequence waits for while its expert has no room
TURN = "turn"  # what it waits for while another request gathers caches to hand on
PROMPT_PORTS = frozenset({"prompt", "prompt_embeds", "forced"})
OTHER_PORTS = frozenset({"kv", "tokens", "embeds", "logprobs", "codes"})  # ports out that need no hidden states
PROMPT = "prompt_"  # what hidden states of the prompt are named with


@dataclass(slots=True, kw_only=True, eq=False)
class Decoding:
    """One sequence. `prompt` (ids [P] or embeddings [P, D]), then each chosen token is fed; `num_fed` counts both."""

    pool: Pool
    sampling: Sampling
    rng: Source
    prompt: Tensor
    conditions: Mapping[str, Tensor]
    condition: Stream | None
    forced: tuple[int, ...]
    prompt_ids: tuple[int, ...]  # what the repetition penalty counts as seen
    max_tokens: int
    bound: Callable[[], int | None] | None
    wants_hidden: bool
    wants_embeds: bool
    wants_logprobs: bool
    wants_prompt: bool  # the final hidden states of the prompt
    feeds_last: bool  # whether a token that reaches the bound is fed for its rows
    feeds: frozenset[str] = frozenset()  # what of each chosen token an inner loop needs: `hidden`, `embeds`
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    num_prompt: int = 0  # rows of the prompt
    num_fed: int = 0
    ids: bytes = b""  # of the prompt, where its cache follows from ids alone and nobody needs its hidden states
    is_shared: bool = False  # others may begin with what is cached
    feed: Tensor | None = None  # the token to put in next, int64 [1], or its frame [1, codes]
    row: Tensor | str | None = None  # what the condition adds to it, [1, D]
    sequence: SequenceState | None = None
    hands_on: bool = False  # the cache leaves by reference when the loop ends
    owner: int = 0  # the request
    gathers: int = 1  # caches that the request hands on, this one with them
    lease: Lease | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        self.num_prompt = self.prompt.size(0)

    @property
    def limit(self) -> int:
        """The most tokens that will leave, as far as that is known."""
        if self.bound is not None:
            exact = self.bound()
            if exact is not None:
                self.max_tokens, self.bound = min(exact, self.max_tokens), None
        return len(self.forced) or self.max_tokens

    @property
    def cached_ids(self) -> bytes:
        """The ids whose keys and values follow from ids alone: those fed, or only the prompt's where rows are added."""
        is_plain = self.condition is None and not self.feeds
        return (self.ids + (array("q", self.tokens).tobytes() if is_plain else b""))[: self.num_fed * ID_BYTES]

    @property
    def is_full(self) -> bool:
        return len(self.tokens) >= self.limit

    @property
    def wants_rows(self) -> bool:
        return self.wants_hidden or self.wants_embeds

    @property
    def needs_model(self) -> bool:
        """Whether forced ids have to pass through the expert all the same."""
        return self.wants_rows or self.hands_on


class Step(NamedTuple):
    """A unit's outcome: positions that went in, what came out, and the chosen token (int, as int64 [1]) if any."""

    fed: int
    out: StepResult
    token: int | None = None
    feed: Tensor | None = None
    logprob: Tensor | None = None
    embedding: Tensor | None = None  # the chosen token's, [1, D]

    @property
    def last_hidden(self) -> Tensor | None:
        """The hidden state that chose the token, [1, D]."""
        return None if self.out.hidden is None else self.out.hidden[-1:]


class ARDecode(Loop[Decoding]):
    """Ports in: `prompt` or `prompt_embeds`, `forced`, `condition` (a stream, one row per decoded token), and the

    expert's own conditions. With `prompt_embeds`, `prompt` is what the repetition penalty counts as seen. Ports out:
    `tokens` without the stop token, `hidden` and `embeds` (the final hidden state and the input embedding of every
    emitted token; without `feed_last` not of one that reached the bound), `prompt_hidden` (final hidden states of the
    prompt), the expert's taps by their names, with `prompt_` those of the prompt, `logprobs` (of the emitted tokens
    under the expert's logits).
    """

    streams = frozenset({"condition"})
    optional = frozenset({"prompt", "prompt_embeds", "forced", "condition"})
    lanes: ClassVar[int] = 64

    def __init__(self, node: Node, expert: Autoregressor, *, pool: Pool, holds: Mapping[str, Any], chunk: int) -> None:
        self.node = node
        self.expert = expert
        self.pool = pool
        self.chunk = chunk
        self.key = ("ar", id(expert))
        self.primed = expert if isinstance(expert, Primed) else None
        self.held_row = self._held_row(holds.get("condition"))

    def _held_row(self, when_empty: Any) -> Tensor | str | None:
        if not isinstance(when_empty, Mapping):
            return None
        name = str(when_empty["hold"])
        if name == "last":
            return name
        if not isinstance(self.expert, NamesRows):
            raise ValueError(f"its expert has no named rows, so it cannot hold {name!r}")
        return self.expert.named_row(name)

    def init(self, start: Start) -> Decoding:
        """Errors: ValueError for parameters out of bounds, an empty prompt, or ids outside the vocabulary."""
        forced, ids = start.values.get("forced"), start.values.get("prompt")
        sampling = read_sampling(start.params)
        conditions = {k: v for k, v in start.values.items() if k not in PROMPT_PORTS and isinstance(v, Tensor)}
        has_forced = forced is not None and len(forced) > 0  # nobody chose those: they are no behaviour
        prompt = self._prompt(start.values, conditions, has_forced=has_forced)
        if start.memory is not None:
            prompt = torch.cat([start.memory, prompt])
        wants_prompt = any(port.startswith(PROMPT) for port in start.wanted - OTHER_PORTS)
        may_reuse = self.pool.reuse is not None and prompt.ndim == 1 and not conditions and not wants_prompt
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
            wants_hidden=any(not port.startswith(PROMPT) for port in start.wanted - OTHER_PORTS),
            wants_embeds="embeds" in start.wanted,
            hands_on="kv" in start.wanted,
            owner=start.owner,
            gathers=start.gathers,
            wants_logprobs="logprobs" in start.wanted or (start.rollout and not has_forced),
            wants_prompt=wants_prompt,
            feeds_last=bool(start.params.get("feed_last", True)),
        )

    def _prompt(self, values: Mapping[str, Any], conditions: Mapping[str, Tensor], *, has_forced: bool) -> Tensor:
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
            state.sequence = self.pool.open(state.conditions, max_positions=state.num_prompt + state.limit)
            if state.sequence is None:
                return Wait(POOL)
            if state.hands_on:
                self.pool.turns.took(state.owner, state.gathers)
        left = state.num_prompt - state.num_fed
        if left > 0 and state.hands_on:  # in one piece: where it is cut would show in what is handed on
            return Unit(PREFILL, self.key, state, size=left)
        if left > 0:
            return Unit(PREFILL, self.key, state, size=min(left, self.chunk), divisible=True)
        stream = state.condition
        if stream is not None:
            if stream.available():
                state.row = stream.take(1).data
            elif not stream.has_ended():
                return Wait(stream.port)
            elif self.held_row != "last":
                state.row = self.held_row
        return Unit(TOKEN, self.key, state)

    @torch.inference_mode()
    def execute(self, expert: Autoregressor, units: Sequence[Unit]) -> list[Step | BadResult]:
        """One step of the expert over prefill chunks and tokens alike."""
        for unit in units:
            if unit.kind == PREFILL and unit.state.ids:
                _share(unit)
        rows = _rows(expert, units)
        before = [row.sequence.num_cached for row in rows]
        try:
            results = expert.step(rows)
            if len(results) != len(rows):
                raise ValueError(f"{len(results)} results for {len(rows)} rows")
        except BaseException:
            for row, cached in zip(rows, before, strict=True):
                row.sequence.num_cached = cached
            raise
        return _choose(expert, units, results)

    def advance(self, state: Decoding, result: Step) -> list[Emit]:
        """A token leaves when it is chosen; its hidden state and embedding when it has been fed."""
        emits: list[Emit] = []
        prefix = "" if state.num_fed >= state.num_prompt else PROMPT
        ends = bool(prefix) and state.num_fed + result.fed == state.num_prompt
        if result.out.hidden is not None:
            emits.append(Emit(f"{prefix}hidden", result.out.hidden, ends_port=ends))
        for name, tap in (result.out.taps or {}).items():
            emits.append(Emit(f"{prefix}{name}", tap, ends_port=ends))
        if result.out.embeds is not None and not prefix:
            emits.append(Emit("embeds", result.out.embeds))
        state.num_fed += result.fed
        if result.token is not None:
            self._take(state, result, result.token, emits)
        elif state.is_full and state.num_fed >= state.num_prompt:
            state.reason = "forced" if state.forced else "bound"
        return emits

    @staticmethod
    def _take(state: Decoding, result: Step, token: int, emits: list[Emit]) -> None:
        if token in state.sampling.stop and not state.forced:
            state.reason = "stop"
            return
        state.tokens.append(token)
        state.feed = result.feed
        emits.append(Emit("tokens", result.feed))
        if result.logprob is not None:
            state.logprobs.append(float(result.logprob))
            emits.append(Emit("logprobs", result.logprob))
        if state.is_full and not (state.wants_rows and state.feeds_last):
            state.reason = "forced" if state.forced else "bound"

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
        """The tokens and their log-probabilities under the expert's own logits; forced ids are no choice of its own."""
        return {"tokens": list(state.tokens) or list(state.forced), "logprobs": list(state.logprobs)}

    def remember(self, state: Decoding) -> Memory:
        """All ids that were read and written, int64 [n]: the next turn's come behind them."""
        ids = torch.cat([state.prompt, torch.tensor(state.tokens, dtype=torch.int64)])
        return Memory(ids, ids.numel() * ids.element_size())

    def release(self, state: Decoding) -> None:
        """Closes the sequence, unless somebody still reads it."""
        if state.lease is not None:
            state.lease.drop()
            state.lease = None
        elif state.hands_on:
            self.pool.turns.left(state.owner)  # the request ends before it has gathered all
        if state.sequence is not None:
            sequence, state.sequence = state.sequence, None
            if state.is_shared and state.reason is not None:
                self.pool.keep(sequence, state.cached_ids)
            else:
                self.pool.close(sequence)


def _share(unit: Unit) -> None:
    """Takes of a prompt what others have cached by now: prompts that come together read what they share together."""
    state: Decoding = unit.state
    assert state.sequence is not None
    found = state.pool.share(state.sequence, state.ids)
    state.is_shared = True
    state.num_fed += found
    unit.cached += found
    unit.grant = min(unit.grant, state.num_prompt - state.num_fed)


def _rows(expert: Autoregressor, units: Sequence[Unit]) -> list[TokenRows]:
    rows = []
    for unit in units:
        state: Decoding = unit.state
        is_token = unit.kind == TOKEN
        ids, embeds = _token(expert, state) if is_token else _part(state, unit.grant)
        assert state.sequence is not None
        rows.append(
            TokenRows(
                sequence=state.sequence,
                ids=ids,
                embeds=embeds,
                wants_logits=_wants_logits(unit),
                wants_hidden=_wants_hidden(unit),
                wants_embeds=is_token and state.wants_embeds,
            )
        )
    return rows


def _token(expert: Autoregressor, state: Decoding) -> tuple[Tensor | None, Tensor | None]:
    """The next token as ids, or as its embedding plus the condition's row."""
    if not isinstance(state.row, Tensor):
        return state.feed, None
    assert state.feed is not None
    return None, cast("Embedder", expert).embed(state.feed) + state.row


def _part(state: Decoding, size: int) -> tuple[Tensor | None, Tensor | None]:
    """The next part of the prompt."""
    part = state.prompt[state.num_fed : state.num_fed + size]
    return (part, None) if part.ndim == 1 else (None, part)


def _choose(expert: Autoregressor, units: Sequence[Unit], results: Sequence[StepResult]) -> list[Step | BadResult]:
    """Chooses a token for every row that asked for logits; a row with wrong ones is bad alone."""
    vocab_size = expert.vocab_size
    steps: list[Step | BadResult] = [Step(unit.grant, result) for unit, result in zip(units, results, strict=True)]
    asked = []
    for i, unit in enumerate(units):
        logits = results[i].logits
        if logits is not None and logits.shape == (vocab_size,):
            asked.append((i, logits))
        elif logits is not None or _wants_logits(unit):
            steps[i] = BadResult("no logits" if logits is None else f"logits {list(logits.shape)}, not [{vocab_size}]")
    if not asked:
        return steps
    tokens = _likeliest(units, results, asked)
    if tokens is None:
        stacked = torch.stack([logits for _, logits in asked])
        tokens = choose(stacked, [_choice(units[i].state) for i, _ in asked]).tolist()
    ids = torch.tensor(tokens)
    embeddings = _embeddings(expert, ids, [units[i] for i, _ in asked])
    for (i, logits), token, feed, embedding in zip(asked, tokens, ids[:, None].unbind(), embeddings, strict=True):
        if token < 0:
            steps[i] = BadResult("logits that are not numbers")
            continue
        state: Decoding = units[i].state
        if state.forced:
            token = state.forced[len(state.tokens)]
            feed = torch.tensor([token])
        is_choice = state.wants_logprobs and not state.forced
        logprob = logits.log_softmax(-1)[feed] if is_choice else None
        steps[i] = Step(units[i].grant, results[i], token, feed, logprob, embedding)
    return steps


def _likeliest(
    units: Sequence[Unit], results: Sequence[StepResult], asked: Sequence[tuple[int, Tensor]]
) -> list[int] | None:
    """The ids of the largest logits, -1 of a row that is not finite; None when some row wants more than that."""
    if not all(units[i].state.sampling.is_plain for i, _ in asked):
        return None
    known = [best for i, _ in asked if (best := results[i].best) is not None and best >= 0]
    if len(known) == len(asked):
        return known
    values, ids = (torch.stack([logits for _, logits in asked]) if len(asked) > 1 else asked[0][1][None]).max(dim=-1)
    if values.device.type != "cpu":
        return cast("list[int]", torch.where(values.isfinite(), ids, -1).tolist())  # one wait, not two
    return [token if isfinite(value) else -1 for token, value in zip(ids.tolist(), values.tolist(), strict=True)]


def _embeddings(expert: Autoregressor, ids: Tensor, units: Sequence[Unit]) -> Sequence[Tensor | None]:
    """The input embedding [1, D] of each chosen id, when an inner loop asks for it."""
    if not any("embeds" in unit.state.feeds for unit in units):
        return [None] * len(units)
    embeddings: Sequence[Tensor] = cast("Embedder", expert).embed(ids.clamp(min=0)).split(1)
    return embeddings


def _wants_hidden(unit: Unit) -> bool:
    state: Decoding = unit.state
    is_wanted = state.wants_hidden if unit.kind == TOKEN else state.wants_prompt
    return is_wanted or ("hidden" in state.feeds and _wants_logits(unit))


def _wants_logits(unit: Unit) -> bool:
    state: Decoding = unit.state
    is_last = unit.kind == TOKEN or state.num_fed + unit.grant == state.num_prompt
    return is_last and not state.is_full


def _choice(state: Decoding) -> Choice:
    sampling = state.sampling
    if sampling.is_plain:
        return PLAIN
    step = len(state.tokens)
    seen = torch.tensor([*state.prompt_ids, *state.tokens]) if sampling.repetition_penalty != 1.0 else None
    generator = state.rng.shared
    uniform = state.rng.uniform(step) if sampling.temperature > 0.0 and generator is None else 0.0
    return Choice(sampling=sampling, num_tokens=step, seen=seen, uniform=uniform, generator=generator)
