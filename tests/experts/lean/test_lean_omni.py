"""The text stacks inside Qwen2.5-Omni and Qwen3-Omni: sections, prefixes, positions with axes, shared experts."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from omniflow.experts.lean import TensorNames, Tensors, from_source, parse_config
from omniflow.roles import TokenRows
from tests.experts.lean.models import MOE, SIZES

pytestmark = pytest.mark.hf
MROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2]}


def _models() -> dict[str, tuple[Any, Any]]:
    from transformers.models.qwen2_5_omni import configuration_qwen2_5_omni as config25
    from transformers.models.qwen2_5_omni import modeling_qwen2_5_omni as model25
    from transformers.models.qwen3_omni_moe import configuration_qwen3_omni_moe as config3
    from transformers.models.qwen3_omni_moe import modeling_qwen3_omni_moe as model3

    sizes = {**SIZES, "head_dim": 16, "rope_parameters": dict(MROPE)}
    plain = {**SIZES, "rope_parameters": {**MROPE, "mrope_section": [2, 1, 1]}}
    shared = {"shared_expert_intermediate_size": 20}
    return {
        "qwen2_5_omni_text": (model25.Qwen2_5OmniThinkerTextModel, config25.Qwen2_5OmniTextConfig(**plain)),
        "qwen3_omni_moe_text": (
            model3.Qwen3OmniMoeThinkerTextModel,
            config3.Qwen3OmniMoeTextConfig(**sizes, **MOE),
        ),
        "qwen3_omni_moe_talker_text": (
            model3.Qwen3OmniMoeTalkerModel,
            config3.Qwen3OmniMoeTalkerTextConfig(**sizes, **MOE, **shared),
        ),
    }


@pytest.mark.parametrize("name", ["qwen2_5_omni_text", "qwen3_omni_moe_text", "qwen3_omni_moe_talker_text"])
def test_hidden_states_equal_transformers_with_positions_of_three_axes(name: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    kind, hf_config = _models()[name]
    model = kind(hf_config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.2)
    data = json.loads(hf_config.to_json_string(use_diff=False))
    config = parse_config(data, where="config.json")
    decoder = from_source(
        config,
        Tensors(model.state_dict()),
        names=TensorNames(body="", embed=None, head=None, others=("embed_tokens.", "codec_embedding.")),
        dtype=torch.float32,
        device=torch.device("cpu"),
        cache_tokens=64,
        block_tokens=8,
    )
    generator = torch.Generator().manual_seed(5)
    embeds = torch.randn(11, 32, generator=generator)
    positions = torch.randint(0, 30, (3, 11), generator=generator)
    with torch.no_grad():
        expected = model(
            inputs_embeds=embeds[None],
            position_ids=torch.cat([torch.arange(11)[None], positions])[:, None],
            attention_mask=torch.ones(1, 11, dtype=torch.int64),
            use_cache=False,
        ).last_hidden_state[0]
    state = decoder.open({}, max_positions=16)
    assert state is not None
    parts = []
    for chunk in (slice(0, 4), slice(4, 11)):
        rows = TokenRows(sequence=state, embeds=embeds[chunk], positions=positions[:, chunk], wants_hidden=True)
        (result,) = decoder.step([rows])
        assert result.hidden is not None
        assert result.logits is None
        parts.append(result.hidden)
    torch.testing.assert_close(torch.cat(parts), expected, atol=2e-5, rtol=0)
