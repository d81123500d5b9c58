"""Typed params: declared in a spec, set on the command line, put in place of `$name` after parsing, values only."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import replace

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Label, Report
from omniflow_compiler.load.tree import Entry, Mapping, Scalar, ScalarValue, Sequence, Tree, Unread
from omniflow_compiler.source import Span
from omniflow_compiler.suggest import did_you_mean
from omniflow_compiler.validate import first_line, validate

COMMAND_LINE = Span("<command line>", 1, 1, 1, 1)


def declared(document: Mapping) -> dict[str, Mapping]:
    """The document's param declarations by name; misshapen ones are left to the schema."""
    params = document.get("params")
    if not isinstance(params, Mapping):
        return {}
    return {name: entry.value for name, entry in params.entries.items() if isinstance(entry.value, Mapping)}


Value = Scalar | Unread


def values(document: Mapping, kind: str, overrides: MappingOf[str, Scalar], report: Report) -> dict[str, Value]:
    """Each declared param's value: an override (command line before configuration) or else the default.

    What does not fit is reported and cannot be used, so that nothing else complains about it.
    A path without a value stays `$name`: the graph can be checked without a checkpoint, only a run needs it.
    """
    result: dict[str, Value] = {}
    for name, declaration in declared(document).items():
        if not validate(declaration, kind, "param", Report(), "param") or not _has_sound_bounds(declaration, report):
            result[name] = Unread(declaration.span)
            continue
        default = declaration.get("default")
        if name in overrides:
            written = overrides[name]
            result[name] = _checked(name, declaration, _read(declaration, written), written, report)
        elif isinstance(default, Scalar):
            result[name] = _checked(name, declaration, default.value, default, report)
        elif _text(declaration, "type") == "path":
            result[name] = Scalar(f"${name}", declaration.span, f"${name}")
        else:
            result[name] = Unread(declaration.span)
            span = document.entries["params"].value.entries[name].key  # type: ignore[union-attr]
            help = [f"give it a default, or set it: --set {name}=..."]
            report.add(codes.PARAM_UNSET, span, f"param `{name}` has no value", help=help)
    return result


def _read(declaration: Mapping, written: Scalar) -> ScalarValue:
    """A written text as a value of the declared type; the text itself when it is none."""
    kind, text = _text(declaration, "type"), written.written
    try:
        if kind == "int":
            return int(text)
        if kind == "float":
            return float(text)
    except ValueError:
        return text
    if kind == "bool" and text in ("true", "false"):
        return text == "true"
    return text


def _checked(name: str, declaration: Mapping, value: ScalarValue, written: Scalar, report: Report) -> Value:
    problem = _problem(declaration, value)
    if problem is None:
        return Scalar(value, written.span, written.written)
    entry = declaration.span
    labels = [Label(span=first_line(declaration), text="declared here")] if written.span.file != entry.file else []
    report.add(codes.PARAM_VALUE, written.span, f"param `{name}` is `{written.written}`, {problem}", labels=labels)
    return Unread(written.span)


def _has_sound_bounds(declaration: Mapping, report: Report) -> bool:
    low, high = declaration.get("min"), declaration.get("max")
    if not isinstance(low, Scalar) or not isinstance(high, Scalar):
        return True
    if not isinstance(low.value, int | float) or not isinstance(high.value, int | float) or low.value <= high.value:
        return True
    labels = [Label(span=low.span, text="`min` is above it")]
    report.add(codes.BAD_VALUE, high.span, f"`max` is {high.written}, `min` is {low.written}", labels=labels)
    return False


_SHOWN = {"int": "whole number", "float": "number", "bool": "`true` or `false`"}


def _problem(declaration: Mapping, value: ScalarValue) -> str | None:
    kind = _text(declaration, "type")
    fits = {
        "text": isinstance(value, str),
        "path": isinstance(value, str),
        "enum": isinstance(value, str),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
        "bool": isinstance(value, bool),
    }
    if not fits[kind]:
        return f"which is no {_SHOWN.get(kind, kind)}"
    if kind == "enum":
        of = declaration.get("of")
        allowed = [str(item.value) for item in of.items if isinstance(item, Scalar)] if isinstance(of, Sequence) else []
        return None if value in allowed else f"not one of {', '.join(allowed)}"
    for bound, sign in (("min", 1), ("max", -1)):
        limit = declaration.get(bound)
        if not isinstance(limit, Scalar) or not isinstance(limit.value, int | float):
            continue
        if isinstance(value, int | float) and sign * value < sign * limit.value:
            return f"the {'least' if sign > 0 else 'most'} allowed is {limit.value}"
    return None


def _text(declaration: Mapping, key: str) -> str:
    value = declaration.get(key)
    return str(value.value) if isinstance(value, Scalar) else ""


def substitute(document: Mapping, params: MappingOf[str, Value], report: Report) -> Mapping:
    """The document with every value `$name` replaced; `$$name` stands for the text `$name`."""
    return Mapping(
        {
            key: entry if key == "params" else Entry(entry.key, _replace(entry.value, params, report))
            for key, entry in document.entries.items()
        },
        document.span,
    )


def _replace(tree: Tree, params: MappingOf[str, Value], report: Report) -> Tree:
    if isinstance(tree, Unread):
        return tree
    if isinstance(tree, Mapping | Sequence) and not tree.uses_params:
        return tree
    if isinstance(tree, Scalar):
        if isinstance(tree.value, str) and tree.value.startswith("$"):
            return _value(tree, params, report)
        return tree
    if isinstance(tree, Sequence):
        replaced = [_replace(item, params, report) for item in tree.items]
        same = all(a is b for a, b in zip(replaced, tree.items, strict=True))
        return tree if same else Sequence(tuple(replaced), tree.span)
    entries = {key: Entry(entry.key, _replace(entry.value, params, report)) for key, entry in tree.entries.items()}
    same = all(entries[key].value is entry.value for key, entry in tree.entries.items())
    return tree if same else replace(tree, entries=entries)


def _value(tree: Scalar, params: MappingOf[str, Value], report: Report) -> Value:
    name = str(tree.value)[1:]
    if name.startswith("$"):
        return Scalar(name, tree.span, tree.written)
    if "." in name:
        return tree  # a number of a component, see fields.py
    if name not in params:
        known = {} if report.is_crowded else params
        report.add(
            codes.UNKNOWN_PARAM,
            tree.span,
            f"unknown param `{name}`",
            help=[*did_you_mean(name, known, "param"), "write `$$` for a text that begins with a dollar sign"],
        )
        return Unread(tree.span)
    value = params[name]
    return Unread(tree.span) if isinstance(value, Unread) else Scalar(value.value, tree.span, value.written)
