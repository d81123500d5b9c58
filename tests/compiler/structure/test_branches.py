from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omniflow_compiler.conditions import Conditions, Undecided
from omniflow_compiler.expressions import Expression
from omniflow_compiler.pipeline import Compilation
from tests.compiler.programs import check, codes_of, faults

CARD = """components: {tokenizer: {use: null.tokenizer}, lm: {use: t.text_lm}, m: {use: t.map}}
params: {fast: {type: bool, default: false}, mode: {type: enum, of: [a, b], default: a}}
loops:
  think: {kind: ar_decode, binds: lm, max_tokens: 8}
  again: {kind: ar_decode, binds: lm, max_tokens: 4}
  map: {kind: encode, binds: m}
"""
UNUSED = ("OF3001", "OF3002", "OF3003", "OF3004", "OF2010")
PLAIN = """lints: {OF2010: allow}
inputs: {prompt: text, voice: {type: text, default: ""}, speed: {type: scalar, default: 1}}
outputs: {out: z.text}
nodes:
  tok: {op: tokenize, with: tokenizer}
  x: {loop: think, when: FIRST}
  y: {loop: again, when: SECOND}
  z: {op: detokenize, with: tokenizer}
edges:
- prompt -> tok.text
- tok.tokens -> x.prompt
- tok.tokens -> y.prompt
- x.tokens ~> z.tokens
- y.tokens ~> z.tokens
"""


def branched(folder: Path, first: str, second: str, **options: object) -> Compilation:
    program = PLAIN.replace("FIRST", f"'{first}'").replace("SECOND", f"'{second}'")
    return check(folder, CARD, program, **options)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('inputs.voice == ""', 'inputs.voice != ""'),
        ("inputs.speed > 1", "inputs.speed <= 1"),
        ('inputs.voice == "a" or inputs.speed == 2', 'not (inputs.voice == "a" or inputs.speed == 2)'),
        ("params.fast", "not params.fast"),
        ("inputs.voice", "not inputs.voice"),
    ],
)
def test_two_producers_of_which_exactly_one_runs_may_feed_one_port(tmp_path: Path, first: str, second: str) -> None:
    compilation = branched(tmp_path, first, second)
    assert codes_of(compilation, *UNUSED) == []
    assert compilation.schedule is not None


@pytest.mark.parametrize(
    ("first", "second", "code", "part"),
    [
        ('inputs.voice == ""', 'inputs.voice != "x"', "OF2502", 'when `inputs.voice` is ""'),
        ("inputs.speed > 1", "inputs.speed > 2", "OF2501", "when `inputs.speed` is"),
        ('inputs.voice == "a"', 'inputs.voice == "b"', "OF2501", 'when `inputs.voice` is ""'),
        ("inputs.speed >= 1", "inputs.speed <= 1", "OF2502", "when `inputs.speed` is"),
        ("inputs.speed + 1 > 2", "inputs.speed + 1 <= 2", "OF2502", "cannot be told apart"),
    ],
)
def test_producers_that_overlap_or_leave_a_gap_are_reported_with_a_case(
    tmp_path: Path, first: str, second: str, code: str, part: str
) -> None:
    found = [f for f in faults(branched(tmp_path, first, second)) if f.code == code]
    assert len(found) == 1
    assert part in found[0].message


def test_a_reader_of_a_branch_shares_its_condition_or_is_reported_once(tmp_path: Path) -> None:
    program = """inputs: {prompt: text, voice: text}
outputs: {out: z.text}
nodes:
  tok: {op: tokenize, with: tokenizer}
  x: {loop: think, when: 'inputs.voice != ""'}
  s: {op: slice, stop: 3WHEN}
  z: {op: detokenize, with: tokenizerWHEN}
edges:
- prompt -> tok.text
- tok.tokens -> x.prompt
- x.tokens ~> s.value
- s.value ~> z.tokens
"""
    found = faults(check(tmp_path, CARD, program.replace("WHEN", "")), *UNUSED)
    assert [f.code for f in found] == ["OF2501"]  # `z` behind it is not at fault as well
    assert found[0].message == ('`s` runs while `x`, which feeds its `value`, is off: when `inputs.voice` is ""')
    assert found[0].help == ('give `s` the condition `when: inputs.voice != ""`',)
    assert [label.text for label in found[0].labels] == ["`x` runs only then", "runs always"]
    same = check(tmp_path, CARD, program.replace("WHEN", ", when: 'inputs.voice != \"\"'"))
    assert codes_of(same, *UNUSED) == []
    narrower = check(tmp_path, CARD, program.replace("WHEN", ", when: 'inputs.voice == \"x\"'"))
    assert codes_of(narrower, *UNUSED) == []
    wider = check(tmp_path, CARD, program.replace("WHEN", ", when: 'inputs.voice != \"x\"'"))
    assert codes_of(wider, *UNUSED) == ["OF2501"]


def test_an_optional_port_may_be_left_out_by_a_branch(tmp_path: Path) -> None:
    program = """inputs: {prompt: text, voice: text}
outputs: {out: z.whole}
nodes:
  tok: {op: tokenize, with: tokenizer}
  x: {loop: think, when: 'inputs.voice != ""'}
  z: {op: concat}
edges:
- prompt -> tok.text
- tok.tokens -> x.prompt
- tok.tokens -> z.parts
- x.tokens -> z.parts
"""
    assert codes_of(check(tmp_path, CARD, program), *UNUSED) == []


