"""Reads the outputs of a program or workflow."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Report
from omniflow_compiler.load.tree import Mapping, Scalar
from omniflow_compiler.made import RESERVED
from omniflow_compiler.names import MAX_FILE_NAME, is_file_name
from omniflow_compiler.parse.refs import mentions
from omniflow_compiler.spec import Name, OutputSpec, PortRef


def parse_outputs(document: Mapping) -> tuple[dict[str, OutputSpec], frozenset[str]]:
    """The outputs, and what those that cannot be read mention."""
    section = document.get("outputs")
    outputs: dict[str, OutputSpec] = {}
    mentioned: set[str] = set()
    for name, entry in section.entries.items() if isinstance(section, Mapping) else ():
        value = entry.value
        if isinstance(value, Scalar) and isinstance(value.value, str) and value.value.count(".") == 1:
            node, port = value.value.split(".")
            ref = PortRef(node=node, port=port, span=value.span)
            outputs[name] = OutputSpec(name=Name(text=name, span=entry.key), ref=ref)
        else:
            mentioned.update(mentions(value))
    return outputs, frozenset(mentioned)


def check_outputs(outputs: MappingOf[str, OutputSpec], report: Report) -> None:
    """Outputs are files in the folder of a run, beside those that every run has."""
    for name, output in outputs.items():
        span = output.name.span
        if not is_file_name(name):
            help = [f"no spaces, dots, colons, slashes, or dashes at the front; {MAX_FILE_NAME} bytes in UTF-8 at most"]
            report.add(codes.BAD_VALUE, span, f"`{name[:80]}` cannot be an output's name", help=help)
        elif name.lower() in RESERVED:
            message = f"output `{name}` would have the file that {RESERVED[name.lower()]} of a run has"
            report.add(codes.RESERVED, span, message, help=["name the output for what it holds"])
