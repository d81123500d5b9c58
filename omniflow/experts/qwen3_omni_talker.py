"""Qwen3-Omni's talker and its code predictor: a frame of codes per step, the first by one model, the rest by the other.

Reference: `Qwen3OmniMoeTalkerForConditionalGeneration` of transformers (modeling_qwen3_omni_moe.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omniflow.experts.lean import Checkpoint, LeanDecoder, TensorNames, load, read_config
from omniflow.experts.qwen2_5_omni_tensors import expect, fill, number
from omniflow.experts.qwen2_5_omni_text import Placed, cache_tokens
from omniflow.experts.qwen3_omni_config import read_section
from omniflow.kv import ExtentLedger
from omniflow.roles import SequenceState, StepResult, TokenRows

TALKER, PREDICTOR = "talker_config.text_config", "talker_config.code_predictor_config"
PROJECTIONS = ("text", "hidden")


class Projection(nn.Module):
    """Two layers from the thinker's space to the talker's."""

    def __init__(self, outer: int, middle: int, inner: int) -> None:
        super().__init__()
        self.linear_fc1, self.linear_fc2 = nn.Linear(outer, middle), nn.Linear(middle, inner)

    def forward(self, rows: Tensor) -> Tensor:
        out: Tensor = self.linear_fc2(F.silu(self.linear_fc1(rows)))
        return out


class Talker(Placed):
    """Role Autoregressor, Projector, Embedder's `embed`. Writes the first code of each frame, reads whole frames."""

    def __init__(
        self, decoder: LeanDecoder, *, tables: Sequence[Tensor], projections: Mapping[str, Projection]
    ) -> None:
        super().__init__(decoder)
        self.tables = tuple(tables)
        self.projections = dict(projections)

    def embed(self, ids: Tensor) -> Tensor:
        """[n, D] of codec ids int64 [n], or of frames [n, groups], whose codes' embeddings are added up."""
        columns = ids.to(self.tables[0].device).view(len(ids), -1).unbind(1)
        rows = [F.embedding(column, table) for column, table in zip(columns, self.tables, strict=False)]
        return torch.stack(rows, dim=1).sum(1) if len(rows) > 1 else rows[0]

    @torch.inference_mode()
    def project(self, rows: Tensor, name: str) -> Tensor:
        """[n, D] of the thinker's rows [n, H]: embeddings by `text`, hidden states by `hidden`."""
        projection = self.projections[name]
        out: Tensor = projection(rows.to(projection.linear_fc1.weight))
        return out

    def step(self, rows: Sequence[TokenRows]) -> list[StepResult]:
        """One forward over all rows."""
        return super().step([_embedded(row, self) for row in rows])


def _embedded(row: TokenRows, talker: Talker) -> TokenRows:
    return row if row.ids is None else replace(row, ids=None, embeds=talker.embed(row.ids))


class Predictor:
    """Role Autoregressor, Primed. Conditions: `hidden` [1, D] of the talker and `first` [1, D], its code's embedding.

    Step t of a frame reads table t - 1 and writes through head t.
    """

    def __init__(self, decoder: LeanDecoder, *, tables: Sequence[Tensor], heads: Sequence[Tensor]) -> None:
        self.decoder = decoder
        self.tables, self.heads = tuple(tables), tuple(heads)

    @property
    def vocab_size(self) -> int:
        """How many codes a group has."""
        return self.decoder.vocab_size

    @property
    def start_ids(self) -> Sequence[int]:
        """None: the prompt follows from the conditions."""
        return ()

    @property
    def arena(self) -> ExtentLedger:
        """Who holds what of the cache."""
        return self.decoder.arena

    def prompt(self, conditions: Mapping[str, Tensor]) -> Tensor:
        """[2, D]: the talker's hidden state, then the embedding of the code that it chose."""
        return torch.cat([conditions["hidden"], conditions["first"]])

    def open(self, conditions: Mapping[str, Tensor], *, max_positions: int) -> SequenceState | None:
        """A new frame; None while the cache has no room."""
        del conditions
        return self.decoder.open({}, max_positions=max_positions)

    def close(self, sequence: SequenceState) -> None:
        """Frees what the frame holds."""
        self.decoder.close(sequence)

    @torch.inference_mode()
    def step(self, rows: Sequence[TokenRows]) -> list[StepResult]:
        """One forward over all rows, then one product per head that some row needs."""
        fed = [self._embedded(row) for row in rows]
        results = self.decoder.step([replace(row, wants_logits=False, wants_hidden=True) for row in fed])
        heads = [row.sequence.num_cached - 2 for row in rows]
        logits: dict[int, Tensor] = {}
        for head in {head for head, row in zip(heads, rows, strict=True) if row.wants_logits}:
            mine = [i for i, row in enumerate(rows) if heads[i] == head and row.wants_logits]
            last = torch.stack([_hidden(results[i])[-1] for i in mine])
            logits.update(zip(mine, F.linear(last, self.heads[head]).float(), strict=True))
        return [replace(result, logits=logits.get(i)) for i, result in enumerate(results)]

    def _embedded(self, row: TokenRows) -> TokenRows:
        if row.ids is None:
            return row
        table = self.tables[row.sequence.num_cached - 2]
        return replace(row, ids=None, embeds=F.embedding(row.ids.to(table.device), table))


