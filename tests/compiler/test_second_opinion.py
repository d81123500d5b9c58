"""Our graph and our schema checker against networkx and jsonschema, which say the same more slowly."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from omniflow_compiler.diagnostics import Report
from omniflow_compiler.digraph import Digraph, connected_parts
from omniflow_compiler.load.document import read_text
from omniflow_compiler.load.tree import Tree
from omniflow_compiler.source import SourceSet
from omniflow_compiler.validate import definition, schema, validate

SPECS = Path(__file__).parents[2] / "specs"
arrows = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=40)


@settings(deadline=None)
@given(arrows)
def test_parts_are_the_strongly_connected_ones_in_topological_order(pairs: list[tuple[int, int]]) -> None:
    edges = [(f"n{a}", f"n{b}") for a, b in pairs]
    nodes = [f"n{i}" for i in range(12)]
    parts = connected_parts(Digraph(nodes, edges))
    known = nx.DiGraph(edges)
    known.add_nodes_from(nodes)
    assert {frozenset(part) for part in parts} == {frozenset(part) for part in nx.strongly_connected_components(known)}
    position = {name: i for i, part in enumerate(parts) for name in part}
    assert all(position[a] <= position[b] for a, b in edges)


@settings(deadline=None)
@given(arrows, st.randoms(use_true_random=False))
def test_the_order_of_parts_does_not_depend_on_how_the_graph_was_built(
    pairs: list[tuple[int, int]], random: Any
) -> None:
    edges = [(f"n{a}", f"n{b}") for a, b in pairs]
    nodes = [f"n{i}" for i in range(12)]
    expected = connected_parts(Digraph(nodes, edges))
    random.shuffle(edges)
    random.shuffle(nodes)
    assert connected_parts(Digraph(nodes, edges)) == expected


def test_a_graph_knows_its_neighbours_both_ways() -> None:
    graph = Digraph("abc", [("a", "b"), ("a", "c"), ("a", "b")])
    assert list(graph.successors("a")) == ["b", "c"]
    assert list(graph.predecessors("b")) == ["a"]
    assert graph.has_edge("a", "c")
    assert not graph.has_edge("c", "a")
    with pytest.raises(KeyError):
        graph.add_edge("a", "d")


def tree(value: object) -> Tree:
    found = read_text(SourceSet(Path("/")).add(Path("x.yaml"), json.dumps(value)), Report())
    assert found is not None
    return found


PARTS = [("card", part) for part in ("component", "loop", "cache", "param", "parity", "inner")]
PARTS += [("program", part) for part in ("node", "edge", "input", "when_empty", "back_edge")]
KEYS = sorted({key for kind, part in PARTS for key in definition(kind, part).get("properties", {})})
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 5_000_000), st.floats(-2, 2).filter(lambda x: x != int(x)),
    st.sampled_from(["ar_decode", "float32", "cpu", "cuda:1", "paged_kv", "int", "C0", "token", "x", "", "required"]),
)  # fmt: skip
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
)


@settings(max_examples=300, deadline=None)
@example(part=("card", "parity"), value={"levels": [[]]})
@given(part=st.sampled_from(PARTS), value=st.dictionaries(st.sampled_from(KEYS), values, max_size=6) | values)
def test_a_part_fits_here_when_it_fits_there(part: tuple[str, str], value: object) -> None:
    kind, name = part
    whole = {"$ref": f"#/$defs/{name}", "$defs": schema(kind)["$defs"]}
    assert validate(tree(value), kind, name, Report(), "it") == Draft202012Validator(whole).is_valid(value)


@pytest.mark.parametrize("path", sorted(SPECS.glob("null/*.yaml")), ids=lambda path: path.name)
def test_specs_fit_here_and_there_and_without_any_one_key_as_well(path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    kind = document["kind"]
    whole = copy.deepcopy(schema(kind))
    for section in ("nodes", "edges"):  # entry by entry here
        if section in whole["properties"]:
            whole["properties"][section].pop("additionalProperties", None)
            whole["properties"][section].pop("items", None)
    validator = Draft202012Validator(whole)
    assert validate(tree(document), kind, "", Report(), "it")
    assert validator.is_valid(document)
    for key in set(document) - {"omniflow", "kind"}:
        less = {k: v for k, v in document.items() if k != key}
        assert validate(tree(less), kind, "", Report(), "it") == validator.is_valid(less), key
        more = {**less, f"{key}x": 1}
        assert validate(tree(more), kind, "", Report(), "it") == validator.is_valid(more), key
