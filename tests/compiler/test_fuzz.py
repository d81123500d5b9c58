"""Whatever is in a file, the compiler answers with findings that have a place, never with a traceback."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omniflow_compiler.codes import CODES
from omniflow_compiler.formats import FORMATS
from omniflow_compiler.library.library import BUILT_IN
from omniflow_compiler.pipeline import Compilation, Options, compile_file
from omniflow_compiler.schedule import content_hash
from omniflow_compiler.validate import schema

SPECS = Path(__file__).parents[2] / "specs" / "null"
FILES = {path.name: path.read_text("utf-8") for path in sorted(SPECS.glob("*.yaml"))}
often = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))


def assert_answered(files: Mapping[str, str | bytes], name: str) -> Compilation:
    with tempfile.TemporaryDirectory() as folder:
        family = Path(folder) / "family"
        family.mkdir()
        for file, content in files.items():
            (family / file).write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "replace"))
        compilation = compile_file(family / name, Options())
        assert_findings_are_whole(compilation)
        return compilation


def assert_findings_are_whole(compilation: Compilation) -> None:
    """Findings are whole and can be written in every form; without errors there is a schedule."""
    for found in compilation.report:
        assert found.code in CODES
        assert found.message.strip() == found.message != ""
        spans = [found.span, *(label.span for label in found.labels), *(edit.span for edit in found.edits)]
        for span in spans:
            source = compilation.sources.sources.get(span.file)
            assert source is not None or span.file.startswith("<") or found.code == "OF1001", span
            assert span.line >= 1
            assert span.column >= 1
            assert (span.line, span.column) <= (span.end_line, span.end_column)
            assert source is None or span.line <= len(source.lines) + 1
    for write in FORMATS.values():
        write([(compilation.report, compilation.sources)])
    if compilation.kind in ("program", "workflow"):
        assert (compilation.schedule is None) == (compilation.report.num_errors > 0)
    if compilation.schedule is not None:
        assert json.loads(compilation.schedule.to_json())["content_hash"] == content_hash(compilation.schedule)


LONGER = ("- ", ": ", "\n  ", "<<", "...", "---", "~>", "->")
punctuation = st.sampled_from([*":-[]{},&*!|>'\"%@`#?~\n\t $", *LONGER])
words = st.sampled_from(["omniflow", "kind", "card", "program", "nodes", "edges", "op", "loop", "1", "null", "é", "声"])


@often
@given(st.lists(punctuation | words | st.text(max_size=3), max_size=60).map("".join))
def test_any_text_is_answered(text: str) -> None:
    assert_answered({"x.yaml": text}, "x.yaml")


@often
@given(st.binary(max_size=200))
def test_any_bytes_are_answered(content: bytes) -> None:
    assert_answered({"x.yaml": content}, "x.yaml")


@often
@given(st.text(max_size=40), st.sampled_from(sorted(schema("program")["properties"])))
def test_any_text_in_a_section_is_answered(text: str, key: str) -> None:
    program = FILES["speech.program.yaml"]
    assert_answered({**FILES, "x.program.yaml": f"{program}\n{key}: {text}\n"}, "x.program.yaml")


@st.composite
def scratched(draw: st.DrawFn) -> tuple[str, str]:
    """A sound file with lines left out, written twice, swapped, cut or changed in a character."""
    name = draw(st.sampled_from(sorted(FILES)))
    lines = FILES[name].split("\n")
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines) - 1))
        other = draw(st.integers(0, len(lines) - 1))
        column = draw(st.integers(0, len(lines[at])))
        how = draw(st.sampled_from(["drop", "double", "swap", "cut", "change", "insert", "indent"]))
        if how == "drop" and len(lines) > 1:
            del lines[at]
        elif how == "double":
            lines.insert(at, lines[at])
        elif how == "swap":
            lines[at], lines[other] = lines[other], lines[at]
        elif how == "cut":
            lines[at] = lines[at][:column]
        elif how == "change":
            lines[at] = lines[at][:column] + draw(st.characters(codec="utf-8")) + lines[at][column + 1 :]
        elif how == "insert":
            lines[at] = lines[at][:column] + draw(punctuation | words) + lines[at][column:]
        else:
            lines[at] = f"  {lines[at]}"
    return name, "\n".join(lines)


@settings(often, max_examples=300)
@given(scratched(), st.sampled_from(sorted(name for name in FILES if "program" in name)))
def test_a_scratched_spec_is_answered(scratch: tuple[str, str], program: str) -> None:
    name, text = scratch
    assert_answered({**FILES, name: text}, program if "card" in name else name)


KEYS = sorted({*schema("card")["properties"], *schema("program")["properties"], "op", "loop", "with", "each", "when"})
NAMES = st.sampled_from(["a", "b", "think", "speak", "kv", "x/y", "", "a b", "é", "$p", "1"]) | st.text(max_size=3)
PORTS = st.builds("{}.{}".format, NAMES, st.sampled_from(["tokens", "prompt", "a", "b", "sum", "parts", "x"]))
ENDS = st.builds("{} {} {}".format, PORTS | NAMES, st.sampled_from(["->", "~>", "=>", ""]), PORTS | NAMES)
LEAVES = st.one_of(
    NAMES, PORTS, ENDS, st.none(), st.booleans(), st.integers(-3, 99), st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["ar_decode", "encode", "text", "tokens[T]", "f32[T, 4] @ r", "audio[S] @ 24 kHz", "4 MiB"]),
    st.sampled_from(["inputs.a > 1", "2 * think.tokens", "$p"]),
)  # fmt: skip
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | NAMES, inner, max_size=4),
)
NODES = st.dictionaries(
    NAMES, st.fixed_dictionaries({}, optional={
        "op": st.sampled_from(sorted(BUILT_IN.ops)), "loop": st.sampled_from(["think", "speak"]), "with": NAMES,
        "each": st.booleans() | LEAVES, "when": LEAVES, "drop": st.lists(st.integers(-1, 5)), "gap": LEAVES,
    }) | TREES, max_size=5,
)  # fmt: skip
LOOPS = st.dictionaries(
    NAMES, st.fixed_dictionaries({"kind": st.sampled_from(sorted(BUILT_IN.loops)), "binds": NAMES}, optional={
        "max_tokens": LEAVES, "steps": LEAVES, "stop": LEAVES | st.lists(LEAVES), "cache": NAMES, "inner": TREES,
    }) | TREES, max_size=4,
)  # fmt: skip
COMPONENTS = st.dictionaries(
    NAMES, st.fixed_dictionaries({"use": st.sampled_from(sorted(n for n in BUILT_IN.experts if n.startswith("null.")))})
    | TREES, max_size=4,
)  # fmt: skip
EDGES = st.lists(ENDS | st.dictionaries(ENDS, TREES, max_size=2) | TREES, max_size=6)
CARDS = st.fixed_dictionaries(
    {"omniflow": st.just(1), "kind": st.just("card"), "id": st.just("c"), "components": COMPONENTS},
    optional={"loops": LOOPS, "caches": TREES, "params": TREES, "capabilities": TREES, "parity": TREES, "lints": TREES},
)
PROGRAMS = st.fixed_dictionaries(
    {
        "omniflow": st.just(1), "kind": st.just("program"), "id": st.just("p"), "card": st.just("c"),
        "nodes": NODES, "edges": EDGES, "outputs": st.dictionaries(NAMES, PORTS, max_size=3) | TREES,
    },
    optional={"inputs": st.dictionaries(NAMES, LEAVES, max_size=3) | TREES, "params": TREES, "lints": TREES},
)  # fmt: skip


@settings(often, max_examples=300)
@given(CARDS, PROGRAMS)
def test_any_spec_of_the_right_outline_is_answered(card: object, program: object) -> None:
    files = {"card.yaml": yaml.safe_dump(card, allow_unicode=True), "p.program.yaml": yaml.safe_dump(program)}
    assert_answered(files, "p.program.yaml")
    assert_answered(files, "card.yaml")


@settings(often, max_examples=100)
@given(TREES, st.sampled_from(["graph", "workflow", "config", "card", "program"]))
def test_any_document_of_each_kind_is_answered(tree: object, kind: str) -> None:
    document = {"omniflow": 1, "kind": kind, **(tree if isinstance(tree, dict) else {"nodes": tree})}
    assert_answered({"x.yaml": yaml.safe_dump(document, allow_unicode=True)}, "x.yaml")


@pytest.mark.parametrize("name", [name for name in FILES if "program" in name])
def test_what_check_accepts_compiles(name: str) -> None:
    assert assert_answered(FILES, name).schedule is not None
