"""Every family on a device that refuses what accelerators refuse. Real ones: `python benchmarks/gpu_smoke.py`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import omniflow
from omniflow import Engine
from omniflow.verification.compare import compare_outputs
from omniflow_compiler.pipeline import Options, compile_file
from tests.device.elsewhere import DEVICE, Device, MixedDevices, elsewhere

SPECS = Path(__file__).parents[2] / "specs"
SEEDS = (1, 2)


def test_the_device_refuses_what_an_accelerator_refuses_and_computes_what_the_cpu_does() -> None:
    here = torch.arange(12.0).view(3, 4)
    with elsewhere() as device:
        there = here.to(DEVICE)
        assert there.device == torch.device(DEVICE)
        assert torch.equal((there @ there.T).cpu(), here @ here.T)
        there[1:].add_(1.0)
        assert there.tolist()[1] == [5.0, 6.0, 7.0, 8.0]
        with pytest.raises(MixedDevices):
            there + here
        with pytest.raises(MixedDevices):
            here[torch.tensor([0], device=DEVICE)]
        with pytest.raises((TypeError, RuntimeError)):
            there.numpy()
        device.waits.clear()
        assert bool((there >= 0).all())
        assert sum(device.waits.values()) == 1


def load(spec: str, values: Mapping[str, str], device: str) -> Engine:
    compilation = compile_file(SPECS / spec, Options(params=values, devices={"default": device}))
    assert compilation.schedule is not None
    return omniflow.load(compilation.schedule)


def run_all(engine: Engine, inputs: Mapping[str, Any], params: Mapping[str, Any]) -> list[omniflow.Result]:
    """The same inputs under several seeds, together."""
    ids = [engine.submit(inputs, seed=seed, params=params) for seed in SEEDS]
    while not engine.is_idle:
        engine.step()
    return [result for number in ids if (result := engine.result(number)) is not None]


def on_cpu(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.cpu()
    return [on_cpu(part) for part in value] if isinstance(value, list | tuple) else value


def num_batches(engine: Engine) -> int:
    return sum(batches.count for (_, kind), batches in engine.metrics.batches.items() if kind != "op")


@pytest.mark.hf
@pytest.mark.heavy
@pytest.mark.parametrize("family", ["qwen2_5_omni", "qwen3_omni", "flux", "wan", "csm", "musicgen", "cosmos3"])
def test_a_family_runs_there_as_on_the_cpu_and_is_waited_for_once_a_batch(family: str, tmp_path: Path) -> None:
    pytest.importorskip("diffusers")
    from benchmarks.gpu_smoke import FAMILIES

    torch.set_num_threads(1)
    spec, values, inputs, params = FAMILIES[family](tmp_path)
    want = run_all(load(spec, values, "cpu"), inputs, params)
    with elsewhere() as device:
        engine = load(spec, values, DEVICE)
        device.waits.clear()
        found = run_all(engine, inputs, params)
        assert [result.error for result in found] == [None] * len(SEEDS)
        outputs = [{name: on_cpu(value) for name, value in result.outputs.items()} for result in found]
        waits = num_waits(device)
    for wanted, there in zip(want, outputs, strict=True):
        for comparison in compare_outputs(wanted.outputs, there):
            assert comparison.difference <= 1e-4, comparison
    assert waits <= num_batches(engine) + 4 * len(SEEDS), dict(device.waits)
    assert engine.live == 0


def num_waits(device: Device) -> int:
    return sum(device.waits.values())
