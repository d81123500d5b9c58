"""Turns the document of a program, or of a graph, into its spec."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf

from omniflow_compiler.diagnostics import Report
from omniflow_compiler.load.tree import Mapping, Scalar
from omniflow_compiler.params import substitute, values
from omniflow_compiler.parse.edges import parse_edges
from omniflow_compiler.parse.inputs import parse_inputs
from omniflow_compiler.parse.keys import count_at, keys_at, name_at, plain_values, text_at
from omniflow_compiler.parse.nodes import parse_nodes
from omniflow_compiler.parse.outputs import check_outputs, parse_outputs
from omniflow_compiler.parse.whole import check_connected, is_whole, meant_by_repeats
from omniflow_compiler.spec import ProgramSpec
from omniflow_compiler.validate import validate


def parse_program(
    document: Mapping, overrides: MappingOf[str, Scalar], report: Report, *, kind: str = "program"
) -> ProgramSpec:
    """The program (or graph) a document describes; nodes and edges that cannot be read are reported and left out."""
    params = values(document, "program", overrides, report)
    document = substitute(document, params, report)
    validate(document, kind, "", report, f"the {kind}")
    nodes, broken = parse_nodes(document, report)
    edges, mentioned = parse_edges(document, report)
    is_connected = check_connected(document, nodes, report)
    outputs, unclear = parse_outputs(document)
    if kind == "program":
        check_outputs(outputs, report)
    return ProgramSpec(
        id=name_at(document, "id"),
        title=text_at(document, "title"),
        card=name_at(document, "card"),
        params=plain_values(params),
        origins={name: param.span for name, param in params.items()},
        inputs=dict(parse_inputs(document)),
        outputs=outputs,
        nodes=nodes,
        broken_nodes=frozenset(broken | meant_by_repeats(document, nodes.keys() | broken, edges, outputs)),
        edges=edges,
        mentioned=mentioned | unclear,
        shows_all=len(outputs) == count_at(document, "outputs"),
        is_whole=is_connected and is_whole(document),
        span=document.span,
        declared=keys_at(document, "params"),
    )
