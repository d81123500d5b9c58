"""What an expert of each role can do. Loops call these methods and nothing else of an expert.

Experts are re-entrant: what belongs to one request lives in the state objects they hand out, never on the module.
Every method that computes takes a list of rows of different requests and runs them as one forward; row `i` of the
answer belongs to row `i` of the question, and its values do not depend on its neighbours beyond float rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor


@dataclass(slots=True, kw_only=True, eq=False)
class SequenceState:
    """One sequence inside an autoregressive expert: what it has cached. Experts subclass it."""

    num_cached: int = 0  # tokens whose keys and values are cached


@dataclass(slots=True, kw_only=True, eq=False)
class TokenRows:
    """One sequence's share of a step: `n` new positions, as ids or as embeddings (exactly one of the two).

    Nobody changes one; it is not frozen because making one per token and step would cost several times as much.

    ids: int64 [n]; embeds: [n, D]; positions: int64 [n] or [axes, n], None for num_cached .. num_cached + n.
    """

    sequence: SequenceState
    ids: Tensor | None = None
    embeds: Tensor | None = None
    positions: Tensor | None = None
    wants_logits: bool = True  # logits of the last of the n positions
    wants_every: bool = False  # logits of all n positions, of experts bound by `score`
    wants_hidden: bool = False  # final hidden states of all n positions
    wants_embeds: bool = False  # input embeddings of all n positions


@dataclass(slots=True, kw_only=True, eq=False)
class StepResult:
    """logits: float32 [V] of the last position, [K, V] of an expert with K codebooks; hidden: [n, D]; embeds: [n, D];
    taps: named hidden states [n, D].

    best: the id of the largest logit, the first of equal ones, where the expert knows it without looking again; -1
    when a logit is not finite. every: float32 [n, V], the logits of all positions.
    """

    logits: Tensor | None
    hidden: Tensor | None = None
    embeds: Tensor | None = None
    taps: Mapping[str, Tensor] | None = None
    best: int | None = None
    every: Tensor | None = None


class Autoregressor(Protocol):
    """Role of experts bound by `ar_decode`: language models and encoder-decoders."""

    @property
    def vocab_size(self) -> int: ...

    def open(self, conditions: Mapping[str, Tensor], *, max_positions: int) -> SequenceState | None:
        """A new sequence of at most `max_positions`; None while the cache has no room (the caller waits).

        `conditions` holds the value ports that are not the prompt, e.g. `source` (int64 [n]) of an encoder-decoder.
        """

    def step(self, rows: Sequence[TokenRows]) -> list[StepResult]:
        """One forward over all rows; appends their keys and values to their sequences."""

    def close(self, sequence: SequenceState) -> None:
        """Gives everything the sequence holds back. Closing twice is an error of the caller."""

    @property
    def start_ids(self) -> Sequence[int]:
        """The ids that start an encoder-decoder's output; empty for decoders whose prompt is an input.

        Of an expert with codebooks the column that stands before the first one and where a codebook has no code; its
        ids are columns, int64 [n, K].
        """


@runtime_checkable
class Forks(Protocol):
    """What an autoregressive expert adds when a sequence may begin with what another one has cached."""

    @property
    def is_exact(self) -> bool:
        """Whether a position's bits are the same whatever else is in its step and however its prompt is cut."""

    def fork(self, source: SequenceState, target: SequenceState, num_tokens: int) -> None:
        """Gives `target`, which is shorter and has begun as `source` has, its first `num_tokens` as a copy."""

    def trim(self, sequence: SequenceState, num_tokens: int) -> None:
        """Cuts a sequence, which will not grow any more, to its first `num_tokens` and gives the other room back."""


Message = Mapping[str, Any]  # role and content: a text, or parts {"type": "image" | "audio" | "text", ...} in order


