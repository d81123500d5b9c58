from __future__ import annotations

import random
from fractions import Fraction
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from omniflow_compiler.equations import Equations, is_count
from omniflow_compiler.sizes import Size, parse_size
from omniflow_compiler.types import Rate

NAMES = ("n.A", "n.B", "n.C")
MOST = 7  # sizes that brute force tries
Linear = tuple[tuple[int, int, int], int]  # factors of the three names, constant


def _size(linear: Linear) -> Size:
    factors, constant = linear
    total = Size.of(constant)
    for name, factor in zip(NAMES, factors, strict=True):
        total = total + Size.of(name).times(Fraction(factor))
    return total


_linear = st.tuples(st.tuples(*[st.integers(-2, 3)] * 3), st.integers(-4, 6))


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(_linear, _linear), min_size=1, max_size=5))
def test_what_is_solved_equals_brute_force(pairs: list[tuple[Linear, Linear]]) -> None:
    equations: Equations[int] = Equations()
    verdicts = [equations.equate(_size(left), _size(right), i) for i, (left, right) in enumerate(pairs)]
    fine = [
        values
        for values in product(range(MOST + 1), repeat=3)
        if all(_value(left, values) == _value(right, values) for left, right in pairs)
    ]
    if any(verdicts) or equations.broken():
        assert fine == []
        return
    for name, at in zip(NAMES, range(3), strict=True):
        solved = equations.resolve(Size.of(name))
        for values in fine:
            assert solved.evaluate(lambda symbol, v=values: Fraction(v[NAMES.index(symbol)])) == values[at]
        if solved.number is not None:
            assert is_count(solved)


def _value(linear: Linear, values: tuple[int, ...]) -> int:
    return sum(f * v for f, v in zip(linear[0], values, strict=True)) + linear[1]


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 60))
def test_equations_may_come_in_any_order(seed: int, length: int) -> None:
    chosen = random.Random(seed)
    steps = [(Size.of(f"?c.s{i}"), Size.of(f"?c.s{i + 1}").times(Fraction(2)) + Size.of(1)) for i in range(length)]
    steps.append((Size.of(f"?c.s{length}"), Size.of(3)))
    chosen.shuffle(steps)
    equations: Equations[int] = Equations()
    assert [equations.equate(left, right, 0) for left, right in steps] == [""] * len(steps)
    value = 3
    for i in reversed(range(length + 1)):
        assert equations.resolve(Size.of(f"?c.s{i}")) == Size.of(value)
        value = 2 * value + 1


def test_a_chain_of_a_hundred_thousand_unknowns_is_solved() -> None:
    equations: Equations[int] = Equations()
    for i in range(100_000):
        equations.equate(Size.of(f"?c.s{i}"), Size.of(f"?c.s{i + 1}"), i)
    equations.equate(Size.of("?c.s100000"), Size.of(5), 0)
    assert equations.resolve(Size.of("?c.s0")) == Size.of(5)
    assert equations.broken() == []


def test_a_length_that_a_request_decides_is_never_solved_for() -> None:
    equations: Equations[str] = Equations()
    equations.lengths |= {"think.T", "speak.T"}
    assert equations.equate(Size.of("think.T"), Size.of(4), "a") == "size"
    assert equations.equate(Size.of("think.T"), Size.of("speak.T"), "b") == "alignment"
    assert equations.equate(Size.of("?lm.hidden"), Size.of("think.T"), "c") == "alignment"
    assert equations.equate(Size.of("mel.F"), Size.of("think.T"), "d") == ""
    assert equations.causes == {"mel.F": "d"}


def test_a_half_that_shows_late_is_found() -> None:
    equations: Equations[str] = Equations()
    assert equations.equate(Size.of("?a.N").times(Fraction(2)), Size.of("?b.N") + Size.of(1), "first") == ""
    assert equations.equate(Size.of("?b.N"), Size.of(2), "second") == ""
    assert [(symbol, cause) for symbol, _, cause in equations.broken()] == [("?a.N", "first")]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(1, 3), st.integers(1, 3)), max_size=8))
def test_rates_agree_exactly_when_some_rates_satisfy_all_equations(rows: list[tuple[int, int, int, int]]) -> None:
    equations: Equations[int] = Equations()
    sound = all(
        equations.equate_rates(Rate(Fraction(a), f"r{i}"), Rate(Fraction(b), f"r{j}"), 0) for i, j, a, b in rows
    )
    ratios = {i: {i: Fraction(1)} for i in range(5)}  # by walking all equations from each rate
    agrees = True
    for start in range(5):
        known, stack = ratios[start], [start]
        while stack:
            at = stack.pop()
            for i, j, a, b in rows:
                for x, y, p, q in ((i, j, a, b), (j, i, b, a)):
                    if x == at:
                        value = known[at] * p / q
                        if y not in known:
                            known[y] = value
                            stack.append(y)
                        agrees &= known[y] == value
    assert sound == agrees


def test_sizes_are_printed_as_they_are_read() -> None:
    for text in ("64", "T", "T/8", "2*T + 1", "T - 1", "3*T/2 + U", "0"):
        assert str(parse_size(text)) == text
