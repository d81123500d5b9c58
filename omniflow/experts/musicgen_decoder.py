"""MusicGen's decoder: columns of codes in, logits of every codebook out, with cross-attention to a text.

Reference: `MusicgenForCausalLM` and `enc_to_dec_proj` of transformers (modeling_musicgen.py). The keys and values of
the text lie in the sequence's extent of the arena, in front of those of its columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omniflow.experts.lean import Checkpoint, LeanSequence
from omniflow.experts.lean.attention import attend
from omniflow.experts.lean.batch import Span, lay_out, slots_of
from omniflow.experts.lean.linear import prepare
from omniflow.experts.musicgen_config import DECODER, PROJECTION, read_section
from omniflow.experts.qwen2_5_omni_tensors import expect, fill, number
from omniflow.kv import KvArena
from omniflow.roles import SequenceState, StepResult, TokenRows

Json = Any
BODY = f"{DECODER}model.decoder."
POSITIONS = "embed_positions."  # which some checkpoints keep, although they follow from the width


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderConfig:
    """text: the width of the text's rows, 0 where they are as wide as the decoder and need no projection."""

    codes: int
    codebooks: int
    width: int
    hidden: int
    layers: int
    heads: int
    filler: int
    text: int

    @staticmethod
    def parse(section: Mapping[str, Json], text_width: int) -> DecoderConfig:
        """Errors: CheckpointError naming the field."""
        for name, known in (
            ("activation_function", "gelu"), ("scale_embedding", False),
            ("cross_attention_hidden_size", None),
        ):  # fmt: skip
            expect(section, name, known)
        width = number(section, "hidden_size")
        return DecoderConfig(
            codes=number(section, "vocab_size"),
            codebooks=number(section, "num_codebooks"),
            width=width,
            hidden=number(section, "ffn_dim"),
            layers=number(section, "num_hidden_layers"),
            heads=number(section, "num_attention_heads"),
            filler=number(section, "pad_token_id"),
            text=0 if text_width == width else text_width,
        )


@dataclass(slots=True, kw_only=True, eq=False)
class MusicSequence(LeanSequence):
    """`num_text` rows of the extent are for the text; `num_cached` counts them, once they are read."""

    text: Tensor | None
    num_text: int


