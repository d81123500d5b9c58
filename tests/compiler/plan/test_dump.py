from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omniflow.catalog import catalog
from omniflow_compiler.dump import Dump, DumpError, Part, parse, write
from omniflow_compiler.pipeline import Compilation, Options, compile_file
from omniflow_compiler.snapshot import NEED_SOUND, PASSES, known_of, snapshot
from tests.compiler.plan.programs import PROGRAM, compile_texts, random_program

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
KIND = st.from_regex(r"[a-z]{1,8}", fullmatch=True)
PART = st.builds(Part, kind=KIND, name=st.text(), fields=st.lists(st.tuples(st.text(), JSON), max_size=4).map(tuple))


def dump_of(compilation: Compilation, after: str) -> Dump:
    assert compilation.graph is not None
    assert compilation.types is not None
    return snapshot(known_of(compilation.graph, compilation.types, None, compilation.plan), after)


@given(KIND, st.lists(PART, max_size=5))
def test_any_dump_reads_back_as_it_was_written(after: str, parts: list[Part]) -> None:
    dump = Dump(after=after, parts=tuple(parts))
    assert parse(write(dump)) == dump


@pytest.mark.parametrize("name", sorted(catalog()))
def test_dumps_of_the_catalogue_read_back_after_every_pass(name: str) -> None:
    compilation = compile_file(catalog()[name], Options())
    for after in PASSES if compilation.plan is not None else [name for name in PASSES if name not in NEED_SOUND]:
        dump = dump_of(compilation, after)
        assert parse(write(dump)) == dump


@settings(max_examples=40, deadline=None)
@given(st.integers(min_value=0, max_value=2**32), st.sampled_from(list(PASSES)))
def test_dumps_of_random_programs_read_back(seed: int, after: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        compilation = compile_texts(Path(folder), program=random_program(seed))
    assert compilation.plan is not None, list(compilation.report)
    dump = dump_of(compilation, after)
    assert parse(write(dump)) == dump


def test_each_pass_adds_what_it_finds_out(tmp_path: Path) -> None:
    program = PROGRAM.replace("  reply:", "  spare:    {op: detokenize, with: tokenizer}\n  reply:")
    program += "  - first.tokens ~> spare.tokens\n"
    compilation = compile_texts(
        tmp_path, program=program.replace("{text: reply.text}", "{text: reply.text, more: spare.text}")
    )
    dumps = {after: dump_of(compilation, after) for after in PASSES}
    assert not dumps["resolve"].of("edge")
    assert len(dumps["build"].of("edge")) == 5
    ports = [
        next(part for part in dumps[after].of("node") if part.name == "first").field("out tokens")
        for after in ("build", "types")
    ]
    assert ports == ["tokens[T] < vocabulary", "tokens[T=first.T] < 317"]
    assert [part.name for part in dumps["plan"].of("device")] == ["cpu"]
    assert not dumps["prune"].of("device")


def test_prune_leaves_only_what_the_outputs_need(tmp_path: Path) -> None:
    program = PROGRAM.replace("{text: reply.text}", "{text: reply.text, tokens: first.tokens}")
    compilation = compile_texts(tmp_path, program=program, outputs=["tokens"])
    assert compilation.graph is not None
    assert compilation.types is not None
    known = known_of(compilation.graph, compilation.types, ["tokens"], compilation.plan)
    assert [part.name for part in snapshot(known, "prune").of("node")] == ["tokenize", "first"]
    assert len(snapshot(known, "streams").of("node")) == 4


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("node a\n", "line 1: a dump begins with"),
        ("# omniflow dump 99, after plan\n", "line 1"),
        ("# omniflow dump 1, after plan\n  a: 1\n", "before any part"),
        ("# omniflow dump 1, after plan\nnode a\n  a = 1\n", "line 3: a field is"),
        ("# omniflow dump 1, after plan\nnode a\n  a: {\n", "line 3: a field is"),
        ('# omniflow dump 1, after plan\nnode "a\n', "line 2: a name in quotes"),
    ],
)
def test_a_text_that_is_no_dump_is_refused(text: str, why: str) -> None:
    with pytest.raises(DumpError, match=why):
        parse(text)
