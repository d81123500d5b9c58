"""The autoregressive talker: a 0.75M BART that reads one word's characters and writes its phonemes.

Architecture: BART (Lewis et al. 2020), post-norm, learned positions with an offset of 2, one layer on each side, one
head; checkpoint PeterReid/graphemes_to_phonemes_en_us. Module names follow the checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from omniflow.experts.smol_alphabet import CHARACTERS, PHONEMES
from omniflow.roles import SequenceState, StepResult, TokenRows

POSITION_OFFSET = 2


@dataclass(slots=True, kw_only=True, eq=False)
class WordState(SequenceState):
    """One word. keys, values: [max_positions, D] of the decoder; memory: ([S, D], [S, D]) once it is encoded."""

    source: Tensor
    keys: Tensor
    values: Tensor
    memory: tuple[Tensor, Tensor] | None = None
    is_open: bool = True


class Attention(nn.Module):
    """One head. `mask` is True where a query may look."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(width, width) for _ in range(4))

    def project(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.k_proj(x), self.v_proj(x)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        """x: [B, N, D]; keys, values: [B, K, D]; mask: bool [B, N or 1, K]."""
        attended: Tensor = self.out_proj(F.scaled_dot_product_attention(self.q_proj(x), keys, values, attn_mask=mask))
        return attended


class Layer(nn.Module):
    """Post-norm attention, cross attention on the decoder's side, and two linear layers."""

    def __init__(self, width: int, hidden: int, *, is_decoder: bool) -> None:
        super().__init__()
        self.self_attn = Attention(width)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        if is_decoder:
            self.encoder_attn = Attention(width)
            self.encoder_attn_layer_norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, width)
        self.final_layer_norm = nn.LayerNorm(width)

    def finish(self, x: Tensor) -> Tensor:
        y: Tensor = self.final_layer_norm(x + self.fc2(F.gelu(self.fc1(x))))
        return y


class Side(nn.Module):
    """The encoder or the decoder: positions, embedding norm, one layer."""

    def __init__(self, width: int, hidden: int, max_positions: int, *, is_decoder: bool) -> None:
        super().__init__()
        self.embed_positions = nn.Embedding(max_positions + POSITION_OFFSET, width)
        self.layernorm_embedding = nn.LayerNorm(width)
        self.layers = nn.ModuleList([Layer(width, hidden, is_decoder=is_decoder)])

    @property
    def layer(self) -> Layer:
        layer = self.layers[0]
        assert isinstance(layer, Layer)
        return layer

    def enter(self, embeds: Tensor, positions: Tensor) -> Tensor:
        x: Tensor = self.layernorm_embedding(embeds + self.embed_positions(positions + POSITION_OFFSET))
        return x


class Body(nn.Module):
    """Both sides over one table of embeddings, as the checkpoint names them."""

    def __init__(self, *, vocab_size: int, width: int, hidden: int, max_positions: int) -> None:
        super().__init__()
        self.shared = nn.Embedding(vocab_size, width)
        self.encoder = Side(width, hidden, max_positions, is_decoder=False)
        self.decoder = Side(width, hidden, max_positions, is_decoder=True)


