"""Which of the card's capabilities a program reaches: each is a pair of what goes in and what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from omniflow_compiler.digraph import connected_parts
from omniflow_compiler.graph import ProgramGraph
from omniflow_compiler.passes.types import Types
from omniflow_compiler.spec import PortRef


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
    "text_to_music": Reach(output=("audio",), inputs=("text", "tokens", "json")),
    "text_to_image": Reach(output=("image",), inputs=("text", "tokens", "json")),
    "text_to_video": Reach(output=("video",), inputs=("text", "tokens", "json")),
    "image_to_video": Reach(output=("video",), inputs=("image",)),
    "text_to_video_sound": Reach(output=("video",), inputs=("text", "tokens", "json"), also="audio"),
    "action_conditioning": Reach(output=("video", "latent", "image"), inputs=("record", "tensor")),
    "vae_encode": Reach(output=("latent",), inputs=("image", "video")),
    "vae_decode": Reach(output=("image", "video"), inputs=("latent",)),
    "logprob_recompute": Reach(output=("tensor",), inputs=("text", "tokens", "json"), loop="score"),
    "policy_rollout": Reach(output=("text", "tokens", "codes", "image", "audio", "video", "latent"), loop=None),
}


@dataclass(slots=True)
class _Upstream:
    """What lies before a node: loop kinds, bases of program inputs, and whether something there is unknown."""

    kinds: frozenset[str]
    bases: frozenset[str]
    is_unknown: bool


def reached_capabilities(graph: ProgramGraph, types: Types) -> set[str]:
    """The capabilities that the program's outputs reach."""
    upstream = _upstream(graph)
    outputs = {(_base(output.ref, types), output.ref.node or "") for output in graph.program.outputs.values()}
    bases = {base for base, _ in outputs}
    return {
        capability
        for capability, reach in REACH.items()
        if (reach.also is None or reach.also in bases)
        and any(_fits(upstream.get(node), reach) for base, node in outputs if base in (*reach.output, "unknown"))
    }


def _base(ref: PortRef, types: Types) -> str:
    type = types.outputs.get((ref.node or "", ref.port))
    return "unknown" if type is None else type.base


def _upstream(graph: ProgramGraph) -> dict[str, _Upstream]:
    """For every node what it depends on, itself among it; nodes of a ring depend on each other."""
    found: dict[str, _Upstream] = {}
    for part in connected_parts(graph.graph):
        nodes = [graph.nodes[name] for name in part]
        edges = [edge for name in part for edge in graph.incoming[name]]
        before = [found[e.source_node] for e in edges if e.source_node in found and e.source_node is not None]
        whole = _Upstream(
            kinds=_joined([*(b.kinds for b in before), {n.loop.kind for n in nodes if n.loop is not None}]),
            bases=_joined(
                [
                    *(b.bases for b in before),
                    {graph.inputs[e.spec.source.port].base for e in edges if e.source_node is None},
                ]
            ),
            is_unknown=any(b.is_unknown for b in before) or not all(node.is_known for node in nodes),
        )
        found |= dict.fromkeys(part, whole)
    return found


def _joined(sets: Sequence[Set[str]]) -> frozenset[str]:
    """Their union; the first that has all of it, so that a long chain keeps one set."""
    union = frozenset().union(*sets)
    return next((one for one in sets if isinstance(one, frozenset) and len(one) == len(union)), union)


def _fits(upstream: _Upstream | None, reach: Reach) -> bool:
    if upstream is None:
        return False
    if upstream.is_unknown:
        return True
    if reach.loop is not None and reach.loop not in upstream.kinds:
        return False
    return not reach.inputs or bool(upstream.bases & set(reach.inputs))
