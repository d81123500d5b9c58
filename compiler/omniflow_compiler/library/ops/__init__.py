"""The closed set of ops: one row each, grouped by what they work on."""

from __future__ import annotations

from omniflow_compiler.library.ops import handoff, images, places, text, values

GROUPS = (images, text, values, handoff, places)
OPS = {signature.name: signature for group in GROUPS for signature in group.SIGNATURES}