class Tokenizer(Protocol):
    """Role of components used by the text ops."""

    @property
    def stop_ids(self) -> Sequence[int]: ...

    def encode(self, text: str) -> list[int]: ...

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Ids of the rendered chat template with the generation prompt. messages: {"role", "content"} each."""

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, special tokens left out."""


@runtime_checkable
class Embedder(Protocol):
    """What an autoregressive expert adds when its input can be built outside, from ids and from rows with names."""

    def embed(self, ids: Tensor) -> Tensor:
        """Input embeddings [n, D] of int64 [n]; with an inner loop also of frames [n, codes]."""


@runtime_checkable
class NamesRows(Embedder, Protocol):
    """An embedder with rows that the checkpoint gives a meaning."""

    def named_row(self, name: str) -> Tensor:
        """A row [1, D] of the input space, e.g. `text_pad`. Errors: KeyError."""


@runtime_checkable
class Projector(Protocol):
    """What an expert adds when it can take rows of another one's space into its own."""

    def project(self, rows: Tensor, name: str) -> Tensor:
        """[n, D] of [n, outer] by the projection of that name. Errors: KeyError."""


@runtime_checkable
class Primed(Protocol):
    """What an autoregressive expert adds when its prompt follows from its conditions, as that of an inner loop does."""

    def prompt(self, conditions: Mapping[str, Tensor]) -> Tensor:
        """The prompt as ids int64 [P] or embeddings [P, D]."""


@runtime_checkable
class TurnTokenizer(Protocol):
    """What a tokenizer adds when a conversation may go on from the ids of its turns before."""

    def encode_turn(self, messages: Sequence[Message]) -> list[int]:
        """Ids that come behind a reply without its end: that end, the messages, the opening of the next reply."""


@runtime_checkable
class FixedTokenizer(Protocol):
    """What a tokenizer adds when its model reads a fixed number of tokens."""

    def encode_fixed(self, text: str, length: int) -> tuple[list[int], list[int]]:
        """Exactly `length` ids (0: as many as the model reads at most), and 1 for those that are text."""


class FeatureExtractor(Protocol):
    """Role of components that prepare sounds for an encoder."""

    def features(self, samples: Tensor, *, end: str) -> Tensor:
        """float32 [bands, F] of one channel's samples; `end`: the sound goes on in `silence` or in its `mirror` image.

        Errors: ValueError for a sound that is too short or too long.
        """


class ImageProcessor(Protocol):
    """Role of components that prepare pictures for an encoder."""

    def patches(self, picture: Tensor) -> tuple[Tensor, Tensor]:
        """float32 [Q, numbers] and int64 [3] (frames, rows, columns of patches) of uint8 [H, W, 3].

        Errors: ValueError for a picture that cannot be cut.
        """


class Lexicon(Protocol):
    """Role of components between text and a talker, and between a talker's words and an acoustic model."""

    @property
    def end_id(self) -> int:
        """The id, outside the talker's own, that closes a phrase."""

    def spell(self, text: str) -> list[tuple[list[int], list[int]]]:
        """The words of a phrase in order: (characters for the talker, ids spoken as they are); one is empty."""

    def to_acoustic(self, ids: Sequence[int]) -> list[int]:
        """A phrase's ids, words and forced ones joined and without `end_id`, as the acoustic model's input."""


class Encoder(Protocol):
    """Role of experts bound by `encode`: one pass from inputs to features."""

    def encode(self, rows: Sequence[Mapping[str, Tensor]]) -> list[Mapping[str, Tensor]]:
        """One mapping of port name to tensor per row, no request axis."""


@dataclass(slots=True, kw_only=True, eq=False)
class DecoderState:
    """What a streaming decoder carries from chunk to chunk of one item. Experts subclass it."""

    num_frames: int = 0  # frames decoded so far


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderRows:
    """One chunk for a streaming decoder.

    frames: port name to [left + new + right, ...]; `left` and `right` count context rows that are given but not to be
    decoded again. Ports without context have exactly `new` rows. `is_last` drains what the decoder holds back.
    """

    state: DecoderState
    frames: Mapping[str, Tensor]
    left: int
    new: int
    right: int
    is_last: bool


