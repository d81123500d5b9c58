"""Limits of inputs, by the position of their axes or of a number, through the stages that an edge passes into."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest

from omniflow_compiler.graph import ProgramGraph
from omniflow_compiler.spec import EdgeSpec, InputSpec
from omniflow_compiler.types import Type, TypeSyntaxError, parse_type

Limits = tuple[int, ...]  # the most elements along each axis, 0 where nothing is said; nothing when that is everywhere


def limits_of(spec: InputSpec, type: Type) -> Limits:
    """What an input says of itself."""
    most = [spec.limits[axis.name].most if axis.name in spec.limits else 0 for axis in type.axes]
    return tuple(most) if any(most) else ()


def passed(edge: EdgeSpec) -> Limits:
    """What the inputs of graphs and stages say that an edge passes through."""
    return tightest(_declared(contract) for contract in edge.contracts)


def limits_of_inputs(graph: ProgramGraph) -> dict[str, Limits]:
    """What each input of the program says, and what those say that it is handed on to."""
    found = {name: [limits_of(spec, graph.inputs[name])] for name, spec in graph.program.inputs.items()}
    for edges in graph.incoming.values():
        for edge in edges:
            if edge.source_node is None and edge.spec.contracts:
                found[edge.spec.source.port].append(passed(edge.spec))
    return {name: tightest(limits) for name, limits in found.items()}


@dataclass(frozen=True, slots=True)
class Range:
    """What a number may be; None where nothing is said."""

    least: float | None = None
    most: float | None = None


def ranges_of_inputs(graph: ProgramGraph) -> dict[str, Range]:
    """What each input that is a number says, and what those say that it is handed on to."""
    found = {name: [spec] for name, spec in graph.program.inputs.items()}
    for edges in graph.incoming.values():
        for edge in edges:
            if edge.source_node is None:
                found[edge.spec.source.port] += edge.spec.contracts
    return {name: _range(specs) for name, specs in found.items() if graph.inputs[name].base == "scalar"}


def _range(specs: Iterable[InputSpec]) -> Range:
    least = [float(spec.least.number) for spec in specs if spec.least is not None]
    most = [float(spec.most.number) for spec in specs if spec.most is not None]
    return Range(max(least, default=None), min(most, default=None))


def tightest(limits: Iterable[Limits]) -> Limits:
    """The least along each axis."""
    columns = zip_longest(*limits, fillvalue=0)
    return tuple(min((most for most in column if most), default=0) for column in columns)


def _declared(contract: InputSpec) -> Limits:
    if not contract.limits:
        return ()
    try:
        return limits_of(contract, parse_type(contract.type.text))
    except TypeSyntaxError:
        return ()  # reported where types are compared
