from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from omniflow_compiler.library.library import BUILT_IN
from omniflow_compiler.pipeline import Options, compile_file

ROOT = Path(__file__).parents[2]
SPECS = ROOT / "specs" / "null"
PROGRAMS = sorted(SPECS.glob("*.program.yaml"))
BROKEN = """omniflow: 1
kind: program
id: broken
card: null-speech
inputs: {prompt: text, spare: text, other: 'f32[T]'}
outputs: {text: repyl.text, audio: join.samples}
nodes:
  tokenize: {op: chat_tokenise, with: tokenizr, extra: 1, further: 2}
  think: {loop: think}
  a: {op: add}
  b: {op: add}
  join: {op: join}
  dead: {op: concat}
edges:
  - a.sum ~> b.a
  - b.sum ~> a.a
  - think.hidden ~> a.b
  - think.hidden ~> b.b
  - nothing.x -> join.items
"""
SHOW = """
import hashlib, sys
from pathlib import Path
from omniflow_compiler.pipeline import Options, compile_file
from omniflow_compiler.render import render_report
for name in sys.argv[1:]:
    compilation = compile_file(Path(name), Options())
    text = render_report(compilation.report, compilation.sources)
    if compilation.schedule is not None:
        text += compilation.schedule.to_json() + compilation.schedule.to_map()
    print(Path(name).name, hashlib.sha256(text.encode()).hexdigest())
"""


def test_the_seed_of_hashes_changes_no_byte(tmp_path: Path) -> None:
    family = tmp_path / "family"
    family.mkdir()
    (family / "card.yaml").write_text((SPECS / "card.yaml").read_text())
    (family / "broken.program.yaml").write_text(BROKEN)
    names = [*map(str, PROGRAMS), str(family / "broken.program.yaml")]
    seen = set()
    for seed in range(10):
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        command = [sys.executable, "-c", SHOW, *names]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
        seen.add(done.stdout)
    assert len(seen) == 1
    assert done.stdout.count("\n") == len(names)


def shuffled(value: Any, random: Random) -> Any:
    """The document with the keys of every mapping, and its edges, in another order."""
    if isinstance(value, dict):
        keys = list(value)
        random.shuffle(keys)
        return {key: shuffled(value[key], random) for key in keys}
    return value


def read(path: Path) -> Any:
    return yaml.load(path.read_text(), Loader=yaml.BaseLoader)  # every scalar as text, which is written as it was


def write(document: Any, path: Path) -> None:
    path.write_text(_yaml(document) + "\n")


def _yaml(value: Any) -> str:
    """The document in flow style; plain scalars stay plain."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_yaml(key)}: {_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_yaml, value)) + "]"
    plain = value.replace("_", "").replace(".", "").replace("-", "")
    return value if plain.isalnum() or value.startswith("$") else json.dumps(value, ensure_ascii=False)


def family_of(path: Path) -> Sequence[Path]:
    card = read(path)["card"]
    return [other for other in SPECS.glob("*card.yaml") if read(other)["id"] == card]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
@settings(max_examples=15, deadline=None)
@given(random=st.randoms(use_true_random=False))
def test_the_order_of_keys_nodes_and_edges_changes_no_byte(path: Path, random: Random) -> None:
    program = read(path)
    variadic = {name for name, op in BUILT_IN.ops.items() if any(port.variadic for port in op.ports.inputs)}
    assert not {node.get("op") for node in program["nodes"].values()} & variadic
    expected = compile_file(path, Options()).schedule
    assert expected is not None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "family"
        folder.mkdir()
        for card in family_of(path):
            write(shuffled(read(card), random), folder / card.name)
        edges = list(program["edges"])
        random.shuffle(edges)
        write(shuffled({**program, "edges": edges}, random), folder / path.name)
        compilation = compile_file(folder / path.name, Options())
    assert compilation.schedule is not None, [found.message for found in compilation.report]
    assert compilation.schedule.to_json() == expected.to_json()


def test_the_order_of_edges_into_a_variadic_port_counts(tmp_path: Path) -> None:
    (tmp_path / "card.yaml").write_text("omniflow: 1\nkind: card\nid: c\ncomponents: {t: {use: null.tokenizer}}\n")
    first, second = "  - x -> join.parts\n", "  - y -> join.parts\n"
    head = "omniflow: 1\nkind: program\nid: p\ncard: c\ninputs: {x: 'f32[T, 4]', y: 'f32[U, 4]'}\n"
    body = "outputs: {z: join.whole}\nnodes: {join: {op: concat}}\nlints: {OF3001: allow}\nedges:\n"
    hashes = set()
    for edges in (first + second, second + first):
        path = tmp_path / "p.program.yaml"
        path.write_text(head + body + edges)
        schedule = compile_file(path, Options()).schedule
        assert schedule is not None
        hashes.add(schedule.content_hash)
        assert [c.source for c in schedule.channels] == [line.split()[1] for line in edges.splitlines()]
    assert len(hashes) == 2


def test_where_a_spec_lies_and_how_it_is_laid_out_changes_no_byte_of_the_schedule(tmp_path: Path) -> None:
    path = SPECS / "speech.program.yaml"
    expected = compile_file(path, Options()).schedule
    assert expected is not None
    for file in ("card.yaml", "speech.program.yaml"):
        text = (SPECS / file).read_text()
        (tmp_path / file).write_text("\ufeff# moved\n\n" + text.replace("\n", "\r\n") + "\r\n# end\r\n", newline="")
    moved = compile_file(tmp_path / "speech.program.yaml", Options())
    assert moved.schedule is not None, [found.message for found in moved.report]
    assert moved.schedule.to_json() == expected.to_json()
