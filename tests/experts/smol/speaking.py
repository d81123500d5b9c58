"""Small drivers that do with the experts what the loops do, without an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from omniflow.experts.smol_alphabet import MAX_POSITIONS, STOP, phoneme_text, spell_word
from omniflow.experts.smol_talker import SmolTalker, WordState
from omniflow.experts.smol_vocoder import SmolVocoder
from omniflow.experts.smol_waveform import WaveState
from omniflow.roles import DecoderRows, TokenRows


def open_word(talker: SmolTalker, characters: Sequence[int]) -> WordState:
    return talker.open({"source": torch.tensor(characters)}, max_positions=MAX_POSITIONS)


def read(talker: SmolTalker, sources: Sequence[Sequence[int]]) -> list[list[int]]:
    """Greedy phoneme ids of every source, all decoded together; words leave the batch as they end."""
    states = [open_word(talker, source) for source in sources]
    written = [list(talker.start_ids) for _ in sources]
    live = list(range(len(sources)))
    while live:
        rows = [TokenRows(sequence=states[i], ids=torch.tensor(written[i][-1:])) for i in live]
        best = [int(result.logits.argmax()) for result in talker.step(rows) if result.logits is not None]
        going = [(i, token) for i, token in zip(live, best, strict=True) if token != STOP]
        for i, token in going:
            written[i].append(token)
        live = [i for i, _ in going if len(written[i]) < MAX_POSITIONS]
    return [ids[1:] for ids in written]


def pronounce(talker: SmolTalker, words: Sequence[str]) -> list[str]:
    return [phoneme_text(ids) for ids in read(talker, [spell_word(word) for word in words])]


def decode(
    vocoder: SmolVocoder, items: Sequence[Mapping[str, Tensor]], chunks: Sequence[int], *, seed: int = 0
) -> list[Tensor]:
    """Samples of every item, decoded together in chunks of its own size with the context that the vocoder asks for.

    A chunk size that divides an item leaves an empty last chunk, as a channel that ends late does.
    """
    states = [vocoder.open(generator=torch.Generator().manual_seed(seed + i)) for i in range(len(items))]
    samples: list[list[Tensor]] = [[] for _ in items]
    live = list(range(len(items)))
    start = [0] * len(items)
    while live:
        rows = [_chunk(vocoder, states[i], items[i], start[i], chunks[i]) for i in live]
        for i, row, new in zip(live, rows, vocoder.decode(rows), strict=True):
            samples[i].append(new)
            start[i] += row.new
        live = [i for i, row in zip(live, rows, strict=True) if not row.is_last]
    return [torch.cat(pieces) for pieces in samples]


def _chunk(vocoder: SmolVocoder, state: WaveState, item: Mapping[str, Tensor], start: int, size: int) -> DecoderRows:
    total = len(item["f0"])
    new = min(size, total - start)
    left, right = min(vocoder.left_context, start), min(vocoder.right_context, total - start - new)
    return DecoderRows(
        state=state,
        frames={"cond": item["cond"][start - left : start + new + right], "f0": item["f0"][start : start + new]},
        left=left,
        new=new,
        right=right,
        is_last=start + new >= total and new < size,
    )
