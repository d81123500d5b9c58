"""Which of the card's capabilities a program reaches: each is a pair of what goes in and what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omniflow_compiler.graph import ProgramGraph
from omniflow_compiler.passes.prune import needed_nodes
from omniflow_compiler.passes.types import Types


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What a capability needs of one output: its base, bases among the inputs it depends on, a loop kind on the way."""

    output: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    loop: str | None = None
    also: str | None = None  # base of a second output


REACH: Mapping[str, Reach] = {
    "reasoning_text": Reach(output=("text", "tokens"), inputs=("text", "tokens", "json"), loop="ar_decode"),
    "text_to_speech": Reach(output=("audio",), inputs=("text", "tokens", "json")),
    "text_to_image": Reach(output=("image",), inputs=("text", "tokens", "json")),
    "text_to_video": Reach(output=("video",), inputs=("text", "tokens", "json")),
    "image_to_video": Reach(output=("video",), inputs=("image",)),
    "text_to_video_sound": Reach(output=("video",), inputs=("text", "tokens", "json"), also="audio"),
    "action_conditioning": Reach(output=("video", "latent", "image"), inputs=("record", "tensor")),
    "vae_encode": Reach(output=("latent",), inputs=("image", "video")),
    "vae_decode": Reach(output=("image", "video"), inputs=("latent",)),
    "policy_rollout": Reach(output=("text", "tokens", "codes", "image", "audio", "video", "latent"), loop=None),
    "logprob_recompute": Reach(output=("tensor",), inputs=("tokens", "codes"), loop="score"),
}


def reached_capabilities(graph: ProgramGraph, types: Types) -> set[str]:
    """The capabilities that the program's outputs reach."""
    bases = {name: _base(graph, types, name) for name in graph.program.outputs}
    found = set()
    for capability, reach in REACH.items():
        for name, base in bases.items():
            if base in (*reach.output, "unknown") and _fits(graph, name, reach):
                if reach.also is None or reach.also in bases.values():
                    found.add(capability)
    return found


def _base(graph: ProgramGraph, types: Types, output: str) -> str:
    ref = graph.program.outputs[output].ref
    type = types.outputs.get((ref.node or "", ref.port))
    return "unknown" if type is None else type.base


def _fits(graph: ProgramGraph, output: str, reach: Reach) -> bool:
    nodes = {name for name in needed_nodes(graph, [output]) if name in graph.nodes}
    if any(not graph.nodes[name].is_known for name in nodes):
        return True
    kinds = {node.loop.kind for name in nodes if (node := graph.nodes[name]).loop is not None}
    if reach.loop is not None and reach.loop not in kinds:
        return False
    read = {
        graph.inputs[edge.spec.source.port].base
        for name in nodes
        for edge in graph.incoming[name]
        if edge.source_node is None
    }
    return not reach.inputs or bool(read & set(reach.inputs))
