"""What is wrong with a model directory is said in one line that names the file and the field or tensor."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from omniflow.experts.lean import CheckpointError, LeanConfig, RopeConfig, load, random_tensors, read_config
from tests.experts.lean.models import greedy, lean, prompts

CONFIG = {
    "model_type": "llama",
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rope_theta": 10000.0,
    "torch_dtype": "bfloat16",
    "transformers.js_config": {"dtype": "q4"},
    "rope_interleaved": False,
    "rope_scaling": None,
    "bos_token_id": 1,
}
SHAPE = LeanConfig(
    vocab_size=97,
    hidden_size=32,
    intermediate_size=48,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    norm_eps=1e-6,
    rope=RopeConfig(theta=10000.0),
)
QUERY = "model.layers.1.self_attn.q_proj.weight"


def _write(folder: Path, tensors: dict[str, Tensor], **fields: Any) -> Path:
    (folder / "config.json").write_text(json.dumps({**CONFIG, **fields}))
    save_file(tensors, folder / "model.safetensors")
    return folder


def test_the_config_of_an_ordinary_directory_is_read(tmp_path: Path) -> None:
    assert read_config(_write(tmp_path, {})) == SHAPE


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model_type": "mamba"}, "model_type 'mamba' is not a shape"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu' is not supported"),
        ({"hidden_size": "32"}, "hidden_size must be a positive integer, not '32'"),
        ({"num_hidden_layers": None}, "num_hidden_layers must be a positive integer, not None"),
        ({"sliding_window": 128}, "sliding_window 128 is not supported"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, r"layer_types \['sliding_attention'\]"),
        ({"rope_scaling": {"type": "yarn", "factor": 2.0}}, "rope_type 'yarn' is not supported"),
        ({"rope_scaling": {"rope_type": "llama3"}}, "rope_parameters.factor must be a number, not None"),
        ({"rope_parameters": {"mrope_section": [1, 1, 2]}}, "mrope_section is not supported for model_type 'llama'"),
        ({"logit_softcap": 30.0}, "field logit_softcap = 30.0 is not supported"),
        ({"rms_norm_eps": True}, "rms_norm_eps must be a number"),
        ({"num_key_value_heads": 3}, "num_attention_heads 4 / num_key_value_heads 3"),
    ],
)
def test_a_field_that_is_not_ours_is_named(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read_config(_write(tmp_path, {}, **fields))


def test_a_missing_config_or_section_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json: not found"):
        read_config(tmp_path)
    with pytest.raises(CheckpointError, match=r"config\.json: there is no section `thinker_config\.text_config`"):
        read_config(_write(tmp_path, {}), section="thinker_config.text_config")


def _without_query(tensors: dict[str, Tensor]) -> None:
    del tensors[QUERY]


def _wide_query(tensors: dict[str, Tensor]) -> None:
    tensors[QUERY] = torch.zeros(40, 32)


def _extra_norm(tensors: dict[str, Tensor]) -> None:
    tensors["model.layers.0.self_attn.q_norm.weight"] = torch.ones(8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_without_query, f"tensor {QUERY} is missing"),
        (_wide_query, rf"model\.safetensors: tensor {QUERY} has shape \[40, 32\], expected \[32, 32\]"),
        (_extra_norm, r"model\.safetensors: tensor model\.layers\.0\.self_attn\.q_norm\.weight has no place"),
    ],
)
def test_missing_wrong_shaped_and_surplus_tensors_are_named(
    tmp_path: Path, change: Callable[[dict[str, Tensor]], None], message: str
) -> None:
    tensors = random_tensors(SHAPE, 0)
    change(tensors)
    with pytest.raises(CheckpointError, match=message):
        lean(_write(tmp_path, tensors))


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    folder = _write(tmp_path, random_tensors(SHAPE, 0))
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"model\.safetensors: not a whole safetensors file"):
        lean(folder)


def test_a_sharded_checkpoint_equals_a_single_file_and_a_missing_shard_is_named(tmp_path: Path) -> None:
    tensors = random_tensors(SHAPE, 0)
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    whole, sharded = _write(tmp_path / "one", tensors), _write(tmp_path / "two", {})
    (sharded / "model.safetensors").unlink()
    files = {name: f"part-{i % 2}.safetensors" for i, name in enumerate(tensors)}
    for file in set(files.values()):
        save_file({name: tensors[name] for name in tensors if files[name] == file}, sharded / file)
    index = sharded / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": files}))
    assert greedy(lean(sharded), prompts(2), 5) == greedy(lean(whole), prompts(2), 5)
    (sharded / "part-1.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"shard part-1\.safetensors is missing"):
        lean(sharded)
    index.write_text(json.dumps({"weight_map": {"a": "../one/model.safetensors"}}))
    with pytest.raises(CheckpointError, match="is not a file name in the same folder"):
        lean(sharded)


def test_a_part_of_a_larger_checkpoint_is_found_by_its_prefix(tmp_path: Path) -> None:
    tensors = random_tensors(SHAPE, 0)
    alone = tmp_path / "alone"
    part = tmp_path / "part"
    for folder in (alone, part):
        folder.mkdir()
    _write(alone, tensors)
    _write(part, {**{f"thinker.{k}": v for k, v in tensors.items()}, "talker.codec_head.weight": torch.zeros(2, 2)})
    decoder = load(
        part, dtype=torch.float32, device=torch.device("cpu"), cache_tokens=64, block_tokens=8, prefix="thinker.model."
    )
    assert greedy(decoder, prompts(2), 5) == greedy(lean(alone), prompts(2), 5)