def _hidden(result: StepResult) -> Tensor:
    assert result.hidden is not None
    return result.hidden


def load_talker(
    folder: Path, *, dtype: torch.dtype, device: torch.device, cache_bytes: int, block_tokens: int
) -> Talker:
    """The talker with the tables of all code groups and its projections. Errors: CheckpointError."""
    section, config = read_section(folder, "talker_config"), read_config(folder, section=TALKER)
    expect(read_section(folder, TALKER), "hidden_act", "silu")
    checkpoint = Checkpoint(folder)
    outer = number(section, "thinker_hidden_size")
    with torch.device("meta"):
        table = nn.Embedding(config.vocab_size, config.hidden_size)
        projections = {name: Projection(outer, config.intermediate_size, config.hidden_size) for name in PROJECTIONS}
    fill(table, checkpoint, "talker.model.codec_embedding.", dtype=dtype, device=device)
    for name, projection in projections.items():
        fill(projection, checkpoint, f"talker.{name}_projection.", dtype=dtype, device=device)
    body = "talker.model."
    names = TensorNames(body=body, embed=None, head="talker.codec_head.weight", others=(f"{body}codec_embedding.",))
    decoder = load(
        folder, config=config, names=names, dtype=dtype, device=device,
        cache_tokens=cache_tokens(config, cache_bytes, dtype), block_tokens=block_tokens,
    )  # fmt: skip
    further = _code_tables(folder, checkpoint, config.hidden_size, dtype, device)
    return Talker(decoder, tables=[table.weight, *further], projections=projections)


def load_predictor(
    folder: Path, *, dtype: torch.dtype, device: torch.device, cache_bytes: int, block_tokens: int
) -> Predictor:
    """The code predictor with a table and a head per further group. Errors: CheckpointError."""
    read_section(folder, PREDICTOR)
    config = read_config(folder, section=PREDICTOR)
    checkpoint = Checkpoint(folder)
    tables = _code_tables(folder, checkpoint, config.hidden_size, dtype, device)
    with torch.device("meta"):
        heads = nn.ModuleList(nn.Linear(config.hidden_size, config.vocab_size, bias=False) for _ in tables)
    fill(heads, checkpoint, "talker.code_predictor.lm_head.", dtype=dtype, device=device)
    body = "talker.code_predictor.model."
    names = TensorNames(body=body, embed=None, head=None, others=(f"{body}codec_embedding.",))
    decoder = load(
        folder, config=config, names=names, dtype=dtype, device=device,
        cache_tokens=cache_tokens(config, cache_bytes, dtype), block_tokens=block_tokens,
    )  # fmt: skip
    return Predictor(decoder, tables=tables, heads=list(heads.parameters()))


def _code_tables(
    folder: Path, checkpoint: Checkpoint, width: int, dtype: torch.dtype, device: torch.device
) -> list[Tensor]:
    """The embeddings of the codes behind the first, a table per group."""
    section = read_section(folder, PREDICTOR)
    groups = number(read_section(folder, "talker_config"), "num_code_groups")
    with torch.device("meta"):
        tables = nn.ModuleList(nn.Embedding(number(section, "vocab_size"), width) for _ in range(groups - 1))
    fill(tables, checkpoint, "talker.code_predictor.model.codec_embedding.", dtype=dtype, device=device)
    return list(tables.parameters())
