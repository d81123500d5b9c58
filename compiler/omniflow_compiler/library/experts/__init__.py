"""The experts that come with OmniFlow: one file of signatures per family."""

from __future__ import annotations

from dataclasses import replace

from omniflow_compiler.library.experts import (
    cosmos3,
    csm,
    flux,
    hf,
    hf_processor,
    musicgen,
    null,
    qwen2_5_omni,
    qwen3_omni,
    smol,
    wan,
)
from omniflow_compiler.library.signature import ExpertSignature

FAMILIES = (smol, cosmos3, wan, hf, hf_processor, flux, qwen2_5_omni, qwen3_omni, csm, musicgen, null)
LEAN = (smol, hf, qwen2_5_omni, qwen3_omni, csm, musicgen)  # families whose modules are our own, in two dtypes
LEAN_DTYPES = ("float32", "bfloat16")


def _in_two_dtypes(signature: ExpertSignature) -> ExpertSignature:
    return signature if signature.dtypes else replace(signature, dtypes=LEAN_DTYPES)


EXPERTS = {
    signature.use: _in_two_dtypes(signature) if family in LEAN else signature
    for family in FAMILIES
    for signature in family.SIGNATURES
}
