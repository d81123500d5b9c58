"""Text encoders and tokenizers of diffusers folders: CLIP's pooled state, T5 and UMT5 embeddings."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from omniflow.experts.hf_folder import TRANSFORMERS, dtype_of, fill, folder_of, hollow, read_config
from omniflow.experts.hf_rows import by_shape
from omniflow.experts.lean import CheckpointError
from omniflow.experts.packed import pack_linears
from omniflow_compiler.schedule import Cache, Expert

PIPELINES = ("FluxPipeline", "WanPipeline")
Row = Mapping[str, Tensor]


class HfTokenizer:
    """Role Tokenizer, and of `tokenize_fixed`, over a tokenizer of transformers. tidy: what text goes through first."""

    def __init__(self, tokenizer: Any, tidy: Callable[[str], str] = str) -> None:
        self._tokenizer = tokenizer
        self._tidy = tidy

    @property
    def stop_ids(self) -> Sequence[int]:
        """The end of text, if there is one."""
        end = self._tokenizer.eos_token_id
        return () if end is None else (int(end),)

    def encode(self, text: str) -> list[int]:
        """Ids with the special ones that the tokenizer adds."""
        return list(self._tokenizer(self._tidy(text)).input_ids)

    def encode_fixed(self, text: str, length: int) -> tuple[list[int], list[int]]:
        """Exactly `length` ids (0: the tokenizer's own most) and which of them are text. Errors: ValueError."""
        length = length or int(self._tokenizer.model_max_length)
        if length > 1 << 20:
            raise ValueError("the tokenizer does not say how many tokens its model reads; give the op a length")
        found = self._tokenizer(self._tidy(text), padding="max_length", max_length=length, truncation=True)
        return list(found.input_ids), list(found.attention_mask)

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Ids of the rendered template with the generation prompt."""
        found = self._tokenizer.apply_chat_template(list(messages), add_generation_prompt=True, return_dict=True)
        return list(found["input_ids"])

    def written(self, ids: Sequence[int]) -> str:
        """Text with special tokens."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def decode(self, ids: Sequence[int]) -> str:
        """Text without special tokens."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))


class ClipText:
    """Role Encoder. `tokens` int64 [P] -> `pooled` [D], the final state at the end of text."""

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self._model = model
        self._device = device

    @torch.inference_mode()
    def encode(self, rows: Sequence[Row]) -> list[Row]:
        """One forward per length of text. Errors: ValueError for a text of no tokens."""
        _check_read(rows)
        return by_shape(rows, lambda row: len(row["tokens"]), self._run)

    def _run(self, rows: list[Row]) -> list[Row]:
        ids = torch.stack([row["tokens"] for row in rows]).to(self._device)
        return [{"pooled": pooled} for pooled in self._model(ids).pooler_output]


class T5Text:
    """Role Encoder. `tokens` int64 [P], `mask` int64 [P] -> `embeds` [P, D].

    Without a mask padding is read like text (FLUX). With one, padding is not read and its rows are zero (Wan).
    """

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self._model = model
        self._device = device

    @torch.inference_mode()
    def encode(self, rows: Sequence[Row]) -> list[Row]:
        """One forward per length of text. Errors: ValueError for a text of no tokens."""
        _check_read(rows)
        return by_shape(rows, lambda row: (len(row["tokens"]), "mask" in row), self._run)

    def _run(self, rows: list[Row]) -> list[Row]:
        ids = torch.stack([row["tokens"] for row in rows]).to(self._device)
        if "mask" not in rows[0]:
            return [{"embeds": embeds} for embeds in self._model(ids)[0]]
        mask = torch.stack([row["mask"] for row in rows]).to(self._device)
        embeds = self._model(ids, mask).last_hidden_state
        return [{"embeds": row} for row in embeds * mask[..., None].to(embeds.dtype)]


def _check_read(rows: Sequence[Row]) -> None:
    if not all(len(row["tokens"]) for row in rows):
        raise ValueError("a text of no tokens cannot be read; tokenizers write at least a mark of its end")


def load_clip(spec: Expert, _cache: Cache | None) -> ClipText:
    """From `text_encoder/`."""
    from transformers import CLIPTextConfig, CLIPTextModel

    folder = folder_of(spec, *PIPELINES) / "text_encoder"
    config = CLIPTextConfig(**_settings(read_config(folder, key="model_type", kind="clip_text_model")))
    module = hollow(lambda: CLIPTextModel(config))
    fill(module, folder, TRANSFORMERS, spec, prefix="text_model.", derived=(".position_ids",))
    return ClipText(_placed(module, spec), torch.device(spec.device))


def load_t5(spec: Expert, _cache: Cache | None) -> T5Text:
    """T5 from `text_encoder_2/`."""
    from transformers import T5Config, T5EncoderModel

    return _t5(spec, "text_encoder_2", "t5", T5Config, T5EncoderModel)


def load_umt5(spec: Expert, _cache: Cache | None) -> T5Text:
    """UMT5 from `text_encoder/`."""
    from transformers import UMT5Config, UMT5EncoderModel

    return _t5(spec, "text_encoder", "umt5", UMT5Config, UMT5EncoderModel)


def _t5(spec: Expert, part: str, kind: str, configure: Any, model: Any) -> T5Text:
    folder = folder_of(spec, *PIPELINES) / part
    config = configure(**_settings(read_config(folder, key="model_type", kind=kind)))
    return _filled_t5(spec, folder, config, model)


def t5_encoder(
    spec: Expert, folder: Path, config: Mapping[str, Any], *, prefix: str, others: tuple[str, ...]
) -> T5Text:
    """T5 as a part of a checkpoint: its tensors have `prefix`, those of other parts begin with one of `others`."""
    from transformers import T5Config, T5EncoderModel

    return _filled_t5(spec, folder, T5Config(**_settings(config)), T5EncoderModel, prefix=prefix, others=others)


def _filled_t5(
    spec: Expert, folder: Path, config: Any, model: Any, *, prefix: str = "", others: tuple[str, ...] = ()
) -> T5Text:
    module = hollow(lambda: model(config))
    tied: Any = module
    tied.tie_weights()
    fill(module, folder, TRANSFORMERS, spec, prefix=prefix, others=others)
    return T5Text(_placed(module, spec), torch.device(spec.device))


def load_tokenizer(spec: Expert, _cache: Cache | None) -> HfTokenizer:
    """From `tokenizer/`."""
    return open_tokenizer(folder_of(spec, *PIPELINES) / "tokenizer")


def load_tokenizer_2(spec: Expert, _cache: Cache | None) -> HfTokenizer:
    """From `tokenizer_2/`."""
    return open_tokenizer(folder_of(spec, *PIPELINES) / "tokenizer_2")


def load_tidy_tokenizer(spec: Expert, _cache: Cache | None) -> HfTokenizer:
    """From `tokenizer/`; text is tidied first, as Wan's pipeline does."""
    return open_tokenizer(folder_of(spec, *PIPELINES) / "tokenizer", tidy_text)


def tidy_text(text: str) -> str:
    """Broken encodings mended when ftfy is installed, character references resolved, spaces evened out."""
    if find_spec("ftfy") is not None:
        text = import_module("ftfy").fix_text(text)
    return re.sub(r"\s+", " ", html.unescape(html.unescape(text))).strip()


def open_tokenizer(folder: Path, tidy: Callable[[str], str] = str) -> HfTokenizer:
    """The tokenizer of a folder; nothing is looked for elsewhere. Errors: CheckpointError."""
    from transformers import AutoTokenizer

    if not folder.is_dir():
        raise CheckpointError(f"{folder}: there is no such folder, and the tokenizer should be in it")
    try:
        return HfTokenizer(AutoTokenizer.from_pretrained(str(folder), local_files_only=True), tidy)
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"{folder}: holds no tokenizer that can be read: {error}") from None


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config without what describes the file."""
    return {name: value for name, value in config.items() if name not in ("model_type", "dtype", "torch_dtype")}


def _placed(module: nn.Module, spec: Expert) -> nn.Module:
    """The module with its buffers where its weights are."""
    dtype_of(spec)
    return pack_linears(module.to(torch.device(spec.device)))
