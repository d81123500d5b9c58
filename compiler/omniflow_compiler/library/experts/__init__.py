"""The experts that come with OmniFlow: one file of signatures per family."""

from __future__ import annotations

from omniflow_compiler.library.experts import null, smol

FAMILIES = (smol, null)
EXPERTS = {signature.use: signature for family in FAMILIES for signature in family.SIGNATURES}
