"""How many threads torch uses under the command line: tiny models lose more at the barriers than they win."""

from __future__ import annotations

import os

from omniflow_compiler.schedule import Schedule

SMALL_BYTES = 64 << 20  # weights of the largest expert, under which one thread is faster


def choose_threads(schedule: Schedule) -> None:
    """One thread for small experts; torch's own choice otherwise, and a person's (`OMP_NUM_THREADS`) above both."""
    if "OMP_NUM_THREADS" in os.environ:
        return
    if max((expert.weight_bytes for expert in schedule.experts), default=0) < SMALL_BYTES:
        import torch

        torch.set_num_threads(1)
