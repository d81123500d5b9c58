"""The experts that come with OmniFlow: one file of signatures per family."""

from __future__ import annotations

from omniflow_compiler.library.experts import cosmos3, csm, flux, hf, null, qwen2_5_omni, qwen3_omni, smol, wan

FAMILIES = (smol, cosmos3, wan, hf, flux, qwen2_5_omni, qwen3_omni, csm, null)
EXPERTS = {signature.use: signature for family in FAMILIES for signature in family.SIGNATURES}
