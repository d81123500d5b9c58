"""What edges that name something absent were probably meant for, so that one mistake is reported once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from omniflow_compiler.graph import Node
from omniflow_compiler.spec import EdgeSpec, PortRef, ProgramSpec
from omniflow_compiler.suggest import nearest

MAX_GUESSES = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """What the edges and outputs mention, misspelt or not: nobody complains that these are missing or unused."""

    fed: Set[tuple[str, str]]  # input ports by node and port
    read: Set[str]  # nodes of which something is read
    inputs: Set[str]  # program inputs


def what_is_meant(program: ProgramSpec, nodes: Mapping[str, Node]) -> Meant:
    """Everything that the program's edges and outputs mention, names that are not there taken for the nearest."""
    guess = _Guess(nodes)
    fed: set[tuple[str, str]] = set()
    read: set[str] = set(program.stage_outputs)
    inputs: set[str] = set()
    for edge in program.edges:
        if is_backwards(edge, program, nodes):
            fed.add((edge.source.node or "", edge.source.port))
            read.add(edge.target.node or "")
            inputs.add(edge.target.node or "")
            continue
        node = guess.node(edge.target)
        fed |= {(node, port) for port in guess.ports(node, edge.target.port)}
        if edge.source.node is None:
            inputs |= guess.name(edge.source.port, program.inputs)
            read |= guess.name(edge.source.port, nodes) if edge.source.port not in program.inputs else set()
        else:
            read.add(guess.node(edge.source))
    shown = {guess.node(output.ref) for output in program.outputs.values()}
    read |= shown if program.shows_all and shown <= nodes.keys() else {*shown, *nodes}  # it could be any
    for text in program.mentioned:
        node, _, port = text.partition(".")
        read.add(node)
        fed.add((node, port))
        inputs.add(text)
    return Meant(fed=fed, read=read, inputs=inputs)


def is_backwards(edge: EdgeSpec, program: ProgramSpec, nodes: Mapping[str, Node]) -> bool:
    """Whether an edge begins at an input port and ends at what could feed it."""
    begin, end = nodes.get(edge.source.node or ""), nodes.get(edge.target.node or "")
    if begin is None or edge.source.port not in begin.inputs or edge.source.port in begin.outputs:
        return False
    if not edge.target.port:
        return edge.target.node in program.inputs
    return end is not None and edge.target.port in end.outputs and edge.target.port not in end.inputs


class _Guess:
    """Nearest names, for as many unknown ones as a person would look at."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self.nodes = nodes
        self.known: dict[str, str] = {}
        self.left = MAX_GUESSES

    def node(self, ref: PortRef) -> str:
        name = ref.node or ""
        if name in self.nodes:
            return name
        if name not in self.known:
            self.known[name] = next(iter(self.name(name, self.nodes)), name)
        return self.known[name]

    def name(self, name: str, among: Iterable[str]) -> set[str]:
        """The name itself when it is there, else the nearest one, if any."""
        among = among if isinstance(among, Mapping) else set(among)
        if name in among or self.left <= 0:
            return {name}
        self.left -= 1
        return {*nearest(name, among, most=1)}

    def ports(self, node: str, port: str) -> list[str]:
        """The input port meant; when none is near, any that the node has."""
        found = self.nodes.get(node)
        if found is None or port in found.inputs:
            return [port]
        return nearest(port, found.inputs, most=1) or list(found.inputs)
