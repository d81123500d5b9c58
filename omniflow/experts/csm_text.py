"""CSM's two language models: the backbone writes the first code of each frame, the depth decoder the others.

Reference: `CsmForConditionalGeneration` of transformers (modeling_csm.py, generation_csm.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omniflow.experts.hf_folder import read_config
from omniflow.experts.lean import Checkpoint, CheckpointError, LeanConfig, LeanDecoder, TensorNames, load, parse_config
from omniflow.experts.qwen2_5_omni_tensors import fill, number
from omniflow.experts.qwen2_5_omni_text import cache_tokens
from omniflow.kv import ExtentLedger
from omniflow.roles import SequenceState, StepResult, TokenRows

Json = Any
MODEL_TYPE = "csm"
AUDIO_TABLES = ("backbone_model.embed_tokens.embed_audio_tokens.", "depth_decoder.model.embed_tokens.")  # tied
LLAMA_FIELDS = (
    "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim "
    "rms_norm_eps hidden_act attention_bias mlp_bias rope_parameters rope_theta rope_scaling"
).split()


def read_root(folder: Path) -> Mapping[str, Json]:
    """config.json of a CSM checkpoint. Errors: CheckpointError for another architecture."""
    return read_config(folder, key="model_type", kind=MODEL_TYPE)


def read_part(folder: Path, section: str) -> Mapping[str, Json]:
    """A section of config.json. Errors: CheckpointError."""
    part = read_root(folder).get(section)
    if not isinstance(part, dict):
        raise CheckpointError(f"{folder / 'config.json'}: there is no section `{section}`")
    return part


class FrameModel:
    """What both models share: a lean decoder that is fed rows, and its cache."""

    def __init__(self, decoder: LeanDecoder) -> None:
        self.decoder = decoder

    @property
    def vocab_size(self) -> int:
        """How many codes a group has."""
        return self.decoder.vocab_size

    @property
    def start_ids(self) -> Sequence[int]:
        """None: the prompt is an input, or follows from the conditions."""
        return ()

    @property
    def arena(self) -> ExtentLedger:
        """Who holds what of the cache."""
        return self.decoder.arena

    def open(self, conditions: Mapping[str, Tensor], *, max_positions: int) -> SequenceState | None:
        """A new sequence; None while the cache has no room."""
        del conditions
        return self.decoder.open({}, max_positions=max_positions)

    def close(self, sequence: SequenceState) -> None:
        """Frees what the sequence holds."""
        self.decoder.close(sequence)


class Backbone(FrameModel):
    """Role Autoregressor, Embedder's `embed`: text ids and frames in, the first code of each frame out."""

    def __init__(self, decoder: LeanDecoder, *, text: Tensor, codes: Tensor) -> None:
        super().__init__(decoder)
        self.text, self.codes = text, codes

    def embed(self, ids: Tensor) -> Tensor:
        """[n, H] of text ids int64 [n], or of frames [n, groups], whose codes' embeddings are added up."""
        if ids.ndim == 1:
            return F.embedding(ids.to(self.text.device), self.text)
        offsets = torch.arange(ids.shape[1], device=self.codes.device) * self.vocab_size
        return F.embedding(ids.to(self.codes.device) + offsets, self.codes).sum(1)

    def step(self, rows: Sequence[TokenRows]) -> list[StepResult]:
        """One forward over all rows."""
        return self.decoder.step([self._embedded(row) for row in rows])

    def _embedded(self, row: TokenRows) -> TokenRows:
        return row if row.ids is None else replace(row, ids=None, embeds=self.embed(row.ids))