class StreamDecoder(Protocol):
    """Role of experts bound by `audio_decode`: frames in, samples out, chunk by chunk."""

    def open(self, *, generator: torch.Generator) -> DecoderState:
        """State for a new item; `generator` is the item's own source of noise."""

    def decode(self, rows: Sequence[DecoderRows]) -> list[Tensor]:
        """Samples [S] (or [S, channels]) per row; over all chunks of an item they add up to frames * hop."""


Latents = Tensor | Mapping[str, Tensor]  # one latent, or several that are denoised together, by output port


class Denoiser(Protocol):
    """Role of experts bound by `diffusion_denoise`. Conditions are the values of the loop's ports, scalars included."""

    def initial(self, conditions: Mapping[str, Any], *, generator: torch.Generator) -> Latents:
        """Noise of the latent's shape for one request."""

    def velocity(
        self, latents: Sequence[Latents], times: Sequence[float], conditions: Sequence[Mapping[str, Any]]
    ) -> Sequence[Latents]:
        """Predicted velocity per row, each of its latent's shape; guidance branches are rows like any other.

        Times run from 0 (noise) to 1 (data), and the velocity is the latent's change per unit of time.
        """


class ChunkRow(NamedTuple):
    """One chunk of a world: its latent at a time from 0 (noise) to 1 (data), and what it lies behind.

    past: what was kept of the chunks before it, the oldest first, as many as the loop's window has; number: how many
    chunks there have been since the world began. conditions: values of the loop's ports. action: the chunk's own, [A].
    """

    latent: Tensor
    time: float
    past: tuple[Tensor, ...]
    number: int
    conditions: Mapping[str, Any]
    action: Tensor | None


class WorldModel(Protocol):
    """Role of experts bound by `chunk_rollout`: a denoiser of one chunk behind those before it."""

    def initial(self, conditions: Mapping[str, Any], *, generator: torch.Generator) -> Tensor:
        """Noise of a chunk's shape."""

    def velocity(self, rows: Sequence[ChunkRow]) -> Sequence[Tensor]:
        """Predicted velocity per row, of its latent's shape. Pasts may be of different lengths."""

    def keep(self, rows: Sequence[ChunkRow]) -> Sequence[Tensor]:
        """What later chunks need of each row, a chunk without noise at time 1: its keys and values, in one tensor."""


@runtime_checkable
class Sequential(Protocol):
    """What a denoiser adds when its noise levels may depend on how large a latent is."""

    def sequence_length(self, latents: Latents) -> int:
        """How many positions its transformer sees of a latent."""


@runtime_checkable
class AnyLength(Protocol):
    """What a denoiser adds when latents of different lengths may be rows of one call."""

    any_length: bool


@runtime_checkable
class Prepares(Protocol):
    """What a denoiser adds when part of its work depends on neither latent nor time: it is done once a request."""

    def prepare(self, conditions: Mapping[str, Any]) -> Mapping[str, Any]:
        """What `velocity` takes in place of the conditions, for the same answer."""


@runtime_checkable
class SelfGuided(Protocol):
    """What a denoiser or a decoder adds when it makes the unconditional branch of guidance itself."""

    def unconditional(self, conditions: Mapping[str, Any]) -> Mapping[str, Any]:
        """The conditions of the row that guidance steers away from."""


class TileDecoder(Protocol):
    """Role of experts bound by `vae_tile`: latents in, pixels out."""

    @property
    def scale(self) -> int:
        """Pixels per latent element, along both axes."""

    def decode_tiles(self, tiles: Sequence[Tensor]) -> list[Tensor]:
        """Pixels [scale * h, scale * w, channels] of latents [C, h, w], or frames [F, ...] of them of [C, T, h, w].

        All tiles of a call have one shape.
        """
