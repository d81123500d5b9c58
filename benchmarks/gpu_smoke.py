"""Runs every family on another device and on the CPU, and writes down what it saw.

    python benchmarks/gpu_smoke.py [--device cuda] [--json FILE]

Checkpoints are tiny and random (extra `hf`); what counts is that every family runs on the device, that tokens agree
with the CPU's, and how far sound and pixels are from them.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import omniflow
from omniflow.verification.compare import compare_outputs
from omniflow_compiler.pipeline import Options, compile_file
from omniflow_compiler.render import render_report
from tests.experts.lean import models as llama
from tests.parity import diffusion
from tests.parity.cosmos3 import reference as cosmos3
from tests.parity.csm import reference as csm
from tests.parity.flux import reference as flux
from tests.parity.musicgen import reference as musicgen
from tests.parity.qwen2_5_omni import reference as qwen2_5
from tests.parity.qwen2_5_omni import running as run_qwen2_5
from tests.parity.qwen3_omni import reference as qwen3
from tests.parity.qwen3_omni import running as run_qwen3
from tests.parity.wan import reference as wan

ROOT = Path(__file__).resolve().parents[1]
Prepared = tuple[str, Mapping[str, str], Mapping[str, Any], Mapping[str, Any]]  # spec, compile params, inputs, params
SMALL = {"height": 32, "width": 32}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", help="where to write what was seen")
    options = parser.parse_args()
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        print("gpu_smoke: this machine has no CUDA device", file=sys.stderr)
        return 2
    seen: dict[str, Any] = {"device": _describe(options.device), "torch": torch.__version__}
    failed = 0
    for name, prepare in FAMILIES.items():
        with tempfile.TemporaryDirectory() as folder:
            seen[name] = smoke(prepare(Path(folder)), options.device)
        failed += "error" in seen[name]
        print(f"{name:<14}{json.dumps(seen[name])}", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(seen, indent=1) + "\n", encoding="utf-8")
    return 1 if failed else 0


def _describe(device: str) -> str:
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


def smoke(prepared: Prepared, device: str) -> dict[str, Any]:
    """Seconds of the second run on the device, and each output's largest difference from the CPU's."""
    spec, values, inputs, params = prepared
    results = {}
    seconds = 0.0
    for place in ("cpu", device):
        options = Options(params=values, devices={"default": place})
        compilation = compile_file(ROOT / "specs" / spec, options)
        if compilation.schedule is None:
            return {"error": render_report(compilation.report, compilation.sources)}
        engine = omniflow.load(compilation.schedule)
        for _ in range(2):
            start = time.perf_counter()
            results[place] = engine.run(inputs, seed=1, params=params)
            seconds = time.perf_counter() - start
        if results[place].state != "done":
            return {"error": results[place].error, "where": place}
    on_device = {name: _cpu(value) for name, value in results[device].outputs.items()}
    found = compare_outputs(results["cpu"].outputs, on_device)
    return {"seconds": round(seconds, 4), "differences": {c.output: c.difference for c in found}}


def _cpu(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.cpu()
    return [_cpu(part) for part in value] if isinstance(value, list | tuple) else value


def _qwen2_5(folder: Path) -> Prepared:
    qwen2_5.build(folder, 0)
    case = qwen2_5.cases()["text"]
    values = {"weights": str(folder)}
    return "qwen2_5_omni/tensors.program.yaml", values, run_qwen2_5.inputs(case), run_qwen2_5.params(case)


def _qwen3(folder: Path) -> Prepared:
    qwen3.build(folder, 0)
    case = qwen3.cases()["text"]
    return "qwen3_omni/tensors.program.yaml", {"weights": str(folder)}, run_qwen3.inputs(case), run_qwen3.params(case)


def _flux(folder: Path) -> Prepared:
    flux.build(folder, 0)
    values = {"weights": str(folder), "text_length": str(flux.T5_LENGTH)}
    return "flux/image.program.yaml", values, {"prompt": diffusion.PROMPTS[0], **SMALL}, {}


def _wan(folder: Path) -> Prepared:
    wan.build(folder, 0)
    values = {"weights": str(folder), "text_length": str(wan.TEXT_LENGTH)}
    return "wan/video.program.yaml", values, {"prompt": diffusion.PROMPTS[0], "frames": 5, **SMALL}, {}


def _csm(folder: Path) -> Prepared:
    csm.build(folder, 0)
    case = csm.cases()["text"]
    plain = {f"speak.{loop}temperature": 0.0 for loop in ("", "deepen.")}
    params = {**plain, "speak.max_tokens": case.max_frames}
    return "csm/tensors.program.yaml", {"weights": str(folder)}, {"tokens": torch.tensor(case.prompts[0])}, params


def _musicgen(folder: Path) -> Prepared:
    musicgen.build(folder, 0)
    case = musicgen.cases()["guided"]
    params = {"compose.temperature": 0.0, "compose.max_tokens": case.frames}
    tokens = torch.tensor(case.prompts[0])
    return "musicgen/tensors.program.yaml", {"weights": str(folder)}, {"tokens": tokens}, params


def _cosmos3(folder: Path) -> Prepared:
    cosmos3.build(folder, 0)
    values = {"weights": str(folder), "steps": "4", "max_tokens": "12"}
    inputs = {"prompt": "a red robot cat jumps over the river", "frames": 5, **SMALL}
    return "cosmos3/film.program.yaml", values, inputs, {}


def _llama(folder: Path) -> Prepared:
    llama.make("llama", folder)
    diffusion.word_tokenizer(begins=False, most=256).save_pretrained(folder)
    values = {"weights": str(folder), "dtype": "float32", "max_tokens": "24"}
    return "llama/tokens.program.yaml", values, {"tokens": llama.prompts(1)[0]}, {}


def _null(name: str) -> Callable[[Path], Prepared]:
    return lambda _folder: (f"null/{name}.program.yaml", {}, {"prompt": "Why is the sky blue?"}, {})


FAMILIES: Mapping[str, Callable[[Path], Prepared]] = {
    "null.speech": _null("speech"),
    "null.image": _null("image"),
    "qwen2_5_omni": _qwen2_5,
    "qwen3_omni": _qwen3,
    "csm": _csm,
    "musicgen": _musicgen,
    "cosmos3": _cosmos3,
    "llama": _llama,
    "flux": _flux,
    "wan": _wan,
}


if __name__ == "__main__":
    sys.exit(main())
