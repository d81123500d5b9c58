"""What can be said of `when:` conditions before a request comes: constant, exclusive, one implied by another.

A condition compares names with constants, so it cannot tell two values apart that lie on the same side of every
constant it mentions. One value of each kind stands for all of them, and trying these is a proof.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise, product
from math import prod

from omniflow_compiler.expressions import Expression, ExpressionError, Value

MAX_CASES = 4096
_ABOVE = "\0"  # makes of a text the one right above it
Case = Mapping[str, Value]  # a value for every name


class Undecided(Exception):
    """There are too many cases to try, or a condition computes with its names: nothing is proved."""


@dataclass(slots=True)
class Conditions:
    """The conditions of one program. `known` are values of params; every other name is a request's."""

    known: Mapping[str, Value]
    texts: frozenset[str]  # names whose values are text
    constants: dict[str, set[Value]] = field(default_factory=dict)
    computed: set[str] = field(default_factory=set)  # names that take part in arithmetic or meet other names

    def add(self, condition: str) -> None:
        """Takes note of what a condition compares. Errors: ExpressionError."""
        Expression(condition)
        for name, value in _compared(ast.parse(condition.strip(), mode="eval").body):
            if value is _COMPUTED:
                self.computed.add(name)
            else:
                self.constants.setdefault(name, set()).add(value)  # type: ignore[arg-type]

    def names(self, condition: str) -> set[str]:
        """The names it reads. Errors: ExpressionError."""
        return expression(condition).names

    def is_readable(self, condition: str) -> bool:
        """Whether it is an expression at all."""
        try:
            expression(condition)
        except ExpressionError:
            return False
        return True

    def cases(self, conditions: Iterable[str], *, free: bool = False) -> Iterator[Case]:
        """One case of each kind that these conditions can tell apart; params are free too when asked.

        Errors: Undecided.
        """
        names = sorted({name for text in conditions for name in expression(text).names})
        choices = [self._choices(name, free) for name in names]
        if prod(map(len, choices)) > MAX_CASES or any(n in self.computed and self._is_open(n, free) for n in names):
            raise Undecided
        return (dict(zip(names, values, strict=True)) for values in product(*choices))

    def _is_open(self, name: str, free: bool) -> bool:
        return free or name not in self.known

    def _choices(self, name: str, free: bool) -> list[Value]:
        if not self._is_open(name, free):
            return [self.known[name]]
        compared = self.constants.get(name, set())
        nothing: list[Value] = [None] if None in compared else []
        is_text = name in self.texts or isinstance(self.known.get(name), str)
        if is_text or any(isinstance(value, str) for value in compared):
            texts = sorted({"", *(value for value in compared if isinstance(value, str))})
            return [*nothing, *texts, *(text + _ABOVE for text in texts)]
        numbers = sorted({0, 1, *(v for v in compared if isinstance(v, int | float) and not isinstance(v, bool))})
        between = [(a + b) / 2 for a, b in pairwise(numbers)]
        return [*nothing, False, True, numbers[0] - 1, *numbers, *between, numbers[-1] + 1]

    def counterexample(self, given: Iterable[str], wanted: Iterable[str]) -> Case | None:
        """A case in which all of `given` hold and none of `wanted` does. Errors: Undecided, ExpressionError."""
        given, wanted = list(given), list(wanted)
        for case in self.cases([*given, *wanted]):
            if all(holds(text, case) for text in given) and not any(holds(text, case) for text in wanted):
                return case
        return None

    def constant(self, condition: str, *, free: bool = False) -> bool | None:
        """The one value that the condition can have; None when it can have both or cannot be decided.

        Errors: ExpressionError when it has no value in any case.
        """
        if all(name in self.known for name in expression(condition).names) and not free:
            return holds(condition, self.known)
        found, problem = set(), None
        try:
            for case in self.cases([condition], free=free):
                try:
                    found.add(holds(condition, case))
                except ExpressionError as error:
                    problem = error
        except Undecided:
            return None
        if not found and problem is not None:
            raise problem
        return found.pop() if len(found) == 1 and problem is None else None


def holds(condition: str, case: Case) -> bool:
    """Whether a condition holds. Errors: ExpressionError."""
    return bool(expression(condition).evaluate(case))


@lru_cache(maxsize=4096)
def expression(text: str) -> Expression:
    """The expression of a text. Errors: ExpressionError."""
    return Expression(text)


def describe(case: Case) -> str:
    """The inputs of a case in words."""
    shown = [f"`{name}` is {_shown(value)}" for name, value in case.items() if name.startswith("inputs.")]
    return " and ".join(shown[:4])


def _shown(value: Value) -> str:
    if isinstance(value, str):
        return "another text" if value.endswith(_ABOVE) else f'"{value}"'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}"


_COMPUTED = object()


def _compared(tree: ast.expr) -> Iterator[tuple[str, object]]:
    """Each name with a constant it is compared with, or with the mark that it takes part in something else."""
    stack: list[ast.expr] = [tree]
    while stack:
        node = stack.pop()
        match node:
            case ast.BoolOp(values=values):
                stack += values
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                stack.append(operand)
            case ast.Compare(left=left, comparators=rest):
                yield from _sides([left, *rest])
            case ast.Name() | ast.Attribute() | ast.Constant():
                pass
            case _:
                yield from ((name, _COMPUTED) for name in _names(node))


def _sides(sides: list[ast.expr]) -> Iterator[tuple[str, object]]:
    names = [name for side in sides for name in _names(side)]
    constants = [value for side in sides if (value := _constant(side)) is not _COMPUTED]
    bare = [side for side in sides if isinstance(side, ast.Name | ast.Attribute) and _names(side)]
    is_plain = len(bare) == len(names) == 1 and len(constants) == len(sides) - 1
    for name in names:
        yield from ((name, value) for value in constants) if is_plain else [(name, _COMPUTED)]


def _names(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Name | ast.Attribute):
        text = ast.unparse(node)
        return [] if text in ("true", "false", "null") else [text]
    return [name for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr) for name in _names(child)]


def _constant(node: ast.expr) -> object:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.Name(id="true"):
            return True
        case ast.Name(id="false"):
            return False
        case ast.Name(id="null"):
            return None
    return _COMPUTED
