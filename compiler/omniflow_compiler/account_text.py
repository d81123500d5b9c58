"""The account of a schedule as text for people."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from omniflow_compiler.account import Account, NodeAccount
from omniflow_compiler.quantities import show_bytes
from omniflow_compiler.schedule import Memory
from omniflow_compiler.tables import table

PATH_ENDS = 4  # ids shown at each end of a long path
MAX_LENGTHS = 8  # shown of each kind


def show_seconds(seconds: float) -> str:
    """`4.90 s`, `20.0 ms`, `20.0 µs`."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1 or unit == "µs":
            value = seconds * factor
            return f"{value:.0f} {unit}" if value >= 100 or value == 0 else f"{value:.3g} {unit}"
    raise AssertionError


def write_account(account: Account) -> Iterator[str]:
    """Totals, a table of all nodes, then a paragraph for each."""
    yield f"{account.program} on card {account.card}: {len(account.nodes)} nodes"
    yield from _totals(account)
    yield ""
    yield from _overview(account)
    for node in account.nodes:
        yield ""
        yield from write_node(node)


def _totals(account: Account) -> Iterator[str]:
    overlapped = f"{show_seconds(account.least)} where nodes along streams overlap"
    yield f"  work      {show_seconds(account.work)} one node after another, {overlapped}"
    for first in account.first:
        yield f"  output    {first.output}: first of it after {show_seconds(first.seconds)}"
    yield f"  critical  {show_path(account.critical_path)}"
    for memory in account.memory:
        if memory.peak_bytes:
            budget = "" if memory.budget_bytes is None else f" of {show_bytes(memory.budget_bytes)}"
            yield f"  memory    {show_bytes(memory.peak_bytes)}{budget} on {memory.device}, for one request at a time"
            yield from holder_table(memory, indent=12)
    assumed = {name: count for name, count in account.lengths.items() if name in account.assumed}
    most = {name: count for name, count in account.lengths.items() if name not in account.assumed}
    if most:
        yield f"  lengths   at most {_counts(most)}"
    if assumed:
        yield f"  assumed   {_counts(assumed)}: nothing bounds them, and times and memory are only as good as that"


def _counts(lengths: Mapping[str, int]) -> str:
    more = f" and {len(lengths) - MAX_LENGTHS} more" if len(lengths) > MAX_LENGTHS else ""
    return ", ".join(f"{name} {count}" for name, count in [*lengths.items()][:MAX_LENGTHS]) + more


def holder_table(memory: Memory, *, indent: int, most: int = 8) -> Iterator[str]:
    """The largest holders at the peak, the rest in one row, and their share of the whole."""
    shown = memory.holders[:most]
    rest = memory.peak_bytes - sum(holder.bytes for holder in shown)
    rows = [(holder.kind, holder.name, holder.bytes) for holder in shown]
    rows += [("others", "", rest)] if rest else []
    peak = max(memory.peak_bytes, 1)
    cells = [(show_bytes(size), f"{100 * size / peak:.1f} %", kind, name) for kind, name, size in rows]
    yield from table(cells, ">><<", indent=indent)


def _overview(account: Account) -> Iterator[str]:
    rows = [("node", "runs", "with", "starts", "ends", "work", "", "for")]
    for node in account.nodes:
        outputs = ", ".join(reason.output for reason in node.why)
        share = f"{100 * node.share:.0f} %"
        times = (show_seconds(node.starts_at), show_seconds(node.ends_at), show_seconds(node.seconds))
        rows.append((node.id, node.what, node.expert or "", *times, share, outputs))
    yield from table(rows, "<<<>>>><")


def write_node(node: NodeAccount) -> Iterator[str]:
    """A paragraph on one node."""
    each = ", once per item" if node.each else ""
    yield f"{node.id}: {node.what}{each}  [{node.place}]"
    rows = [*_reasons(node), ("runs", _where(node))]
    if node.when is not None:
        rows.append(("when", node.when))
    if node.attributes:
        rows.append(("given", ", ".join(f"{name}: {_shown(value)}" for name, value in sorted(node.attributes.items()))))
    rows += [("units", _units(node)), ("time", _time(node))]
    rows += [("reads", _wire(f"{' + '.join(w.ends)} {w.port}", w.type)) for w in node.inputs if w.ends]
    rows += [("gives", _wire(f"{w.port} {', '.join(w.ends)}".rstrip(), w.type)) for w in node.outputs]
    for share in node.memory:
        note = f" ({share.note})" if share.note else ""
        rows.append(("memory", f"{show_bytes(share.bytes)} {share.kind} {share.name}{note}"))
    yield from table(rows, "<<", indent=2)


def _reasons(node: NodeAccount) -> Iterator[tuple[str, str]]:
    for reason in node.why:
        left_out = reason.hops - len(reason.path)
        more = f" > ({left_out} more)" if left_out else ""
        through = f" through {show_path(reason.path[1:])}{more}" if reason.hops > 1 else ", which it gives"
        yield "why", f"output {reason.output}{through}"


def _where(node: NodeAccount) -> str:
    return f"on {node.runs_on}" if node.expert is None else f"{node.expert} on {node.runs_on}"


def _units(node: NodeAccount) -> str:
    shown = []
    for unit in node.units:
        inner = f" of {unit.expert}" if unit.expert is not None else ""
        shown.append(f"{unit.expected} {unit.kind}{inner} of {show_seconds(unit.seconds)}")
    return ", ".join(shown)


def _time(node: NodeAccount) -> str:
    critical = ", on the critical path" if node.is_critical else ""
    overlaps = [f"{show_seconds(o.seconds)} of it beside {o.node}" for o in node.overlaps]
    span = f"from {show_seconds(node.starts_at)} to {show_seconds(node.ends_at)}"
    share = f"{100 * node.share:.1f} % of all work"
    return ", ".join([f"{show_seconds(node.seconds)}, {share}, {span}", *overlaps]) + critical


def _wire(ends: str, type: str) -> str:
    return f"{ends}: {type}"


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:37]}..."


def show_path(path: Sequence[str]) -> str:
    """`a > b > c`, long paths with their middle left out."""
    if len(path) > 2 * PATH_ENDS + 1:
        left_out = f"({len(path) - 2 * PATH_ENDS} more)"
        path = [*path[:PATH_ENDS], left_out, *path[-PATH_ENDS:]]
    return " > ".join(path)
