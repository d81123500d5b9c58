"""Closed expressions for `when:` and loop bounds: names, numbers, texts, comparisons, boolean words and arithmetic.

Read with Python's own parser and held to a short list of node types; nothing is ever called or executed.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

MAX_CHARACTERS = 1000
_PARAM = re.compile(r"\$\w+")
Value = str | int | float | bool | None

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_WORDS: Mapping[type[ast.expr], str] = {
    ast.Call: "a call", ast.BinOp: "this operator", ast.IfExp: "`if`", ast.Subscript: "an index",
    ast.List: "a list", ast.Tuple: "a comma", ast.Dict: "a mapping", ast.Lambda: "`lambda`",
    ast.Compare: "this comparison",
}  # fmt: skip
_CONSTANTS: Mapping[str, Value] = {"true": True, "false": False, "null": None}


class ExpressionError(Exception):
    """An expression that cannot be read or evaluated; `offset` is the character it fails at."""

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.offset = offset


class Expression:
    """A checked expression. `names` are the dotted names it reads."""

    def __init__(self, text: str) -> None:
        """Errors: ExpressionError."""
        if len(text) > MAX_CHARACTERS:
            raise ExpressionError(f"longer than {MAX_CHARACTERS} characters")
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            offset = error.offset - 1 if isinstance(error, SyntaxError) and error.offset else 0
            param = _PARAM.search(text)
            if param is not None:
                raise ExpressionError(f"`{param[0]}` stands for a whole value, not for a part of one", offset) from None
            raise ExpressionError("not an expression", offset) from None
        self.text = text
        self.names: set[str] = set()
        self._check(self._tree, 0)

    def _check(self, node: ast.expr, depth: int) -> None:
        if depth > 40:
            raise ExpressionError("nested too deeply")
        name = _dotted(node)
        if name is not None:
            if name not in _CONSTANTS:
                self.names.add(name)
            return
        match node:
            case ast.Constant(value=str() | int() | float()):
                children: list[ast.expr] = []
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                children = [left, right]
            case ast.BoolOp(values=children):
                pass
            case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
                children = [operand]
            case ast.Compare(left=left, ops=ops, comparators=rest) if all(type(op) in _COMPARE for op in ops):
                children = [left, *rest]
            case _:
                what = _WORDS.get(type(node), type(node).__name__.lower())
                raise ExpressionError(f"{what} is not part of the language of expressions", node.col_offset)
        for child in children:
            self._check(child, depth + 1)

    def evaluate(self, names: Mapping[str, Value]) -> Value:
        """The value. Errors: ExpressionError for a name without a value or operands that do not fit."""
        try:
            value: Value = _evaluate(self._tree, names)
            return value
        except KeyError as error:
            raise ExpressionError(f"`{error.args[0]}` has no value") from None
        except TypeError:
            raise ExpressionError(f"the operands of `{self.text}` do not fit together") from None


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = _dotted(node.value)
        return None if head is None else f"{head}.{node.attr}"
    return None


def _evaluate(node: ast.expr, names: Mapping[str, Value]) -> Any:
    name = _dotted(node)
    if name is not None:
        return _CONSTANTS[name] if name in _CONSTANTS else names[name]
    match node:
        case ast.Constant(value=value):
            return value
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _evaluate(left, names), _evaluate(right, names)
            if isinstance(a, str) or isinstance(b, str):
                raise TypeError
            return _BINARY[type(op)](a, b)
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_evaluate(value, names) for value in values)
        case ast.BoolOp(values=values):
            return any(_evaluate(value, names) for value in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _evaluate(operand, names)
        case ast.UnaryOp(operand=operand):
            return -_evaluate(operand, names)
        case ast.Compare(left=left, ops=ops, comparators=rest):
            values = [_evaluate(part, names) for part in (left, *rest)]
            return all(_COMPARE[type(op)](a, b) for op, a, b in zip(ops, values, values[1:], strict=False))
    raise TypeError
