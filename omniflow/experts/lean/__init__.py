"""Lean autoregressive decoders of Hugging Face checkpoints: one flat step over many sequences, KV in an arena."""

from omniflow.experts.lean.batch import LeanRows, LeanSequence
from omniflow.experts.lean.build import from_source, load, random, random_tensors
from omniflow.experts.lean.checkpoint import Checkpoint, Tensors, TensorSource
from omniflow.experts.lean.config import LeanConfig, MoeConfig, parse_config, read_config
from omniflow.experts.lean.decoder import LeanDecoder
from omniflow.experts.lean.errors import CheckpointError
from omniflow.experts.lean.layout import TensorNames
from omniflow.experts.lean.linear import Quantize
from omniflow.experts.lean.rope import Llama3Scaling, RopeConfig

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "LeanConfig",
    "LeanDecoder",
    "LeanRows",
    "LeanSequence",
    "Llama3Scaling",
    "MoeConfig",
    "Quantize",
    "RopeConfig",
    "TensorNames",
    "TensorSource",
    "Tensors",
    "from_source",
    "load",
    "parse_config",
    "random",
    "random_tensors",
    "read_config",
]
