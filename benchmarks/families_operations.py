"""What a request asks of the machine."""

from __future__ import annotations

from collections.abc import Callable

from torch.utils.flop_counter import FlopCounterMode


def operations(run: Callable[[], object]) -> int:
    """Operations of the matrix products, convolutions and attentions of a run."""
    with FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops())
