"""Experts of any Hugging Face model folder."""

from __future__ import annotations

from omniflow_compiler.library.signature import ExpertSignature, FromConfig

SIGNATURES = (
    ExpertSignature(
        use="hf.tokenizer",
        role="tokenizer",
        needs_source=True,
        sizes={"vocabulary": FromConfig(path="vocab_size")},
        doc="The tokenizer and chat template of a model folder (tokenizer.json).",
    ),
)
