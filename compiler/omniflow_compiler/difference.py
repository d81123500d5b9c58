"""Compares two schedules by meaning: what each part is and does, not how it was written or ordered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from omniflow_compiler.account import work_of
from omniflow_compiler.schedule import Json, Node, PortType, Schedule

Kind = Literal["added", "removed", "changed", "renamed"]

# What follows from the rest of a schedule, or tells only how it came about.
DERIVED_OF_NODE = frozenset({"id", "place", "units", "depth", "lengths", "starts_at", "ends_at", "state_bytes"})
DERIVED_OF_EDGE = frozenset({"id", "place", "bytes", "type"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference. `part` is `node`, `edge`, `expert`, ...; `field` is empty for a part that came, went or moved."""

    kind: Kind
    part: str
    name: str
    field: str = ""
    before: Json = None
    after: Json = None


def compare(before: Schedule, after: Schedule) -> tuple[Change, ...]:
    """All differences: what is computed first, then what it costs."""
    renamed = _renamed(before, after)
    return (
        *_fields(
            "program",
            "",
            {"id": before.program, "card": before.card},
            {"id": after.program, "card": after.card},
        ),
        *_parts("param", before.params, after.params, lambda value: {"value": value}),
        *_parts("input", _by_name(before.inputs), _by_name(after.inputs), _plain),
        *_parts("output", _outputs(before, renamed), _outputs(after, {}), dict),
        *_parts("expert", _by_name(before.experts), _by_name(after.experts), _expert),
        *_parts("cache", _by_name(before.caches), _by_name(after.caches), _plain),
        *(Change(kind="renamed", part="node", name=old, after=new) for old, new in sorted(renamed.items())),
        *_parts("node", _nodes(before, renamed), _nodes(after, {}), dict),
        *_parts("edge", _edges(before, renamed), _edges(after, {}), dict),
        *_fields("parity", "", before.parity, after.parity),
        *_costs(before, after, renamed),
    )


def _renamed(before: Schedule, after: Schedule) -> dict[str, str]:
    """Nodes that went and came back unchanged under another id, where that is the only candidate."""
    old = {node.id: node for node in before.nodes}
    new = {node.id: node for node in after.nodes}
    gone = _by_body(node for name, node in old.items() if name not in new)
    come = _by_body(node for name, node in new.items() if name not in old)
    return {ids[0]: come[body][0] for body, ids in gone.items() if len(ids) == 1 == len(come.get(body, ()))}


