"""One sequence that an `ar_decode` loop writes, and what a step gives it."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from omniflow.lease import Lease
from omniflow.loops.base import Emit, Stream, Unit
from omniflow.loops.columns import Columns
from omniflow.loops.sampling import Sampling
from omniflow.pool import Pool
from omniflow.prefixes import ID_BYTES
from omniflow.rng import Source
from omniflow.roles import SequenceState, StepResult

PREFILL, TOKEN = "ar_prefill", "ar_token"
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
    columns: Columns | None = None  # where a step chooses a code of every codebook; `tokens` has the first of each
    cfg: float = 1.0  # 1 is off
    unconditional: Mapping[str, Tensor] | None = None  # the conditions of the sequence that guidance steers away from
    feeds: frozenset[str] = frozenset()  # what of each chosen token an inner loop needs: `hidden`, `embeds`
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    num_prompt: int = 0  # rows of the prompt
    most: int = 0  # tokens, as far as that is known
    num_fed: int = 0
    ids: bytes = b""  # of the prompt, where its cache follows from ids alone and nobody needs its hidden states
    is_shared: bool = False  # others may begin with what is cached
    feed: Tensor | None = None  # the token to put in next, int64 [1], or its frame [1, codes]
    row: Tensor | None = None  # what the condition adds to it, [1, D]
    has_row: bool = False  # it was taken from the condition and has not been fed
    unit: Unit | None = None  # of its next token, the same one every time
    sequence: SequenceState | None = None
    beside: SequenceState | None = None  # the one that guidance steers away from; it is fed the same
    hands_on: bool = False  # the cache leaves by reference when the loop ends
    owner: int = 0  # the request
    gathers: int = 1  # caches that the request hands on, this one with them
    lease: Lease | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        self.num_prompt = self.prompt.size(0)
        self.most = self._most()

    def _most(self) -> int:
        """Steps that choose something: a column per frame, and those for which the last frame's codes wait."""
        most = len(self.forced) or self.max_tokens
        return most if self.columns is None or not most else most + self.columns.lag

    @property
    def limit(self) -> int:
        """The most tokens that will leave, as far as that is known."""
        if self.bound is not None:
            exact = self.bound()
            if exact is not None:
                self.max_tokens, self.bound = min(exact, self.max_tokens), None
                self.most = self._most()
        return self.most

    @property
    def sequences(self) -> tuple[SequenceState, ...]:
        """What it holds of its expert's cache."""
        return tuple(each for each in (self.sequence, self.beside) if each is not None)

    @property
    def cached_ids(self) -> bytes:
        """The ids whose keys and values follow from ids alone: those fed, or only the prompt's where rows are added."""
        is_plain = self.condition is None and not self.feeds
        return (self.ids + (array("q", self.tokens).tobytes() if is_plain else b""))[: self.num_fed * ID_BYTES]

    @property
    def is_full(self) -> bool:
        """Whether no token may follow."""
        return len(self.tokens) >= (self.most if self.bound is None else self.limit)

    @property
    def wants_rows(self) -> bool:
        return self.wants_hidden or self.wants_embeds

    @property
    def needs_model(self) -> bool:
        """Whether forced ids have to pass through the expert all the same."""
        return self.wants_rows or self.hands_on

    def fold(self, step: Step) -> list[Emit]:
        """What a step gave: what leaves with it."""
        out = step.out
        emits = [] if out.hidden is None and out.embeds is None and not out.taps else self._rows_of(step)
        self.num_fed += step.fed
        self.has_row = False
        if step.token is not None:
            self._take(step, step.token, emits)
        elif self.is_full and self.num_fed >= self.num_prompt:
            self.reason = "forced" if self.forced else "bound"
        return emits

    def _rows_of(self, step: Step) -> list[Emit]:
        """Hidden states, taps and embeddings of what was fed; with the last of the prompt its ports end."""
        out, is_prompt = step.out, self.num_fed < self.num_prompt
        prefix = PROMPT if is_prompt else ""
        ends = is_prompt and self.num_fed + step.fed == self.num_prompt
        emits = [] if out.hidden is None else [Emit(f"{prefix}hidden", out.hidden, ends_port=ends)]
        emits += [Emit(f"{prefix}{name}", tap, ends_port=ends) for name, tap in (out.taps or {}).items()]
        if out.embeds is not None and not is_prompt:
            emits.append(Emit("embeds", out.embeds))
        return emits

    def _take(self, step: Step, token: int, emits: list[Emit]) -> None:
        if token in self.sampling.stop and not self.forced:
            self.reason = "stop"
            return
        self.tokens.append(token)
        if self.columns is not None:
            self._take_column(self.columns, step, emits)
            return
        self.feed = step.feed
        emits.append(Emit("tokens", step.feed))
        if step.logprob is not None:
            self.logprobs.append(float(step.logprob))
            emits.append(Emit("logprobs", step.logprob))
        if self.is_full and not (self.wants_rows and self.feeds_last):
            self.reason = "forced" if self.forced else "bound"

    def _take_column(self, columns: Columns, step: Step, emits: list[Emit]) -> None:
        """A frame leaves when its last code is chosen."""
        assert step.feed is not None
        num_frames = max(self.limit - columns.lag, 0)
        self.feed, frame = columns.take(step.feed.tolist(), num_frames)
        if frame is not None:
            emits.append(Emit("codes", frame))
        if step.logprob is not None:
            columns.logprobs.append(step.logprob.tolist())
        if self.is_full:
            self.reason = "bound"


class Step(NamedTuple):
    """A unit's outcome: positions that went in, what came out, and the chosen token (int, as int64 [1]) if any.

    Of a column the token is its first code, and `feed` all of them, [K].
    """

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