def test_params_decide_branches_and_the_other_one_is_not_in_the_schedule(tmp_path: Path) -> None:
    slow = branched(tmp_path, "params.fast", "not params.fast")
    fast = branched(tmp_path, "params.fast", "not params.fast", params={"fast": "true"})
    assert slow.schedule is not None
    assert fast.schedule is not None
    assert {node.id: node.when for node in slow.schedule.nodes} == {"tok": None, "y": None, "z": None}
    assert {node.id: node.when for node in fast.schedule.nodes} == {"tok": None, "x": None, "z": None}


def test_a_branch_that_a_request_decides_stays(tmp_path: Path) -> None:
    compilation = branched(tmp_path, 'inputs.voice == ""', 'inputs.voice != ""')
    assert compilation.schedule is not None
    conditions = {node.id: node.when for node in compilation.schedule.nodes if node.when}
    assert conditions == {"x": 'inputs.voice == ""', "y": 'inputs.voice != ""'}


TWO_OUTPUTS = """inputs: {prompt: text}
outputs: {a: x.tokens, b: y.tokens}
nodes:
  tok: {op: tokenize, with: tokenizer}
  x: {loop: think, when: params.fast}
  y: {loop: again}
edges: [prompt -> tok.text, tok.tokens -> x.prompt, tok.tokens -> y.prompt]
"""


def test_an_output_of_a_branch_that_is_off_is_left_out_unless_it_is_asked_for(tmp_path: Path) -> None:
    whole = check(tmp_path, CARD, TWO_OUTPUTS)
    assert whole.schedule is not None
    assert [output.name for output in whole.schedule.outputs] == ["b"]
    asked = check(tmp_path, CARD, TWO_OUTPUTS, outputs=["a"])
    assert codes_of(asked, *UNUSED) == ["OF2504"]
    on = check(tmp_path, CARD, TWO_OUTPUTS, outputs=["a"], params={"fast": "true"})
    assert on.schedule is not None


@pytest.mark.parametrize(
    ("when", "code", "part"),
    [
        ('inputs.voice == "a" and inputs.voice == "b"', "OF2505", "is always false"),
        ("inputs.speed > 1 or inputs.speed < 2", "OF2505", "is always true"),
        ("inputs.voice > 3", "OF2503", "do not fit together"),
        ("1 == 1", "OF2505", "is always true"),
    ],
)
def test_conditions_that_say_nothing_are_reported(tmp_path: Path, when: str, code: str, part: str) -> None:
    found = [f for f in faults(branched(tmp_path, when, 'inputs.voice == ""')) if f.code == code]
    assert len(found) == 1
    assert part in found[0].message


def test_a_condition_cannot_read_a_tensor(tmp_path: Path) -> None:
    program = TWO_OUTPUTS.replace("params.fast", "inputs.ids == 3").replace(
        "{prompt: text}", '{prompt: text, ids: "tokens[P]"}'
    )
    found = [f for f in faults(check(tmp_path, CARD, program)) if f.code == "OF2503"]
    assert [f.message for f in found] == ["`inputs.ids` is tokens[P]: a condition cannot read it"]


def test_two_unconditional_producers_stay_an_error(tmp_path: Path) -> None:
    program = PLAIN.replace(", when: FIRST", "").replace(", when: SECOND", ", when: params.fast")
    assert codes_of(check(tmp_path, CARD, program), *UNUSED) == ["OF2001"]


_names = st.sampled_from(["inputs.a", "inputs.b"])
_atoms = st.one_of(
    st.tuples(
        st.sampled_from(["inputs.a", "inputs.b"]), st.sampled_from("< <= == != > >=".split()), st.integers(-1, 2)
    ).map(lambda t: f"{t[0]} {t[1]} {t[2]}"),
    st.sampled_from(["inputs.a", "not inputs.b"]),
)
_conditions = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda t: f"({t[0]}) and ({t[1]})"),
        st.tuples(inner, inner).map(lambda t: f"({t[0]}) or ({t[1]})"),
        inner.map(lambda t: f"not ({t})"),
    ),
    max_leaves=5,
)
QUARTERS = [n / 4 for n in range(-12, 17)]


@settings(max_examples=100, deadline=None)
@given(_conditions, _conditions)
def test_what_is_said_of_two_conditions_holds_for_every_value(first: str, second: str) -> None:
    conditions = Conditions(known={}, texts=frozenset())
    conditions.add(first)
    conditions.add(second)
    every = [{"inputs.a": a, "inputs.b": b} for a, b in product(QUARTERS, repeat=2)]
    one, two = ([bool(Expression(text).evaluate(case)) for case in every] for text in (first, second))
    overlap = conditions.counterexample([first, second], [])
    assert (overlap is not None) == any(a and b for a, b in zip(one, two, strict=True))
    gap = conditions.counterexample([first], [second])
    assert (gap is not None) == any(a and not b for a, b in zip(one, two, strict=True))
    constant = conditions.constant(first)
    assert constant == (one[0] if len(set(one)) == 1 else None)


def test_too_many_cases_prove_nothing() -> None:
    texts = [f"inputs.x{i} == {i + 2}" for i in range(12)]
    conditions = Conditions(known={}, texts=frozenset())
    for text in texts:
        conditions.add(text)
    with pytest.raises(Undecided):
        conditions.counterexample(texts, [])
