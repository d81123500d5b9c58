"""Style sheets: one file of rules with variables, filled in for a lone SVG or left open for the page's two themes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

from omniflow.viz.model import Graph
from omniflow.viz.palette import DARK, LIGHT, Theme

_VARIABLE = re.compile(r"var\(--([a-z0-9-]+)\)")
_OF_EXPERTS = ("accent", "tint", "accent-ink")  # what differs from expert to expert


def read_asset(name: str) -> str:
    """A text file of this package's `assets` folder."""
    return (files("omniflow.viz") / "assets" / name).read_text(encoding="utf-8")


def svg_style(graph: Graph) -> str:
    """Rules with plain colours, as many programs know no variables; dark where the viewer prefers it."""
    dark = "\n".join(rule for rule in _plain_rules(graph, DARK).splitlines() if "#" in rule)
    return f"{_plain_rules(graph, LIGHT)}\n@media (prefers-color-scheme:dark){{\n{dark}\n}}\n"


def page_style(graph: Graph) -> str:
    """The same rules with variables: light, dark by preference, dark by choice, always light on paper."""
    light, dark = _variables(LIGHT), _variables(DARK)
    return "\n".join(
        [
            f":root{{{light}}}",
            f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}",
            f"@media screen{{:root[data-theme=dark]{{{dark}}}}}",
            *(f"{_scope(colour)}{{{_expert_variables(colour)}}}" for colour in _colours(graph)),
            read_asset("graph.css"),
        ]
    )


def _variables(theme: Theme) -> str:
    return f"color-scheme:{theme.name};" + ";".join(f"--{name}:{value}" for name, value in theme.values.items())


def _colours(graph: Graph) -> list[int | None]:
    return [None, *sorted({family.colour for family in graph.families})]


def _scope(colour: int | None) -> str:
    return ".plain" if colour is None else f".c{colour}"


def _expert_sources(colour: int | None) -> dict[str, str]:
    """The names of the theme's colours that stand for one expert's accent, tint and ink."""
    if colour is None:
        return {"accent": "muted", "tint": "faint", "accent-ink": "muted"}
    return {"accent": f"e{colour}", "tint": f"e{colour}-tint", "accent-ink": f"e{colour}-ink"}


def _expert_variables(colour: int | None) -> str:
    return ";".join(f"--{name}:var(--{source})" for name, source in _expert_sources(colour).items())


def _expert_colours(colour: int | None, theme: Theme) -> dict[str, str]:
    return {name: theme.values[source] for name, source in _expert_sources(colour).items()}


def _plain_rules(graph: Graph, theme: Theme) -> str:
    rules = []
    for rule in read_asset("graph.css").splitlines():
        if not any(f"var(--{name})" in rule for name in _OF_EXPERTS):
            rules.append(_filled(rule, theme.values))
            continue
        for colour in _colours(graph):
            values = {**theme.values, **_expert_colours(colour, theme)}
            rules.append(_filled(_narrowed(rule, _scope(colour)), values))
    return "\n".join(rules)


def _narrowed(rule: str, scope: str) -> str:
    """The rule for one expert: `.vertex .bar` becomes `.vertex.c1 .bar`, `.legend .swatch` `.legend .c1 .swatch`."""
    selector, _, body = rule.partition("{")
    around, _, last = selector.rpartition(" ")
    if not around:
        return f"{scope} {last}{{{body}"
    return (
        f"{around}{scope} {last}{{{body}"
        if around.startswith((".vertex", ".inner"))
        else f"{around} {scope} {last}{{{body}"
    )


def _filled(rule: str, values: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda match: values[match[1]], rule)