def _by_body(nodes: Iterable[Node]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for node in nodes:
        found.setdefault(repr(sorted(_body(node).items())), []).append(node.id)
    return found


def _body(node: Node) -> dict[str, Json]:
    """What a node is, without its name in types."""
    body = {key: value for key, value in asdict(node).items() if key not in DERIVED_OF_NODE}
    body.pop("inputs")
    body.pop("outputs")
    attributes = body.pop("attributes")
    inner = body.pop("inner")
    if inner is not None:
        body |= {f"inner {key}": value for key, value in inner.items() if key != "place"}
    return {**body, **{str(key): value for key, value in attributes.items()}}


def _nodes(schedule: Schedule, renamed: Mapping[str, str]) -> dict[str, dict[str, Json]]:
    return {renamed.get(node.id, node.id): _body(node) for node in schedule.nodes}


def _edges(schedule: Schedule, renamed: Mapping[str, str]) -> dict[str, dict[str, Json]]:
    """Edges by their two ends; the arrow is one of their fields."""
    found: dict[str, dict[str, Json]] = {}
    for channel in schedule.channels:
        body = {key: value for key, value in asdict(channel).items() if key not in DERIVED_OF_EDGE}
        source = _rename(body.pop("source"), renamed)
        node, port = renamed.get(body.pop("node"), channel.node), body.pop("port")
        body["arrow"] = "~>" if body.pop("streams") else "->"
        name = f"{source} to {node}.{port}"
        found[name if name not in found else f"{name} again ({body['order']})"] = body
    return found


def _outputs(schedule: Schedule, renamed: Mapping[str, str]) -> dict[str, dict[str, Json]]:
    return {
        output.name: {
            "from": _rename(f"{output.node}.{output.port}", renamed),
            "type": _kind_of_value(output.type),
            "streams": output.streams,
        }
        for output in schedule.outputs
    }


def _kind_of_value(type: PortType) -> str:
    """A type without the ids of nodes that are in its lengths."""
    rate = "" if type.rate_hz is None else f" @ {type.rate_hz:g} Hz"
    return f"{type.base}:{type.dtype or 'any'} of {len(type.axes)} axes{rate}"


def _rename(port: str, renamed: Mapping[str, str]) -> str:
    node, dot, name = port.rpartition(".")
    return f"{renamed.get(node, node)}{dot}{name}"


def _by_name(parts: Iterable[Json]) -> dict[str, Json]:
    return {part.name: part for part in parts}


def _plain(part: Json) -> dict[str, Json]:
    body = {key: value for key, value in asdict(part).items() if key not in ("name", "place")}
    if isinstance(body.get("type"), dict):
        body["type"] = body["type"]["text"]
    return body


def _expert(part: Json) -> dict[str, Json]:
    body = _plain(part)
    body.pop("digest")
    for key in ("attributes", "sizes"):
        body |= {f"{key[:-1]} {name}": value for name, value in body.pop(key).items()}
    return body


def _parts(
    part: str, before: Mapping[str, Json], after: Mapping[str, Json], body: Callable[[Json], Mapping[str, Json]]
) -> Iterator[Change]:
    for name in sorted({*before, *after}):
        old = body(before[name]) if name in before else None
        new = body(after[name]) if name in after else None
        if old is not None and new is not None and not _is_another(part, old, new):
            yield from _fields(part, name, old, new)
            continue
        if old is not None:
            yield Change(kind="removed", part=part, name=name, before=_short(old))
        if new is not None:
            yield Change(kind="added", part=part, name=name, after=_short(new))


def _is_another(part: str, before: Mapping[str, Json], after: Mapping[str, Json]) -> bool:
    """Whether a node has nothing but its id of the one before: another op, or a loop of another kind."""
    return part == "node" and (before["kind"], before["name"]) != (after["kind"], after["name"])


def _fields(part: str, name: str, before: Mapping[str, Json], after: Mapping[str, Json]) -> Iterator[Change]:
    for key in sorted({*before, *after}):
        old, new = _listed(before.get(key)), _listed(after.get(key))
        if old != new:
            yield Change(kind="changed", part=part, name=name, field=key, before=old, after=new)


def _listed(value: Json) -> Json:
    """Tuples and lists are the same here: one side may have been read from a file."""
    return [_listed(item) for item in value] if isinstance(value, list | tuple) else value


def _short(body: Mapping[str, Json]) -> dict[str, Json]:
    """What was given, without what is empty."""
    return {key: _listed(value) for key, value in body.items() if value not in (None, "", (), [], {}, False, 0)}


def _costs(before: Schedule, after: Schedule, renamed: Mapping[str, str]) -> Iterator[Change]:
    work = [{n.id: work_of(n) for n in schedule.nodes} for schedule in (before, after)]
    work[0] = {renamed.get(name, name): seconds for name, seconds in work[0].items()}
    for name in sorted(work[0].keys() & work[1].keys()):
        yield from _fields("cost", name, {"seconds": _rounded(work[0][name])}, {"seconds": _rounded(work[1][name])})
    totals = [
        {"seconds of work": _rounded(sum(seconds.values())), "seconds at least": _rounded(schedule.critical_seconds)}
        for seconds, schedule in zip(work, (before, after), strict=True)
    ]
    yield from _fields("cost", "", *totals)
    peaks = [{m.device: m.peak_bytes for m in schedule.memory if m.peak_bytes} for schedule in (before, after)]
    for device in sorted({*peaks[0], *peaks[1]}):
        yield from _fields("memory", device, {"bytes": peaks[0].get(device, 0)}, {"bytes": peaks[1].get(device, 0)})


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.6g}")
