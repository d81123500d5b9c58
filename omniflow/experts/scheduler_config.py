"""Refuses what a diffusers `scheduler_config.json` asks for and `diffusion_denoise` does not do.

What it does ask for reaches the loop as attributes (the compiler reads the same file), so nothing is taken from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omniflow.experts.hf_folder import read_json
from omniflow.experts.lean import CheckpointError

OFF = (
    "use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas", "invert_sigmas", "stochastic_sampling",
    "thresholding", "disable_corrector", "solver_p", "rescale_betas_zero_snr",
)  # fmt: skip
UNIPC: Mapping[str, Any] = {
    "prediction_type": "flow_prediction", "use_flow_sigmas": True, "predict_x0": True, "solver_type": "bh2",
    "lower_order_final": True, "final_sigmas_type": "zero",
}  # fmt: skip
KNOWN: Mapping[str, Mapping[str, Any]] = {
    "FlowMatchEulerDiscreteScheduler": {},
    "UniPCMultistepScheduler": UNIPC,
}


def check_scheduler(folder: Path) -> None:
    """Errors: CheckpointError naming the setting, unless the loop follows all of `scheduler/scheduler_config.json`."""
    path = folder / "scheduler" / "scheduler_config.json"
    config = read_json(path)
    name = config.get("_class_name")
    if name not in KNOWN:
        raise CheckpointError(f"{path}: _class_name is {name!r}, supported are {' and '.join(sorted(KNOWN))}")
    for setting in OFF:
        if config.get(setting):
            raise CheckpointError(f"{path}: {setting} = {config[setting]!r} is not supported")
    for setting, value in KNOWN[str(name)].items():
        if config.get(setting) != value:
            raise CheckpointError(f"{path}: {setting} = {config.get(setting)!r} is not supported, only {value!r}")
