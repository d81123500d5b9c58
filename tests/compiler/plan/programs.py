"""Two language models in a row, and random programs over them."""

from __future__ import annotations

import random
from pathlib import Path

from omniflow_compiler.pipeline import Compilation, Options, compile_file

CARD = """\
omniflow: 1
kind: card
id: c
components:
  tokenizer: {use: null.tokenizer}
  thinker: {use: null.thinker}
loops:
  think: {kind: ar_decode, binds: thinker, cache: kv, max_tokens: 8}
  again: {kind: ar_decode, binds: thinker, max_tokens: 12 * think.tokens + 64}
caches:
  kv: {kind: paged_kv, max_bytes: 4 MiB}
"""
PROGRAM = """\
omniflow: 1
kind: program
id: p
card: c
inputs: {prompt: text}
outputs: {text: reply.text}
nodes:
  tokenize: {op: chat_tokenize, with: tokenizer}
  first:    {loop: think}
  second:   {loop: again}
  reply:    {op: detokenize, with: tokenizer}
edges:
  - prompt -> tokenize.messages
  - tokenize.tokens -> first.prompt
  - first.tokens -> second.prompt
  - second.tokens ~> reply.tokens
"""


def compile_texts(folder: Path, card: str = CARD, program: str = PROGRAM, **options: object) -> Compilation:
    """Compiles a program and its card from their texts."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "card.yaml").write_text(card)
    (folder / "p.program.yaml").write_text(program)
    return compile_file(folder / "p.program.yaml", Options(**options))  # type: ignore[arg-type]


def random_program(seed: int) -> str:
    """A sound program: token ops and language models in any order, values and streams, nothing unread."""
    pick = random.Random(seed)
    nodes = {"tokenize": "{op: chat_tokenize, with: tokenizer}"}
    edges = ["prompt -> tokenize.messages"]
    ports, whole = ["tokenize.tokens"], {"tokenize.tokens"}
    for number in range(pick.randint(1, 12)):
        name, source = f"n{number}", pick.choice(ports)
        kind = pick.choice(["strip", "slice", "think", "concat"])
        arrow = "->" if source in whole or kind in ("think", "concat") else pick.choice(["->", "~>"])
        if kind == "think":
            nodes[name] = "{loop: think}"
            edges.append(f"{source} -> {name}.prompt")
        elif kind == "concat":
            nodes[name] = "{op: concat}"
            edges += [f"{each} -> {name}.parts" for each in (source, pick.choice(ports))]
        elif kind == "strip":
            nodes[name] = f"{{op: strip, drop: {[pick.randint(0, 9)]}}}"
            edges.append(f"{source} {arrow} {name}.tokens")
        else:
            nodes[name] = f"{{op: slice, start: {pick.randint(0, 3)}}}"
            edges.append(f"{source} {arrow} {name}.value")
        port = {"strip": "tokens", "slice": "value", "think": "tokens", "concat": "whole"}[kind]
        ports.append(f"{name}.{port}")
        if kind == "concat":
            whole.add(f"{name}.{port}")
    read = {edge.split()[0] for edge in edges}
    outputs = []
    for number, port in enumerate(port for port in ports if port not in read or pick.random() < 0.2):
        nodes[f"text{number}"] = "{op: detokenize, with: tokenizer}"
        edges.append(f"{port} -> text{number}.tokens")
        outputs.append(f"out{number}: text{number}.text")
    lines = [f"  {name}: {text}" for name, text in nodes.items()]
    head = f"omniflow: 1\nkind: program\nid: p\ncard: c\ninputs: {{prompt: text}}\noutputs: {{{', '.join(outputs)}}}\n"
    return head + "nodes:\n" + "\n".join(lines) + "\nedges:\n" + "".join(f"  - {edge}\n" for edge in edges)
