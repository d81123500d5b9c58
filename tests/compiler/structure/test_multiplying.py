"""Graphs and workflows that name others twice at every level: 400 bytes of files that stand for millions of nodes."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import pytest

from omniflow_compiler import expand
from omniflow_compiler.pipeline import Compilation, Options, compile_file
from tests.compiler.programs import codes_of, faults

CARD = """omniflow: 1
kind: card
id: c
components: {tokenizer: {use: null.tokenizer}}
loops: {}
"""
HEAD = "omniflow: 1\nkind: {kind}\nid: {id}\n"
LEAF = """inputs: {text: text}
outputs: {tokens: t.tokens}
nodes: {t: {op: tokenize, with: tokenizer}}
edges: [text -> t.text]
"""
FORK = """inputs: {text: text}
outputs: {tokens: t.tokens, others: u.tokens}
nodes: {t: {graph: NEXT.yaml}, u: {graph: NEXT.yaml}}
edges: [text -> t.text, text -> u.text]
"""


def forking(folder: Path, depth: int) -> Compilation:
    """A program over graphs that name the next one twice, `depth` times."""
    for level in range(depth):
        body = FORK.replace("NEXT", f"g{level + 1}")
        (folder / f"g{level}.yaml").write_text(HEAD.format(kind="graph", id=f"g{level}") + body)
    (folder / f"g{depth}.yaml").write_text(HEAD.format(kind="graph", id="leaf") + LEAF)
    (folder / "card.yaml").write_text(CARD)
    text = (
        HEAD.format(kind="program", id="p")
        + "card: c\n"
        + LEAF.replace("op: tokenize, with: tokenizer", "graph: g0.yaml")
    )
    (folder / "p.program.yaml").write_text(text)
    return compile_file(folder / "p.program.yaml", Options())


def test_graphs_that_multiply_beyond_the_limit_are_one_finding_in_good_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expand, "MAX_NODES", 500)
    start = perf_counter()
    (found,) = faults(forking(tmp_path, 30))
    assert perf_counter() - start < 10  # 30 files, not 2 ** 30
    assert (found.code, found.help) == ("OF1104", ("graphs that name graphs multiply: use fewer",))
    assert found.message == "with the 256 nodes of graph `u` there are more than the limit of 500"


def test_graphs_named_twice_keep_their_own_params(tmp_path: Path) -> None:
    graph = LEAF.replace("op: tokenize", "op: chat_tokenize, system: $who").replace("t.text", "t.messages")
    params = "params: {who: {type: text, default: nobody}}\n"
    (tmp_path / "leaf.yaml").write_text(HEAD.format(kind="graph", id="leaf") + params + graph)
    inner = LEAF.replace("op: tokenize, with: tokenizer", "graph: leaf.yaml, params: {who: $who}")
    (tmp_path / "inner.yaml").write_text(HEAD.format(kind="graph", id="inner") + params + inner)
    (tmp_path / "card.yaml").write_text(CARD)
    body = "card: c\n" + FORK.replace("graph: NEXT.yaml", "graph: inner.yaml, params: {who: ann}", 1)
    body = body.replace("graph: NEXT.yaml", "graph: inner.yaml, params: {who: bob}")
    (tmp_path / "p.program.yaml").write_text(HEAD.format(kind="program", id="p") + body)
    compilation = compile_file(tmp_path / "p.program.yaml", Options())
    assert codes_of(compilation) == []
    assert compilation.schedule is not None
    systems = {node.id: node.attributes["system"] for node in compilation.schedule.nodes}
    assert systems == {"t/t/t": "ann", "u/t/t": "bob"}


def test_workflows_that_multiply_are_stopped(tmp_path: Path) -> None:
    forking(tmp_path, 0)
    stage = "inputs: {text: text}\noutputs: {tokens: a.tokens}\nstages: {a: {program: NEXT}, b: {program: NEXT}}\n"
    stage += "edges: [text -> a.text, text -> b.text]\n"
    for level in range(12):
        name = "p.program.yaml" if level == 11 else f"w{level + 1}.workflow.yaml"
        text = HEAD.format(kind="workflow", id=f"w{level}") + stage.replace("NEXT", name)
        (tmp_path / f"w{level}.workflow.yaml").write_text(text)
    found = faults(compile_file(tmp_path / "w0.workflow.yaml", Options()))
    assert "there are more than 500 stages, those of workflows in workflows counted" in [f.message for f in found]
