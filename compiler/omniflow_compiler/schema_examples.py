"""Small sound specs and entries, shown by editors as examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EXAMPLES: Mapping[str, Any] = {
    "card": {
        "omniflow": 1,
        "kind": "card",
        "id": "answer",
        "capabilities": ["reasoning_text"],
        "components": {"tokenizer": {"use": "null.tokenizer"}, "thinker": {"use": "null.thinker"}},
        "loops": {"think": {"kind": "ar_decode", "binds": "thinker", "cache": "kv", "max_tokens": 64}},
        "caches": {"kv": {"kind": "paged_kv", "max_bytes": "16 MiB"}},
    },
    "program": {
        "omniflow": 1,
        "kind": "program",
        "id": "answer.text",
        "card": "answer",
        "inputs": {"prompt": "text"},
        "outputs": {"text": "reply.text"},
        "nodes": {
            "tokenize": {"op": "chat_tokenize", "with": "tokenizer"},
            "think": {"loop": "think"},
            "reply": {"op": "detokenize", "with": "tokenizer"},
        },
        "edges": [
            "prompt -> tokenize.messages",
            "tokenize.tokens -> think.prompt",
            "think.tokens ~> reply.tokens",
        ],
    },
    "graph": {
        "omniflow": 1,
        "kind": "graph",
        "id": "shorten",
        "inputs": {"tokens": "tokens[T]"},
        "outputs": {"tokens": "cut.value"},
        "nodes": {"cut": {"op": "slice", "stop": 8}},
        "edges": ["tokens ~> cut.value"],
    },
    "workflow": {
        "omniflow": 1,
        "kind": "workflow",
        "id": "twice",
        "inputs": {"prompt": "text"},
        "outputs": {"text": "second.text"},
        "stages": {"first": {"program": "text.program.yaml"}, "second": {"program": "text.program.yaml"}},
        "edges": ["prompt -> first.prompt", "first.text -> second.prompt"],
    },
    "config": {"omniflow": 1, "kind": "config", "devices": {"default": "cuda"}, "budgets": {"cuda": "20 GiB"}},
}

_INPUTS = [{"prompt": "text"}, {"voice": {"type": "text", "default": "", "help": "whose voice"}}]
FIELD_EXAMPLES: Mapping[str, Mapping[str, list[Any]]] = {
    "card": {
        "capabilities": [["reasoning_text", "text_to_speech"]],
        "params": [{"weights": {"type": "path"}, "dtype": {"type": "enum", "of": ["float32", "bfloat16"]}}],
        "components": [EXAMPLES["card"]["components"]],
        "loops": [EXAMPLES["card"]["loops"]],
        "caches": [EXAMPLES["card"]["caches"]],
        "parity": [{"levels": ["C0", "C1", "C3"], "interleave": "required", "quantized": {"int8": 0.1}}],
    },
    "program": {
        "inputs": _INPUTS,
        "outputs": [{"text": "reply.text"}],
        "nodes": [EXAMPLES["program"]["nodes"]],
        "edges": [EXAMPLES["program"]["edges"]],
    },
    "graph": {
        "inputs": [{"tokens": "tokens[T]"}],
        "outputs": [{"tokens": "cut.value"}],
        "nodes": [EXAMPLES["graph"]["nodes"]],
        "edges": [EXAMPLES["graph"]["edges"]],
    },
    "workflow": {
        "stages": [EXAMPLES["workflow"]["stages"]],
        "edges": [EXAMPLES["workflow"]["edges"]],
        "outputs": [EXAMPLES["workflow"]["outputs"]],
        "inputs": _INPUTS,
    },
    "config": {
        "params": [{"max_tokens": 200}],
        "devices": [{"default": "cuda", "vocoder": "cpu"}],
        "dtypes": [{"thinker": "bfloat16"}],
        "budgets": [{"cpu": "4 GiB"}],
        "faults": [[{"node": "think", "unit": 3, "do": "nan", "request": 1}]],
    },
}
