"""Tiny random MusicGen checkpoints, and what transformers makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.parity.references import SMALLEST, Sizes, stir

CODEBOOKS, CODES, WORDS, TEXT_END = 4, 32, 64, 1
FILLER = CODES  # stands where a codebook has no code
HOP = 4 * 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call of the reference. prompts: text ids of each row, with the end of text."""

    prompts: tuple[tuple[int, ...], ...]
    sample: bool = False
    temperature: float = 0.9
    top_k: int = 20
    cfg: float = 3.0
    frames: int = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What came out, row by row: frames [n, codebooks] and samples."""

    seed: int
    codes: list[list[list[int]]]
    waves: list[Tensor]


def config(sizes: Sizes = SMALLEST, **codec: Any) -> Any:
    """The smallest configuration in which every part does something; a text as wide as published ones is not.

    sizes: of text, decoder and codec. codec: settings of the codec's own.
    """
    from transformers import MusicgenConfig

    text = {
        "model_type": "t5", "vocab_size": WORDS, "d_model": 24, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 3,
        "eos_token_id": TEXT_END, **sizes.get("text", {}),
    }  # fmt: skip
    audio = {
        "model_type": "encodec", "sampling_rate": 400, "audio_channels": 1, "num_filters": 4, "num_residual_layers": 2,
        "upsampling_ratios": [4, 2], "codebook_size": CODES, "codebook_dim": 8, "hidden_size": 8,
        "num_lstm_layers": 2, "target_bandwidths": [1.0], "kernel_size": 5, "last_kernel_size": 7,
        "residual_kernel_size": 3, "use_causal_conv": False, "use_conv_shortcut": False, **sizes.get("codec", {}),
        **codec,
    }  # fmt: skip
    decoder = {
        "model_type": "musicgen_decoder", "vocab_size": CODES, "max_position_embeddings": 64, "num_hidden_layers": 2,
        "ffn_dim": 48, "num_attention_heads": 2, "hidden_size": 32, "num_codebooks": CODEBOOKS,
        "pad_token_id": FILLER, "bos_token_id": FILLER, **sizes.get("decoder", {}),
    }  # fmt: skip
    return MusicgenConfig(text_encoder=text, audio_encoder=audio, decoder=decoder)


def build(folder: Path, seed: int, *, sizes: Sizes = SMALLEST, **codec: Any) -> Any:
    """A random model, saved to `folder`, as transformers loads it from there."""
    from transformers import MusicgenForConditionalGeneration

    model = MusicgenForConditionalGeneration(config(sizes, **codec)).eval()
    stir(model, seed, gain=1.2)
    generator = torch.Generator().manual_seed(seed + 2)
    with torch.no_grad():
        for table in model.decoder.model.decoder.embed_tokens:
            table.weight.normal_(generator=generator)
        for head in model.decoder.lm_heads:
            head.weight.mul_(2.0)
        for layer in model.audio_encoder.quantizer.layers:
            layer.codebook.embed.normal_(generator=generator)
    own = model.generation_config
    own.pad_token_id = own.decoder_start_token_id = own.bos_token_id = FILLER
    own.eos_token_id = None
    model.save_pretrained(folder)
    return MusicgenForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()


STEREO: Sizes = {"decoder": {"audio_channels": 2, "num_codebooks": 2 * CODEBOOKS}}


def add_tokenizer(folder: Path) -> None:
    """A few words; the end of text is not among what it writes by itself."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    words = {word: i for i, word in enumerate("? </s> slow loud drums and a piano with rain on the roof".split())}
    tokenizer = Tokenizer(WordLevel(words, unk_token="?"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))


def cases() -> Mapping[str, Case]:
    """Greedy and sampled, guided and not; one row and a padded batch."""
    generator = torch.Generator().manual_seed(11)

    def ids(count: int) -> tuple[int, ...]:
        return (*torch.randint(3, WORDS, (count,), generator=generator).tolist(), TEXT_END)

    return {
        "plain": Case(prompts=(ids(7),), cfg=1.0),
        "guided": Case(prompts=(ids(9),)),
        "long": Case(prompts=(ids(3),), frames=70, cfg=4.5),
        "shortest": Case(prompts=(ids(5),), frames=3),
        "sampled": Case(prompts=(ids(9),), sample=True),
        "sampled_plain": Case(prompts=(ids(4),), sample=True, cfg=1.0, temperature=1.0, top_k=0),
        "padded_batch": Case(prompts=(ids(8), ids(5)), frames=20),
    }


def record(model: Any, case: Case, *, seed: int) -> Recording:
    """Runs transformers' own `generate`; the codes are what it gives to its codec."""
    longest = max(len(row) for row in case.prompts)
    ids = torch.tensor([list(row) + [0] * (longest - len(row)) for row in case.prompts])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in case.prompts])
    sides: list[Tensor] = []  # what the codec hears: all codes, or those of the left and then of the right
    decode = model.audio_encoder.decode

    def listening(codes: Tensor, *args: Any, **kwargs: Any) -> Any:
        sides.append(codes[0].transpose(1, 2).clone())
        return decode(codes, *args, **kwargs)

    sampled: dict[str, Any] = {"temperature": case.temperature, "top_k": case.top_k} if case.sample else {}
    model.audio_encoder.decode = listening
    try:
        torch.manual_seed(seed)
        waves = model.generate(
            input_ids=ids, attention_mask=mask, max_new_tokens=case.frames + CODEBOOKS - 1, do_sample=case.sample,
            guidance_scale=case.cfg, **sampled,
        )  # fmt: skip
    finally:
        del model.audio_encoder.decode
    codes = torch.stack(sides, dim=-1).flatten(2)
    return Recording(seed=seed, codes=codes.tolist(), waves=[row.T.squeeze(1) for row in waves])


@torch.no_grad()
def delayed(model: Any, case: Case) -> list[list[int]]:
    """The frames of a greedy case, column by column: `generate` leaves the delays out where there are few frames."""
    ids, columns = torch.tensor(case.prompts), [[FILLER] * CODEBOOKS]
    text = model.text_encoder(ids).last_hidden_state
    for at in range(case.frames + CODEBOOKS - 1):
        logits = [
            model(
                encoder_outputs=(text * mask,),
                attention_mask=torch.full_like(ids, mask),
                decoder_input_ids=torch.tensor(columns).T,
            ).logits[:, -1]
            for mask in (1, 0)
        ]
        chosen = (logits[1] + (logits[0] - logits[1]) * case.cfg).argmax(-1).tolist()
        columns.append([code if k <= at < case.frames + k else FILLER for k, code in enumerate(chosen)])
    return [[columns[frame + 1 + k][k] for k in range(CODEBOOKS)] for frame in range(case.frames)]
