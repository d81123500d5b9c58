"""The experts of `specs/smol_speech`: a small assistant that answers aloud."""

from __future__ import annotations

from omniflow_compiler.library.experts.hf import SCORE
from omniflow_compiler.library.signature import ExpertSignature, Port, Ports


def _language_model(hidden: str) -> Ports:
    return Ports(
        inputs=(Port(name="prompt", type="tokens[P] < vocabulary"),),
        outputs=(
            Port(name="tokens", type="tokens[T] < vocabulary", streams=True),
            Port(name="hidden", type=f"act[T, {hidden}]", streams=True, doc="Final hidden state of each new token."),
            Port(name="embeds", type=f"act[T, {hidden}]", streams=True, doc="Input embedding of each new token."),
        ),
    )


_SPELLING = Ports(
    inputs=(
        Port(name="source", type="tokens[C] < vocabulary"),
        Port(name="forced", type="tokens[K] < spelled", required=False, doc="Emitted as they are when not empty."),
    ),
    outputs=(Port(name="tokens", type="tokens[T] < spelled", streams=True),),
)
_ACOUSTIC = Ports(
    inputs=(Port(name="phonemes", type="tokens[P] < phonemes"),),
    outputs=(Port(name="cond", type="f32[F, 130] @ 80 Hz"), Port(name="f0", type="f32[F] @ 80 Hz")),
)
_VOCODER = Ports(
    inputs=(
        Port(name="cond", type="f32[F, 130] @ 80 Hz", streams=True, left=27, right=27),
        Port(name="f0", type="f32[F] @ 80 Hz", streams=True),
    ),
    outputs=(Port(name="audio", type="audio[300*F] @ 24 kHz", streams=True),),
)

SIGNATURES = (
    ExpertSignature(
        use="smol.tokenizer", role="tokenizer", sizes={"vocabulary": 49152}, takes_source=False,
        doc="SmolLM2's byte-level BPE and chat template.",
    ),
    ExpertSignature(
        use="smol.thinker", role="language_model", serves={"ar_decode": _language_model("hidden"), "score": SCORE},
        sizes={"vocabulary": 49152, "hidden": 576}, num_parameters=134_515_008, takes_source=False,
        kv_bytes_per_token=30 * 2 * 3 * 64 * 4, forks=True, unit_seconds={"ar_prefill": 0.1, "ar_token": 0.03, "logprob_batch": 0.1},
        doc="SmolLM2-135M-Instruct, a Llama of 30 layers.",
    ),
    ExpertSignature(
        use="smol.lexicon", role="lexicon", sizes={"characters": 63, "vocabulary": 76, "phonemes": 178}, takes_source=False,
        doc="Function words, numbers and abbreviations of English; phoneme alphabets.",
    ),
    ExpertSignature(
        use="smol.talker", role="talker", serves={"ar_decode": _SPELLING}, sizes={"vocabulary": 63, "spelled": 76},
        num_parameters=751_551, kv_bytes_per_token=2 * 2 * 128 * 4, takes_source=False,
        leases=False, unit_seconds={"ar_prefill": 0.001, "ar_token": 0.0008},
        doc="A one-layer BART from characters to phonemes.",
    ),
    ExpertSignature(
        use="smol.acoustic", role="acoustic", serves={"encode": _ACOUSTIC}, sizes={"phonemes": 178},
        num_parameters=1_970_000, takes_source=False, unit_seconds={"encoder_chunk": 0.02},
        doc="Phonemes to spectral conditions and pitch at 80 frames a second.",
    ),
    ExpertSignature(
        use="smol.vocoder", role="vocoder", serves={"audio_decode": _VOCODER}, num_parameters=4_180_000, hop=300,
        takes_source=False, unit_seconds={"audio_chunk": 0.02},
        doc="Frames to 24 kHz samples: a convolutional decoder and an inverse STFT with a continuous pulse train.",
    ),
)  # fmt: skip
