"""Turns the document of a workflow into its spec."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf

from omniflow_compiler.diagnostics import Report
from omniflow_compiler.load.tree import Entry, Mapping, Scalar
from omniflow_compiler.params import substitute, values
from omniflow_compiler.parse.edges import parse_edges
from omniflow_compiler.parse.inputs import parse_inputs
from omniflow_compiler.parse.keys import entries_at, mapping_of, name_at, text_at
from omniflow_compiler.parse.outputs import check_outputs, parse_outputs
from omniflow_compiler.spec import Name, StageOfWorkflow, WorkflowSpec
from omniflow_compiler.validate import validate


def parse_workflow(document: Mapping, overrides: MappingOf[str, Scalar], report: Report) -> WorkflowSpec:
    """The workflow a document describes; stages and edges that cannot be read are reported and left out."""
    document = substitute(document, values(document, "program", overrides, report), report)
    validate(document, "workflow", "", report, "the workflow")
    edges, _ = parse_edges(document, report)
    outputs, _ = parse_outputs(document)
    check_outputs(outputs, report)
    return WorkflowSpec(
        id=name_at(document, "id"),
        title=text_at(document, "title"),
        inputs=dict(parse_inputs(document)),
        outputs=outputs,
        stages={name: _stage(name, entry) for name, entry in entries_at(document, "stages", "program")},
        edges=edges,
        span=document.span,
    )


def _stage(name: str, entry: Entry) -> StageOfWorkflow:
    tree = mapping_of(entry)
    params = tree.get("params")
    entries = params.entries if isinstance(params, Mapping) else {}
    return StageOfWorkflow(
        name=Name(text=name, span=entry.key),
        program=name_at(tree, "program"),
        params={key: e.value for key, e in entries.items() if isinstance(e.value, Scalar)},
        param_keys={key: e.key for key, e in entries.items()},
    )
