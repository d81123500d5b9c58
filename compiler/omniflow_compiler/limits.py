"""Limits of inputs by the position of their axes, through the graphs and stages that an edge passes into."""

from __future__ import annotations

from collections.abc import Iterable
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