class Depth(FrameModel):
    """Role Autoregressor, Primed. Conditions: `hidden` [1, H] of the backbone and `first` int64 [1], its code.

    Code t of a frame is embedded with table t and chosen by head t - 1.
    """

    def __init__(self, decoder: LeanDecoder, *, codes: Tensor, projector: Tensor, heads: Tensor) -> None:
        super().__init__(decoder)
        self.codes, self.projector = codes, projector
        self.heads = heads  # [groups - 1, D, codes]

    def prompt(self, conditions: Mapping[str, Tensor]) -> Tensor:
        """[2, H]: the backbone's hidden state, then the embedding of the code that it chose."""
        first = F.embedding(conditions["first"].to(self.codes.device), self.codes)
        return torch.cat([conditions["hidden"].to(first), first])

    @torch.inference_mode()
    def step(self, rows: Sequence[TokenRows]) -> list[StepResult]:
        """One projection and one forward over all rows, then one product per head that some row needs."""
        outer = [self._outer(row) for row in rows]
        inner = F.linear(torch.cat(outer), self.projector).split([len(part) for part in outer])
        fed = [
            replace(row, ids=None, embeds=own, wants_logits=False, wants_hidden=True)
            for row, own in zip(rows, inner, strict=True)
        ]
        results = self.decoder.step(fed)
        heads = [row.sequence.num_cached - 2 for row in rows]
        logits: dict[int, Tensor] = {}
        for head in {head for head, row in zip(heads, rows, strict=True) if row.wants_logits}:
            mine = [i for i, row in enumerate(rows) if heads[i] == head and row.wants_logits]
            last = torch.stack([_hidden(results[i])[-1] for i in mine])
            logits.update(zip(mine, (last @ self.heads[head]).float(), strict=True))
        return [replace(result, logits=logits.get(i)) for i, result in enumerate(results)]

    def _outer(self, row: TokenRows) -> Tensor:
        if row.embeds is not None:
            return row.embeds.to(self.codes)
        assert row.ids is not None
        group = row.sequence.num_cached - 1
        return F.embedding(row.ids.to(self.codes.device) + group * self.vocab_size, self.codes)


def _hidden(result: StepResult) -> Tensor:
    assert result.hidden is not None
    return result.hidden


def load_backbone(
    folder: Path, *, dtype: torch.dtype, device: torch.device, cache_bytes: int, block_tokens: int
) -> Backbone:
    """The backbone with its tables of text and codes. Errors: CheckpointError."""
    root, config, checkpoint = read_root(folder), _llama(read_root(folder), folder), Checkpoint(folder)
    with torch.device("meta"):
        text = nn.Embedding(number(root, "text_vocab_size"), config.hidden_size)
    fill(text, checkpoint, "embed_text_tokens.", dtype=dtype, device=device)
    body = "backbone_model."
    names = TensorNames(body=body, embed=None, head="lm_head.weight", others=(f"{body}embed_tokens.",))
    decoder = load(
        folder, config=config, names=names, dtype=dtype, device=device,
        cache_tokens=cache_tokens(config, cache_bytes, dtype), block_tokens=block_tokens,
    )  # fmt: skip
    codes = _code_table(root, checkpoint, config.hidden_size, dtype, device)
    return Backbone(decoder, text=text.weight, codes=codes)


def load_depth(folder: Path, *, dtype: torch.dtype, device: torch.device, cache_bytes: int, block_tokens: int) -> Depth:
    """The depth decoder with its table, projector and heads. Errors: CheckpointError."""
    root, section = read_root(folder), read_part(folder, "depth_decoder_config")
    config, outer = _llama(section, folder), number(section, "backbone_hidden_size")
    checkpoint, body = Checkpoint(folder), "depth_decoder.model."
    with torch.device("meta"):
        projector = nn.Linear(outer, config.hidden_size, bias=False)
        heads = _Heads(number(section, "num_codebooks") - 1, config.hidden_size, config.vocab_size)
    fill(projector, checkpoint, f"{body}inputs_embeds_projector.", dtype=dtype, device=device)
    fill(heads, checkpoint, "depth_decoder.codebooks_head.", dtype=dtype, device=device)
    others = (f"{body}embed_tokens.", f"{body}inputs_embeds_projector.")
    decoder = load(
        folder, config=config, names=TensorNames(body=body, embed=None, head=None, others=others), dtype=dtype,
        device=device, cache_tokens=cache_tokens(config, cache_bytes, dtype), block_tokens=block_tokens,
    )  # fmt: skip
    codes = _code_table(root, checkpoint, outer, dtype, device)
    return Depth(decoder, codes=codes, projector=projector.weight, heads=heads.weight)


class _Heads(nn.Module):
    """A matrix per further group, [groups, D, codes]."""

    def __init__(self, groups: int, width: int, codes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(groups, width, codes))


def _llama(section: Mapping[str, Json], folder: Path) -> LeanConfig:
    """The fields of a Llama, under whatever name the two models go."""
    fields = {name: section[name] for name in LLAMA_FIELDS if section.get(name) is not None}
    return parse_config({**fields, "model_type": "llama"}, where=str(folder / "config.json"))


def _code_table(
    root: Mapping[str, Json], checkpoint: Checkpoint, width: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Embeddings of the codes of all groups, [groups * codes, width]; the two models share them."""
    with torch.device("meta"):
        table = nn.Embedding(number(root, "num_codebooks") * number(root, "vocab_size"), width)
    present = [prefix for prefix in AUDIO_TABLES if f"{prefix}weight" in checkpoint.shapes]
    fill(table, checkpoint, (present or AUDIO_TABLES)[0], dtype=dtype, device=device)
    return table.weight
