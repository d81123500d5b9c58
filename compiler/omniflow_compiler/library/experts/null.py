"""The experts of `specs/null`: tiny random stand-ins for those of `smol`, with the same ports."""

from __future__ import annotations

from dataclasses import replace

from omniflow_compiler.library.experts import smol
from omniflow_compiler.library.signature import ExpertSignature


def _null(signature: ExpertSignature, **sizes: int) -> ExpertSignature:
    return replace(
        signature,
        use=signature.use.replace("smol.", "null."),
        sizes={**signature.sizes, **sizes},
        num_parameters=10_000 if signature.num_parameters else 0,
        kv_bytes_per_token=256 if signature.kv_bytes_per_token else 0,
        unit_seconds={unit: 100e-6 for unit in signature.unit_seconds},
        install="",
        doc=f"Tiny random stand-in for `{signature.use}`.",
    )


SIGNATURES = tuple(_null(signature) for signature in smol.SIGNATURES)
