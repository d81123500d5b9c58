from __future__ import annotations

from pathlib import Path

import pytest

from omniflow_compiler.pipeline import Options, compile_file
from tests.compiler.plan.programs import CARD, PROGRAM, compile_texts
from tests.compiler.programs import line_of


def test_a_bound_names_the_node_whose_tokens_it_counts(tmp_path: Path) -> None:
    schedule = compile_texts(tmp_path).schedule
    assert schedule is not None
    second = schedule.node("second")
    assert second.attributes["max_tokens"] == "12 * think.tokens + 64"
    assert second.lengths == {"think.tokens": "first.tokens"}
    assert {unit.kind: unit.expected for unit in second.units}["ar_token"] == 12 * 8 + 64


def faults(folder: Path, bound: str, program: str = PROGRAM) -> list[str]:
    compilation = compile_texts(folder, CARD.replace("12 * think.tokens + 64", bound), program)
    return [
        f"{found.code} {line_of(compilation, found)}: {found.message}"
        for found in compilation.report
        if found.level == "error"
    ]


@pytest.mark.parametrize(
    ("bound", "place", "why"),
    [
        ("2 * thinc.tokens", "thinc.tokens", "no length that loop `again` can be bounded by"),
        ("think.token + 1", "think.token", "no length"),
        ("think + 1", "think", "no length"),
        ("8 - 2 * think.tokens", "8 - 2 * think.tokens", "allows -8 tokens"),
        ("think.tokens == 3", "think.tokens == 3", "is no number of tokens"),
        ("1e999 * think.tokens", "1e999 * think.tokens", "is no number of tokens"),
        ("think.tokens * 4294967296", "think.tokens * 4294967296", "at most"),
        ("again.tokens", "again.tokens", "does not run before it"),
    ],
)
def test_a_bound_that_cannot_be_known_is_shown_where_it_is_written(
    bound: str, place: str, why: str, tmp_path: Path
) -> None:
    (fault,) = faults(tmp_path, bound)
    assert fault.startswith(f"OF1107 {place}: ")
    assert why in fault


def test_a_bound_reads_only_loops_that_run_before(tmp_path: Path) -> None:
    program = PROGRAM.replace("first.tokens -> second.prompt", "tokenize.tokens -> second.prompt")
    program = program.replace("{text: reply.text}", "{text: reply.text, tokens: first.tokens}")
    (fault,) = faults(tmp_path, "think.tokens", program)
    assert "loop `think` does not run before it" in fault


def test_two_nodes_of_the_loop_before_it_are_ambiguous(tmp_path: Path) -> None:
    program = PROGRAM.replace("  second:", "  more:     {loop: think}\n  second:")
    program = program.replace(
        "first.tokens -> second.prompt", "first.tokens -> more.prompt\n  - more.tokens -> second.prompt"
    )
    (fault,) = faults(tmp_path, "think.tokens", program)
    assert "could be of 2 nodes before `second`: first, more" in fault


def test_a_card_alone_shows_names_that_are_no_loops(tmp_path: Path) -> None:
    (tmp_path / "card.yaml").write_text(CARD.replace("think.tokens +", "speak.tokens +"))
    report = compile_file(tmp_path / "card.yaml", Options()).report
    (found,) = [found for found in report if found.code == "OF1107"]
    assert "`speak.tokens`" in found.message
    assert found.help == ("did you mean `think.tokens`?",)


def test_bounds_of_a_stage_read_the_loops_of_its_own_card(tmp_path: Path) -> None:
    compile_texts(tmp_path)
    (tmp_path / "w.workflow.yaml").write_text(
        "omniflow: 1\nkind: workflow\nid: w\ninputs: {prompt: text}\noutputs: {text: b.text}\n"
        "stages:\n  a: {program: p.program.yaml}\n  b: {program: p.program.yaml}\n"
        "edges:\n  - prompt -> a.prompt\n  - a.text -> b.prompt\n"
    )
    compilation = compile_file(tmp_path / "w.workflow.yaml", Options())
    assert compilation.schedule is not None, list(compilation.report)
    assert compilation.schedule.node("b/second").lengths == {"think.tokens": "b/first.tokens"}
