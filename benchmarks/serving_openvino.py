"""OpenVINO GenAI's continuous batching on the same weights, exported by optimum-intel and kept in a folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from serving_clock import Clock
from serving_contestant import Form, answer
from workload import Outcome, Request

KEPT = Path(tempfile.gettempdir()) / "omniflow-benchmarks"
WEIGHTS = {"none": "fp32", "int8": "int8", "int4": "int4"}  # of the file; bfloat16 is how it is computed


def make(arguments: Sequence[str]) -> tuple[str, Mapping[str, Form]]:
    import openvino_genai

    folder, dtype, threads, quantize = arguments
    model = _exported(Path(folder), WEIGHTS[quantize])
    bounds = openvino_genai.SchedulerConfig()
    bounds.cache_size, bounds.max_num_batched_tokens, bounds.max_num_seqs = 1, 256, 64
    bounds.dynamic_split_fuse, bounds.enable_prefix_caching = True, False
    settings: dict[str, Any] = {
        "INFERENCE_PRECISION_HINT": {"float32": "f32", "bfloat16": "bf16"}[dtype],
        "INFERENCE_NUM_THREADS": int(threads),
        "NUM_STREAMS": 1,
    }
    if dtype == "float32" and quantize == "none":
        settings["KV_CACHE_PRECISION"] = "f32"  # elsewhere as it chooses, which is 8 bits
    pipeline = openvino_genai.ContinuousBatchingPipeline(str(model), bounds, "CPU", settings)
    return openvino_genai.__version__, {"engine": partial(serve, pipeline)}


def _exported(folder: Path, weights: str) -> Path:
    """The model as OpenVINO's files, made once per content of the folder; half a minute the first time."""
    key = hashlib.sha256((folder / "config.json").read_bytes())
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            key.update(file.read(2**22))
            file.seek(path.stat().st_size // 2)
            key.update(file.read(2**20))
    kept = KEPT / f"openvino-{weights}-{key.hexdigest()[:16]}"
    if kept.is_dir():
        return kept
    from optimum.exporters.openvino import main_export
    from optimum.intel import OVConfig, OVWeightQuantizationConfig

    KEPT.mkdir(exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=KEPT))
    bits = {"int8": 8, "int4": 4}.get(weights)
    config = OVConfig(
        dtype=weights,
        quantization_config=None if bits is None else OVWeightQuantizationConfig(bits=bits, sym=True),
    )
    main_export(str(folder), made, task="text-generation-with-past", ov_config=config, stateful=True)
    shutil.rmtree(kept, ignore_errors=True)
    os.replace(made, kept)
    return kept


def serve(pipeline: Any, requests: Sequence[Request]) -> Outcome:
    """Every request when it arrives; its tokens as they leave."""
    import numpy as np
    import openvino
    import openvino_genai

    clock, handles = Clock(requests), dict[int, Any]()
    while not clock.is_over:
        for index, request in clock.due():
            greedy = openvino_genai.GenerationConfig(max_new_tokens=request.new, ignore_eos=True, do_sample=False)
            prompt = openvino.Tensor(np.array([request.prompt], dtype=np.int64))
            handles[index] = pipeline.add_request(index, prompt, greedy)
        if not pipeline.has_non_finished_requests():
            clock.sleep()
            continue
        pipeline.step()
        for index, handle in handles.items():
            while handle.can_read():
                for output in handle.read().values():
                    clock.tokens(index, list(output.generated_ids))
    return clock.outcome()


if __name__ == "__main__":
    answer(make)