class SmolTalker(nn.Module):
    """Role Autoregressor (omniflow.roles). Condition `source`: int64 [n], a framed word (spell_word)."""

    final_logits_bias: Tensor

    def __init__(self, *, vocab_size: int, width: int, hidden: int, max_positions: int, start_id: int) -> None:
        super().__init__()
        self.model = Body(vocab_size=vocab_size, width=width, hidden=hidden, max_positions=max_positions)
        self.register_buffer("final_logits_bias", torch.zeros(1, vocab_size))
        self.max_positions = max_positions
        self._start_ids = (start_id,)

    @property
    def vocab_size(self) -> int:
        return self.model.shared.num_embeddings

    @property
    def start_ids(self) -> Sequence[int]:
        return self._start_ids

    def open(self, conditions: Mapping[str, Tensor], *, max_positions: int) -> WordState:
        """A new word. Raises ValueError when the source or `max_positions` is outside what the network was made for."""
        source = conditions["source"]
        if source.ndim != 1 or not 0 < len(source) <= self.max_positions:
            raise ValueError(f"the talker reads 1 to {self.max_positions} characters, got shape {list(source.shape)}")
        if int(source.min()) < 0 or int(source.max()) >= self.vocab_size:
            raise ValueError(f"character ids must be 0 to {self.vocab_size - 1}, got {source.tolist()}")
        if not 0 < max_positions <= self.max_positions:
            raise ValueError(f"the talker has {self.max_positions} positions, {max_positions} were asked for")
        weight = self.model.shared.weight
        keys, values = weight.new_empty(2, max_positions, weight.shape[1])
        return WordState(source=source.to(weight.device), keys=keys, values=values)

    def close(self, sequence: SequenceState) -> None:
        assert isinstance(sequence, WordState)
        if not sequence.is_open:
            raise ValueError("this sequence is already closed")
        sequence.is_open = False
        sequence.memory = None
        sequence.keys = sequence.values = sequence.keys.new_empty(0)

    @torch.inference_mode()
    def step(self, rows: Sequence[TokenRows]) -> list[StepResult]:
        """One forward over all rows; words that start here are read first, together."""
        states = [_word(row) for row in rows]
        self._read([state for state in states if state.memory is None])
        embeds = [self._embed(row) for row in rows]
        counts = [len(e) for e in embeds]
        x = pad_sequence(embeds, batch_first=True)
        x = self._decode(x, self._positions(rows, counts), states, counts)
        last = x[torch.arange(len(rows)), torch.tensor(counts) - 1]
        logits = (last @ self.model.shared.weight.T + self.final_logits_bias).float()
        return [
            StepResult(
                logits=logits[i] if row.wants_logits else None,
                hidden=x[i, : counts[i]] if row.wants_hidden else None,
                embeds=embeds[i] if row.wants_embeds else None,
            )
            for i, row in enumerate(rows)
        ]

    def _embed(self, row: TokenRows) -> Tensor:
        """[n, D] of a row's new positions, on the device and in the dtype of the weights."""
        weight = self.model.shared.weight
        if row.ids is None:
            assert row.embeds is not None
            return row.embeds.to(weight)
        embeds: Tensor = self.model.shared(row.ids.to(weight.device))
        return embeds

    def _read(self, states: Sequence[WordState]) -> None:
        """Encodes the sources and keeps what the decoder's cross attention needs of them."""
        if not states:
            return
        lengths = torch.tensor([len(state.source) for state in states], device=self.final_logits_bias.device)
        ids = pad_sequence([state.source for state in states], batch_first=True)
        positions = torch.arange(ids.shape[1], device=ids.device)
        side, layer = self.model.encoder, self.model.encoder.layer
        x = side.enter(self.model.shared(ids), positions)
        mask = (positions < lengths[:, None])[:, None]
        x = layer.finish(layer.self_attn_layer_norm(x + layer.self_attn(x, *layer.self_attn.project(x), mask)))
        keys, values = self.model.decoder.layer.encoder_attn.project(x)
        for state, k, v in zip(states, keys, values, strict=True):
            state.memory = k[: len(state.source)], v[: len(state.source)]

    def _positions(self, rows: Sequence[TokenRows], counts: Sequence[int]) -> Tensor:
        device = self.final_logits_bias.device
        own = [
            torch.arange(n, device=device) + row.sequence.num_cached
            if row.positions is None
            else row.positions.to(device)
            for row, n in zip(rows, counts, strict=True)
        ]
        return pad_sequence(own, batch_first=True)

    def _decode(self, x: Tensor, positions: Tensor, states: Sequence[WordState], counts: Sequence[int]) -> Tensor:
        """x: [B, N, D] of new positions, padded; appends each row's own keys and values to its sequence."""
        layer = self.model.decoder.layer
        x = self.model.decoder.enter(x, positions)
        for state, n, k, v in zip(states, counts, *layer.self_attn.project(x), strict=True):
            end = state.num_cached + n
            state.keys[state.num_cached : end], state.values[state.num_cached : end] = k[:n], v[:n]
            state.num_cached = end
        x = layer.self_attn_layer_norm(x + layer.self_attn(x, *_past(states), _causal(states, counts, x.shape[1])))
        x = layer.encoder_attn_layer_norm(x + layer.encoder_attn(x, *_memory(states)))
        return layer.finish(x)


def _word(row: TokenRows) -> WordState:
    assert isinstance(row.sequence, WordState)
    n = len(row.ids) if row.ids is not None else 0 if row.embeds is None else len(row.embeds)
    if n == 0:
        raise ValueError("a step needs at least one new position")
    if row.sequence.num_cached + n > len(row.sequence.keys):
        raise ValueError(f"this word was opened for {len(row.sequence.keys)} positions and is full")
    return row.sequence


def _past(states: Sequence[WordState]) -> tuple[Tensor, Tensor]:
    keys = pad_sequence([state.keys[: state.num_cached] for state in states], batch_first=True)
    values = pad_sequence([state.values[: state.num_cached] for state in states], batch_first=True)
    return keys, values


def _causal(states: Sequence[WordState], counts: Sequence[int], width: int) -> Tensor:
    """bool [B, N, K]: new position i of a row sees the row's keys up to its own; padded ones see at least those."""
    device = states[0].keys.device
    first = torch.tensor([state.num_cached - n for state, n in zip(states, counts, strict=True)], device=device)
    keys = torch.arange(max(state.num_cached for state in states), device=device)
    return keys <= (first[:, None] + torch.arange(width, device=device))[..., None]


def _memory(states: Sequence[WordState]) -> tuple[Tensor, Tensor, Tensor]:
    memories = [state.memory for state in states if state.memory is not None]
    keys = pad_sequence([k for k, _ in memories], batch_first=True)
    values = pad_sequence([v for _, v in memories], batch_first=True)
    lengths = torch.tensor([len(k) for k, _ in memories], device=keys.device)
    return keys, values, (torch.arange(keys.shape[1], device=keys.device) < lengths[:, None])[:, None]


def load(folder: Path, *, dtype: torch.dtype, device: torch.device) -> SmolTalker:
    """Reads model.safetensors, config.json and vocab.json. Raises ValueError for a checkpoint of another alphabet."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    vocab = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    if vocab != {"characters": dict(CHARACTERS), "phonemes": dict(PHONEMES)}:
        raise ValueError(f"{folder / 'vocab.json'} is not the alphabet that smol_alphabet.py writes")
    talker = SmolTalker(
        vocab_size=config["vocab_size"],
        width=config["d_model"],
        hidden=config["decoder_ffn_dim"],
        max_positions=config["max_position_embeddings"],
        start_id=config["decoder_start_token_id"],
    )
    talker.load_state_dict(load_file(folder / "model.safetensors"))
    return talker.to(device=device, dtype=dtype).eval()
