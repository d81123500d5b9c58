"""Ops that prepare what picture and video models read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import torch
from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from omniflow.loops.base import Emit
from omniflow.ops.base import Call
from omniflow.roles import FixedTokenizer


def tokenize_fixed(call: Call) -> Iterator[Emit]:
    """`text` -> `tokens` and `mask`, both of the same fixed length. Errors: ValueError for another tokenizer."""
    if not isinstance(call.component, FixedTokenizer):
        raise ValueError("this tokenizer does not cut and pad text")
    ids, mask = call.component.encode_fixed(call.values["text"], int(call.params.get("length", 0)))
    yield Emit("tokens", torch.tensor(ids, dtype=torch.int64))
    yield Emit("mask", torch.tensor(mask, dtype=torch.int64))


def caption(call: Call) -> Iterator[Emit]:
    """`text` and the scalars that are connected -> `text`, by the attribute `template`. Errors: ValueError."""
    try:
        yield Emit("text", _template(str(call.params["template"])).render(dict(call.values)))
    except (TemplateError, ArithmeticError, TypeError) as error:
        raise ValueError(f"its template does not fit the inputs: {error}") from None


@lru_cache(maxsize=64)
def _template(text: str) -> Template:
    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)
    return environment.from_string(text)
