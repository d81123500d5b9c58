"""Says what of a document cannot be read, so that nothing else complains about what is missing because of it."""

from __future__ import annotations

from collections.abc import Iterator, Set
from collections.abc import Mapping as MappingOf
from collections.abc import Sequence as SequenceOf
from itertools import islice

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Report
from omniflow_compiler.load.tree import Mapping, Sequence
from omniflow_compiler.spec import EdgeSpec, NodeSpec, OutputSpec
from omniflow_compiler.suggest import nearest
from omniflow_compiler.validate import schema


def unread(document: Mapping, known: MappingOf[str, Set[str]]) -> Iterator[str]:
    """What of a card was written but is not among what is known of its sections: sections, and entries of them."""
    for section, names in known.items():
        found = document.get(section)
        is_repeated = isinstance(found, Mapping) and found.repeats > 0  # a name that is missing may have been meant
        if is_repeated or not _is_readable(document, section, Mapping, is_required=section == "components"):
            yield section
        if isinstance(found, Mapping):
            yield from (f"{section}.{name}" for name in found.entries if name not in names)


def meant_by_repeats(
    document: Mapping, known: Set[str], edges: SequenceOf[EdgeSpec], outputs: MappingOf[str, OutputSpec]
) -> set[str]:
    """Names that edges and outputs use and no node has, as many as ids of nodes were written twice."""
    section = document.get("nodes")
    if not isinstance(section, Mapping) or not section.repeats:
        return set()
    refs = [ref for edge in edges for ref in (edge.source, edge.target)] + [output.ref for output in outputs.values()]
    absent = dict.fromkeys(ref.node for ref in refs if ref.port and ref.node and ref.node not in known)
    return set(islice(absent, section.repeats))


def check_connected(document: Mapping, nodes: MappingOf[str, NodeSpec], report: Report) -> bool:
    """Whether there are edges at all, where there are nodes to connect; without any, each node would be at fault."""
    edges = document.entries.get("edges")
    if edges is None or not isinstance(edges.value, Sequence) or edges.value.items or len(nodes) < 2:
        return True
    help = ["connect them: `- node.port -> node.port`"]
    report.add(codes.BAD_VALUE, edges.key, f"there are {len(nodes)} nodes and no edges", help=help)
    return False


def is_whole(document: Mapping) -> bool:
    """Whether each section of a program can be read, whatever its entries are."""
    sections = {"nodes": Mapping, "edges": Sequence, "outputs": Mapping, "inputs": Mapping}
    return all(_is_readable(document, key, kind, is_required=key != "inputs") for key, kind in sections.items())


def _is_readable(document: Mapping, key: str, kind: type[Mapping] | type[Sequence], *, is_required: bool) -> bool:
    value = document.get(key)
    if value is None:
        known = schema("program")["properties"].keys() | schema("card")["properties"].keys()
        return not is_required and not nearest(key, (name for name in document.entries if name not in known))
    if isinstance(value, Mapping) and is_required and not value.entries:
        return False
    return isinstance(value, kind)
