"""The one error of this package that a user can cause."""

from __future__ import annotations


class CheckpointError(Exception):
    """A model directory that the lean decoder cannot load; the message names the file and the field or tensor."""
