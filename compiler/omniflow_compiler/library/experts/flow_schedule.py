"""What a diffusers `scheduler_config.json` prescribes of a `diffusion_denoise` loop: solver, noise levels and shift."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omniflow_compiler.library.signature import Prescribed

Config = Mapping[str, Any]
FILE = "scheduler/scheduler_config.json"
EULER, UNIPC = "FlowMatchEulerDiscreteScheduler", "UniPCMultistepScheduler"


def flow_schedule(euler_levels: str) -> dict[str, Prescribed]:
    """By attribute of the loop. euler_levels: the noise levels that the family's pipeline gives the Euler scheduler."""

    def levels(config: Config) -> object:
        return {EULER: euler_levels, UNIPC: "open"}.get(str(config.get("_class_name")))

    reads = {
        "solver": lambda config: {EULER: "euler", UNIPC: "unipc"}.get(str(config.get("_class_name"))),
        "levels": levels,
        "shift": _shift,
        "shift_by_length": _shift_by_length,
        "shift_curve": lambda config: _known(config, "time_shift_type", ("exponential", "linear")),
        "terminal": lambda config: _number(config, "shift_terminal"),
        "train_steps": lambda config: _whole(config, "num_train_timesteps"),
        "whole_times": lambda config: True if config.get("_class_name") == UNIPC else None,
        "order": lambda config: _whole(config, "solver_order"),
    }
    return {name: Prescribed(file=FILE, read=read) for name, read in reads.items()}


def _shift(config: Config) -> object:
    """The static shift; a scheduler that shifts by length has none."""
    if config.get("use_dynamic_shifting"):
        return 1.0
    return _number(config, "flow_shift" if config.get("_class_name") == UNIPC else "shift")


def _shift_by_length(config: Config) -> object:
    if not config.get("use_dynamic_shifting"):
        return None
    names = (("base_image_seq_len", 256), ("base_shift", 0.5), ("max_image_seq_len", 4096), ("max_shift", 1.15))
    values = tuple(_number(config, name) if name in config else float(default) for name, default in names)
    return None if None in values else values


def _number(config: Config, name: str) -> float | None:
    value = config.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(config: Config, name: str) -> int | None:
    value = config.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _known(config: Config, name: str, choices: tuple[str, ...]) -> str | None:
    value = config.get(name)
    return value if value in choices else None