class Attention(nn.Module):
    """Projections of an attention, without biases."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(width, width, bias=False) for _ in range(4))


class Layer(nn.Module):
    """Weights of a layer, as the checkpoint names them."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        width = config.width
        self.self_attn, self.encoder_attn = Attention(width), Attention(width)
        self.self_attn_layer_norm, self.encoder_attn_layer_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.final_layer_norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, config.hidden, bias=False)
        self.fc2 = nn.Linear(config.hidden, width, bias=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A flat step. spans: of its rows among the columns; reads: a span per row that hears a text.

    readers: int64, the rows that hear one; None for all of them.
    """

    slots: Tensor
    spans: tuple[Span, ...]
    reads: tuple[Span, ...]
    readers: Tensor | None


class FusedLayer:
    """Attention to the columns, attention to the text and a feed-forward part, each behind a norm."""

    def __init__(self, weights: Layer, heads: int) -> None:
        own, text = weights.self_attn, weights.encoder_attn
        self.heads = heads
        self.norms = weights.self_attn_layer_norm, weights.encoder_attn_layer_norm, weights.final_layer_norm
        self.qkv = prepare(torch.cat([own.q_proj.weight, own.k_proj.weight, own.v_proj.weight]), None)
        self.out = prepare(own.out_proj.weight, None)
        self.query = prepare(text.q_proj.weight, None)
        self.memory = prepare(torch.cat([text.k_proj.weight, text.v_proj.weight]), None)
        self.heard = prepare(text.out_proj.weight, None)
        self.inner, self.outer = prepare(weights.fc1.weight, None), prepare(weights.fc2.weight, None)

    def __call__(self, x: Tensor, step: Step, keys: Tensor, values: Tensor) -> Tensor:
        """x: [T, width]; keys, values: this layer's of the arena."""
        query, key, value = self.qkv(self.norms[0](x)).view(len(x), 3, self.heads, -1).unbind(1)
        keys.index_copy_(0, step.slots, key)
        values.index_copy_(0, step.slots, value)
        x = x + self.out(attend(query, keys, values, step.spans))
        if step.reads:
            x = self._listen(x, step, keys, values)
        return x + self.outer(F.gelu(self.inner(self.norms[2](x))))

    def _listen(self, x: Tensor, step: Step, keys: Tensor, values: Tensor) -> Tensor:
        """Adds what rows with a text hear of it; what rows without one hear is zero."""
        mine = x if step.readers is None else x[step.readers]
        query = self.query(self.norms[1](mine)).view(len(mine), self.heads, -1)
        heard = self.heard(attend(query, keys, values, step.reads))
        return x + heard if step.readers is None else x.index_add(0, step.readers, heard)

    def read(self, text: Tensor, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """Puts the keys and values of texts [P, width] where their rows look for them."""
        key, value = self.memory(text).view(len(text), 2, self.heads, -1).unbind(1)
        keys.index_copy_(0, slots, key)
        values.index_copy_(0, slots, value)


class Stack(nn.Module):
    """Tables and layers, as the checkpoint names them."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.ModuleList(nn.Embedding(config.codes + 1, config.width) for _ in range(config.codebooks))
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.layer_norm = nn.LayerNorm(config.width)


class Heads(nn.Module):
    """A head per codebook."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.lm_heads = nn.ModuleList(
            nn.Linear(config.width, config.codes, bias=False) for _ in range(config.codebooks)
        )


class MusicDecoder:
    """Role Autoregressor, SelfGuided. Condition `text` [P, text]: what the music follows; nothing at all without it."""

    def __init__(
        self, config: DecoderConfig, *, stack: Stack, heads: Heads, projection: nn.Linear | None, arena: KvArena
    ) -> None:
        self.config = config
        self.projection, self.arena, self.norm = projection, arena, stack.layer_norm
        tables: list[Any] = list(stack.embed_tokens)
        outputs: list[Any] = list(heads.lm_heads)
        layers: list[Any] = list(stack.layers)[::-1]
        del stack.layers
        self.layers = [FusedLayer(layers.pop(), config.heads) for _ in range(config.layers)]  # one in memory twice
        self.table = torch.cat([table.weight for table in tables])  # [codebooks * (codes + 1), width]
        self.head = prepare(torch.cat([output.weight for output in outputs]), None)  # codebook by codebook
        device, half = self.table.device, config.width // 2
        self.offsets = torch.arange(config.codebooks, device=device) * (config.codes + 1)
        self.rates = torch.exp(torch.arange(half).float() * -(math.log(10000) / (half - 1))).to(device)

    @property
    def vocab_size(self) -> int:
        """How many codes a codebook has."""
        return self.config.codes

    @property
    def start_ids(self) -> Sequence[int]:
        """The column before the first."""
        return (self.config.filler,) * self.config.codebooks

    def unconditional(self, conditions: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Guidance steers away from music without a text."""
        del conditions
        return {}

    def open(self, conditions: Mapping[str, Tensor], *, max_positions: int) -> MusicSequence | None:
        """A new sequence; None while the cache has no room."""
        text = conditions.get("text")
        num_text = 0 if text is None else len(text)
        extent = self.arena.lease(num_text + max_positions)
        if extent is None:
            return None
        return MusicSequence(
            extent=extent, max_positions=num_text + max_positions, text=text if num_text else None, num_text=num_text
        )

    def close(self, sequence: SequenceState) -> None:
        """Frees what the sequence holds. Errors: ValueError when it is closed already."""
        if not isinstance(sequence, MusicSequence) or not sequence.is_open:
            raise ValueError("the sequence was not opened by this decoder, or is closed already")
        self.arena.free(sequence.extent)
        sequence.is_open, sequence.text = False, None

    @torch.inference_mode()
    def step(self, rows: Sequence[TokenRows]) -> list[StepResult]:
        """One forward over all rows; texts that nobody has read yet are read first, together."""
        sequences = [_music(row) for row in rows]
        self._read([sequence for sequence in sequences if sequence.num_cached < sequence.num_text])
        spans = lay_out(rows)
        x = self._embed(rows, sequences, spans)
        step = self._lay_out(sequences, spans)
        for index, layer in enumerate(self.layers):
            x = layer(x, step, self.arena.keys[index], self.arena.values[index])
        for sequence, span in zip(sequences, spans, strict=True):
            sequence.num_cached += span.num_new
        wanted = [i for i, row in enumerate(rows) if row.wants_logits]
        logits = dict(zip(wanted, self._logits(x, [spans[i] for i in wanted]), strict=True)) if wanted else {}
        return [StepResult(logits=logits.get(i)) for i in range(len(rows))]

    def _logits(self, x: Tensor, spans: Sequence[Span]) -> Tensor:
        """float32 [W, codebooks, codes] of the last row of each span."""
        last = [span.row + span.num_new - 1 for span in spans]
        x = x if len(last) == len(x) else x[torch.tensor(last, device=x.device)]
        return self.head(self.norm(x)).float().view(len(x), self.config.codebooks, -1)

    def _embed(self, rows: Sequence[TokenRows], sequences: Sequence[MusicSequence], spans: Sequence[Span]) -> Tensor:
        """[T, width]: the sum of a column's codes and its place."""
        ids = torch.cat([row.ids for row in rows if row.ids is not None]).to(self.table.device)
        codes = F.embedding(ids + self.offsets, self.table).sum(1)
        firsts = [span.past - sequence.num_text for span, sequence in zip(spans, sequences, strict=True)]
        places = torch.tensor([f + i for f, span in zip(firsts, spans, strict=True) for i in range(span.num_new)])
        angles = places.to(codes.device).float()[:, None] * self.rates
        waves = torch.cat([angles.cos(), angles.sin()], dim=1)
        return codes + F.pad(waves, (0, self.config.width - waves.shape[1])).to(codes.dtype)

    def _lay_out(self, sequences: Sequence[MusicSequence], spans: Sequence[Span]) -> Step:
        device = self.table.device
        readers: list[int] = []
        reads: list[Span] = []
        for sequence, span in zip(sequences, spans, strict=True):
            for row in range(span.row, span.row + span.num_new) if sequence.num_text else ():
                past, start = sequence.num_text - 1, sequence.extent.start
                reads.append(Span(row=len(reads), num_new=1, past=past, start=start))
                readers.append(row)
        own = tuple(
            replace(span, past=span.past - sequence.num_text, start=span.start + sequence.num_text)
            for sequence, span in zip(sequences, spans, strict=True)
        )
        num_rows = sum(span.num_new for span in spans)
        return Step(
            slots=slots_of(own).to(device),
            spans=own,
            reads=tuple(reads),
            readers=None if len(readers) == num_rows else torch.tensor(readers, dtype=torch.int64, device=device),
        )

    def _read(self, sequences: Sequence[MusicSequence]) -> None:
        """Puts the keys and values of texts where the layers look for them."""
        texts = [sequence.text for sequence in sequences if sequence.text is not None]
        if not texts:
            return
        x = torch.cat([text.to(self.table) for text in texts])
        if self.projection is not None:
            x = self.projection(x)
        spans = [Span(row=0, num_new=sequence.num_text, past=0, start=sequence.extent.start) for sequence in sequences]
        slots = slots_of(spans).to(x.device)
        for index, layer in enumerate(self.layers):
            layer.read(x, slots, self.arena.keys[index], self.arena.values[index])
        for sequence in sequences:
            sequence.num_cached = sequence.num_text


def _music(row: TokenRows) -> MusicSequence:
    if not isinstance(row.sequence, MusicSequence):
        raise ValueError("the sequence of a row was not opened by this decoder")
    return row.sequence


def load_decoder(
    folder: Path, *, dtype: torch.dtype, device: torch.device, cache_bytes: int, block_tokens: int
) -> MusicDecoder:
    """The decoder with its tables, heads and the projection of the text. Errors: CheckpointError."""
    text_width = number(read_section(folder, "text_encoder", "t5"), "d_model")
    config = DecoderConfig.parse(read_section(folder, "decoder", "musicgen_decoder"), text_width)
    checkpoint = Checkpoint(folder)
    with torch.device("meta"):
        stack, heads = Stack(config), Heads(config)
        projection = nn.Linear(config.text, config.width) if config.text else None
    fill(stack, checkpoint, BODY, dtype=dtype, device=device, others=(POSITIONS,))
    fill(heads, checkpoint, DECODER, dtype=dtype, device=device, others=("model.decoder.",))
    if projection is not None:
        fill(projection, checkpoint, PROJECTION, dtype=dtype, device=device)
    token_bytes = 2 * config.layers * config.width * dtype.itemsize
    num_blocks = max(1, -(-(cache_bytes // token_bytes) // block_tokens))
    arena = KvArena(
        num_layers=config.layers, num_kv_heads=config.heads, head_dim=config.width // config.heads,
        num_blocks=num_blocks, block_tokens=block_tokens, dtype=dtype, device=device,
    )  # fmt: skip
    return MusicDecoder(config, stack=stack, heads=heads, projection=projection, arena=arena)
