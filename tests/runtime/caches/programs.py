"""Small programs over null experts whose cards ask for caches, written to a folder and compiled."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import omniflow
from omniflow import Schedule

TALK_CARD = """omniflow: 1
kind: card
id: talk
components:
  tokenizer: {{use: null.tokenizer}}
  thinker: {{use: null.thinker}}
loops:
  think: {{kind: ar_decode, binds: thinker, cache: kv, stop: [2], max_tokens: 40{loop}}}
caches:
  kv: {{kind: paged_kv, max_bytes: {size}, block_tokens: 16{cache}}}
"""
TALK = """omniflow: 1
kind: program
id: talk.reply
card: talk
inputs: {prompt: text}
outputs: {text: reply.text}
nodes:
  tokenize: {op: chat_tokenize, with: tokenizer}
  think: {loop: think}
  reply: {op: detokenize, with: tokenizer}
edges:
  - prompt -> tokenize.messages
  - tokenize.tokens -> think.prompt
  - think.tokens ~> reply.tokens
"""
TOKENS = """omniflow: 1
kind: program
id: talk.tokens
card: talk
inputs: {prompt: "tokens[P]"}
outputs: {tokens: think.tokens}
nodes:
  think: {loop: think}
edges:
  - prompt -> think.prompt
"""
PAINT_CARD = """omniflow: 1
kind: card
id: paint
components:
  tokenizer: {{use: null.tokenizer}}
  encoder: {{use: null.text_encoder}}
loops:
  read: {{kind: encode, binds: encoder{loop}}}
caches: {{{caches}}}
"""
PAINT = """omniflow: 1
kind: program
id: paint.read
card: paint
inputs: {prompt: text, negative: {type: text, default: ""}}
outputs: {yes: read_prompt.embeds, no: read_negative.embeds}
nodes:
  prompt_tokens: {op: tokenize, with: tokenizer}
  negative_tokens: {op: tokenize, with: tokenizer}
  read_prompt: {loop: read}
  read_negative: {loop: read}
edges:
  - prompt -> prompt_tokens.text
  - negative -> negative_tokens.text
  - prompt_tokens.tokens -> read_prompt.tokens
  - negative_tokens.tokens -> read_negative.tokens
"""


@cache
def talk(*, loop: str = "", reuse: bool = True, size: str = "64 KiB") -> Schedule:
    """A prompt, answered; of the pool's 1024 tokens a reply may take 40 and its prompt."""
    card = TALK_CARD.format(loop=loop, cache=", reuse: prefix" if reuse else "", size=size)
    return compile_in(card, TALK)


@cache
def paint(*, size: str | None = "64 KiB") -> Schedule:
    """Two prompts, each read by one encoder; without `size` nothing is kept."""
    kept = f"kept: {{kind: features, max_bytes: {size}}}" if size else ""
    return compile_in(PAINT_CARD.format(loop=", cache: kept" if size else "", caches=kept), PAINT)


def compile_in(card: str, program: str) -> Schedule:
    with TemporaryDirectory() as folder:
        (Path(folder) / "card.yaml").write_text(card, encoding="utf-8")
        path = Path(folder) / "p.program.yaml"
        path.write_text(program, encoding="utf-8")
        return omniflow.compile(path)
