"""How far an output may be from the same computed in a batch of another width: what the card says, stage by stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from omniflow_compiler.schedule import Output, Schedule

DEFAULT_TOLERANCE = 1e-4


def tolerances(schedule: Schedule) -> dict[str, float]:
    """The largest difference that is allowed, by output.

    Each stage of a workflow answers to its own card; an output carries on what the stages before it were allowed.
    """
    declared = schedule.parity.get("tolerance")
    if not isinstance(declared, Mapping):
        return {output.name: _number(declared) for output in schedule.outputs}
    stages = {
        output.name: {_stage(node, schedule) for node in _before(output, schedule)} for output in schedule.outputs
    }
    return {name: max(_number(declared.get(stage)) for stage in found) for name, found in stages.items()}


def _number(declared: object) -> float:
    return float(declared) if isinstance(declared, int | float) else DEFAULT_TOLERANCE


def _stage(node: str, schedule: Schedule) -> str:
    """The path of the stage that a node is of."""
    return max((stage.path for stage in schedule.stages if node.startswith(f"{stage.path}/")), key=len, default="")


def _before(output: Output, schedule: Schedule) -> Iterator[str]:
    """The nodes that an output is made by."""
    sources: dict[str, list[str]] = {}
    for channel in schedule.channels:
        sources.setdefault(channel.node, []).append(channel.source.rpartition(".")[0])
    line, seen = [output.node], {output.node, ""}  # nothing comes before an input of the program
    while line:
        node = line.pop()
        yield node
        line += (new := set(sources.get(node, ())) - seen)
        seen |= new
