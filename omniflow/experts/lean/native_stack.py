"""The layers of a dense decoder as one native call per step, where the processor's own compiler built it."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from omniflow.experts.lean.batch import FlatBatch, FlatResult
from omniflow.experts.lean.config import LeanConfig
from omniflow.experts.lean.weights import DenseWeights, LayerWeights
from omniflow.kv import KvArena
from omniflow.native.binding import MAX_HEAD, MAX_ROW, Kind, NativeModel, NativeShape, StepInput

# A thread more must have this many multiplications to do, or waking it costs more than it saves.
_WORK_PER_THREAD = 400_000


class NativeStack:
    """See omniflow/native/step.cpp. A row's results do not depend on its neighbours by a single bit."""

    is_exact = True
    reads_tables = True

    def __init__(self, config: LeanConfig, native: ctypes.CDLL, *, kind: Kind) -> None:
        self._config = config
        shape = NativeShape(
            hidden=config.hidden_size,
            inner=config.intermediate_size,
            heads=config.num_heads,
            kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            vocab=config.vocab_size,
            epsilon=config.norm_eps,
            kind=kind,
        )
        self._model = NativeModel(native, shape)
        self._work_per_row = 0
        self._has_head = False

    @staticmethod
    def supports(config: LeanConfig) -> bool:
        """Whether a shape can be computed natively: dense, with rows that fit the step's buffers."""
        widest = max(config.hidden_size, config.intermediate_size, config.num_heads * config.head_dim)
        return config.moe is None and widest <= MAX_ROW and config.head_dim <= MAX_HEAD

    def add_layer(self, weights: LayerWeights) -> None:
        """Packs the next layer's weights."""
        mlp = weights.mlp
        assert isinstance(mlp, DenseWeights)
        self._model.add_layer(
            {
                "attention_norm": weights.attention_norm,
                "qkv": weights.qkv,
                "qkv_bias": weights.qkv_bias,
                "query_norm": weights.query_norm,
                "key_norm": weights.key_norm,
                "output": weights.output,
                "output_bias": weights.output_bias,
                "mlp_norm": weights.mlp_norm,
                "gate_up": mlp.gate_up,
                "gate_up_bias": mlp.gate_up_bias,
                "down": mlp.down,
                "down_bias": mlp.down_bias,
            }
        )
        self._work_per_row += sum(part.numel() for part in (weights.qkv, weights.output, mlp.gate_up, mlp.down))

    def finish(self, *, norm: Tensor, head: Tensor | None) -> None:
        """Packs the final norm [E] and the vocabulary head [V, E], if there is one."""
        self._model.finish(norm=norm, head=head)
        self._has_head = head is not None

    def run(self, batch: FlatBatch, arena: KvArena) -> FlatResult:
        """One forward; writes the new keys and values into the arena."""
        embeds, of_tables = batch.embeds, batch.table_rows
        num_rows = embeds.shape[0] if of_tables is None else len(of_tables.ids)
        work = self._work_per_row * num_rows // _WORK_PER_THREAD
        output = self._model.step(
            StepInput(
                embeds=embeds.contiguous(),
                embed_rows=range(num_rows) if of_tables is None else of_tables.ids,
                cosines=batch.cos,
                sines=batch.sin,
                rotation_rows=range(num_rows) if of_tables is None else of_tables.positions,
                spans=[(span.row, span.num_new, span.past, span.start) for span in batch.spans],
                wanted=batch.logit_rows if self._has_head else (),
                wants_hidden=batch.wants_hidden,
                tap_layers=batch.tap_layers,
                additions=[addition.float().contiguous() for addition in batch.additions],
                keys=arena.keys,
                values=arena.values,
            ),
            threads=max(1, min(torch.get_num_threads(), work)),
        )
        return FlatResult(
            logits=output.logits,
            hidden=None if output.hidden is None else output.hidden.to(embeds.dtype),
            taps=tuple(tap.to(embeds.dtype) for tap in output.taps),
            best=output.best,
        )
