"""The closed set of ops: one row each, grouped by what they work on."""

from __future__ import annotations

from omniflow_compiler.library.ops import handoff, images, media, places, text, values

GROUPS = (images, text, values, handoff, places, media)
OPS = {signature.name: signature for group in GROUPS for signature in group.SIGNATURES}
