"""How the compiler's time and memory grow: chains, wide fans and random graphs of 10 to 50,000 nodes.

Each row is a process of its own: `omniflow check` on a fresh file, with the start of Python; then the same again, from
the cache. Budgets are printed beside what was measured. `--json FILE` keeps the numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from omniflow_compiler.pipeline import Options, compile_file
from omniflow_compiler.version import VERSION

SIZES = (10, 100, 1_000, 10_000, 50_000)
SECONDS = {100: 0.3, 1_000: 0.5, 10_000: 4.0}  # process time of `check`, with the start of Python
MEGABYTES = {10_000: 700.0}
CACHED_SECONDS = 0.15
MESSAGE_MILLISECONDS = 50.0  # for one of 262,144 cycles, and for a file that is too large
MOST_GROWTH = 2.0  # from 1,000 to 10,000 nodes, beyond ten times
CARD = "omniflow: 1\nkind: card\nid: scale\nlints: {OF3001: allow}\ncomponents: {tokenizer: {use: null.tokenizer}}\n"
LAUNCH = "import sys; sys.argv[0] = 'omniflow'; from omniflow.__main__ import main; main()"


def chain(size: int) -> Iterator[str]:
    """Each node reads the one before it."""
    yield "  - x -> n0.a\n"
    for i in range(size):
        yield f"  - x -> n{i}.b\n"
        if i:
            yield f"  - n{i - 1}.sum -> n{i}.a\n"


def wide(size: int) -> Iterator[str]:
    """All nodes but the last read the input; the last reads a neighbour, and so does every hundredth."""
    for i in range(size):
        yield f"  - x -> n{i}.b\n"
        yield f"  - n{i - 1}.sum -> n{i}.a\n" if i % 100 == 99 or (i == size - 1 and i) else f"  - x -> n{i}.a\n"


def mixed(size: int) -> Iterator[str]:
    """Each node reads two random earlier ones."""
    choose = random.Random(0)
    for i in range(size):
        for port in ("a", "b"):
            yield f"  - n{choose.randrange(i)}.sum -> n{i}.{port}\n" if i else f"  - x -> n0.{port}\n"


SHAPES = {"chain": chain, "wide": wide, "random": mixed}


def write(folder: Path, shape: str, size: int) -> Path:
    """Writes a card and a program of the shape into a folder of their own; the program's path."""
    folder = folder / f"{shape}{size}"
    folder.mkdir(exist_ok=True)
    (folder / "card.yaml").write_text(CARD)
    path = folder / f"{shape}{size}.program.yaml"
    edges = "".join(SHAPES[shape](size))
    nodes = "".join(f"  n{i}: {{op: add}}\n" for i in range(size))
    head = f"omniflow: 1\nkind: program\nid: {shape}{size}\ncard: scale\nlints: {{OF2006: allow}}\n"
    ports = f"inputs: {{x: 'f32[T, 8]'}}\noutputs: {{y: n{size - 1}.sum}}\n"
    path.write_text(f"{head}{ports}nodes:\n{nodes}edges:\n{edges}")
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one `check` took."""

    shape: str
    nodes: int
    spec_bytes: int
    cpu_seconds: float
    wall_seconds: float
    cached_cpu_seconds: float
    peak_megabytes: float


def measure(path: Path, cache: Path) -> tuple[float, float, float]:
    """Process seconds, wall seconds and peak megabytes of one `check`."""
    environment = {**os.environ, "OMNIFLOW_CACHE": str(cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package is compiled once
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCH, "check", str(path)], env=environment, stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"check {path.name} failed with {process.returncode}")
    scale = 1 << 20 if platform.system() == "Darwin" else 1 << 10
    return used.ru_utime + used.ru_stime, time.perf_counter() - start, used.ru_maxrss / scale


def ladder(folder: Path) -> Path:
    """Eighteen diamonds in a ring: 55 nodes with 262,144 cycles, of which one is to be shown."""
    rungs = range(18)
    following = [f"in{i + 1}" for i in rungs[:-1]] + ["end"]
    pairs = [(f"in{i}", f"{side}{i}") for i in rungs for side in ("left", "right")]
    pairs += [(f"{side}{i}", following[i]) for i in rungs for side in ("left", "right")]
    names = dict.fromkeys(name for pair in (*pairs, ("end", "in0")) for name in pair)
    (folder / "card.yaml").write_text(CARD)
    path = folder / "ladder.program.yaml"
    nodes = "".join(f"  {name}: {{op: concat}}\n" for name in names)
    edges = "".join(f"  - {a}.whole -> {b}.parts\n" for a, b in (*pairs, ("end", "in0")))
    head = "omniflow: 1\nkind: program\nid: ladder\ncard: scale\noutputs: {y: end.whole}\n"
    path.write_text(f"{head}nodes:\n{nodes}edges:\n{edges}")
    return path


def oversized(folder: Path) -> Path:
    """As large as all edges between 3,000 and 3,000 nodes, one a line."""
    path = folder / "oversized.program.yaml"
    with path.open("wb") as file:
        file.truncate(272_000_000)
    return path


def milliseconds(path: Path, expected: str) -> float:
    """Process time until the finding of that code is there, in a process that has compiled before."""
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        compilation = compile_file(path, Options())
        best = min(best, (time.process_time() - start) * 1000)
        assert [found.code for found in compilation.report] == [expected]
    return best


def row(folder: Path, shape: str, size: int, repeats: int) -> Row:
    """The best of several first checks, and of as many from the cache."""
    path = write(folder, shape, size)
    first, again = [], []
    for repeat in range(repeats):
        cache = folder / f"cache-{shape}-{size}-{repeat}"
        first.append(measure(path, cache))
        again.append(measure(path, cache))
    best = min(first)
    return Row(
        shape=shape,
        nodes=size,
        spec_bytes=path.stat().st_size,
        cpu_seconds=round(best[0], 3),
        wall_seconds=round(best[1], 3),
        cached_cpu_seconds=round(min(again)[0], 3),
        peak_megabytes=round(best[2], 1),
    )


def verdicts(rows: list[Row], messages: dict[str, float]) -> Iterator[tuple[str, bool]]:
    """Each budget in words and whether it was kept."""
    for name, took in messages.items():
        yield f"{name}: {took:.1f} ms of {MESSAGE_MILLISECONDS} ms", took < MESSAGE_MILLISECONDS
    for found in rows:
        if found.nodes in SECONDS:
            limit = SECONDS[found.nodes]
            yield f"{found.shape} {found.nodes}: {found.cpu_seconds} s of {limit} s", found.cpu_seconds < limit
        kept = found.cached_cpu_seconds < CACHED_SECONDS
        yield f"{found.shape} {found.nodes}: {found.cached_cpu_seconds} s of {CACHED_SECONDS} s unchanged", kept
        if found.nodes in MEGABYTES:
            most = MEGABYTES[found.nodes]
            yield (
                f"{found.shape} {found.nodes}: {found.peak_megabytes} MB of {most:.0f} MB",
                found.peak_megabytes < most,
            )
    for shape in SHAPES:
        times = {found.nodes: found.cpu_seconds for found in rows if found.shape == shape}
        if 1_000 in times and 10_000 in times:
            growth = times[10_000] / times[1_000] / 10
            yield f"{shape}: 1,000 to 10,000 nodes takes {growth:.2f} times as long per node", growth < MOST_GROWTH


def show(rows: list[Row], messages: dict[str, float]) -> None:
    """The table and the verdicts."""
    print(f"omniflow {VERSION}, Python {platform.python_version()}, {os.cpu_count()} cores; process time of `check`")
    print(f"{'shape':8}{'nodes':>8}{'spec MB':>9}{'cpu s':>8}{'budget':>8}{'wall s':>8}{'cached s':>10}{'peak MB':>9}")
    for r in rows:
        budget = SECONDS.get(r.nodes, "-")
        print(
            f"{r.shape:8}{r.nodes:>8}{r.spec_bytes / 1e6:>9.2f}{r.cpu_seconds:>8.2f}{budget:>8}{r.wall_seconds:>8.2f}"
            f"{r.cached_cpu_seconds:>10.3f}{r.peak_megabytes:>9.0f}"
        )
    for words, kept in verdicts(rows, messages):
        print(f"{'kept  ' if kept else 'BROKEN'} {words}")


def main() -> int:
    """Measures and prints; 1 when a budget is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(write(Path(folder), "chain", 1), Path(folder) / "warm")
        rows = [
            row(Path(folder), shape, size, 1 if size > 10_000 else arguments.repeats)
            for shape in arguments.shapes
            for size in arguments.sizes
        ]
        messages = {
            "one cycle of 262,144": milliseconds(ladder(Path(folder)), "OF2004"),
            "a file of 9,000,000 edges": milliseconds(oversized(Path(folder)), "OF1002"),
        }
    show(rows, messages)
    if arguments.json:
        body = {"compiler": VERSION, "python": platform.python_version(), "rows": [asdict(found) for found in rows]}
        body["message_milliseconds"] = messages
        arguments.json.write_text(json.dumps(body, indent=2) + "\n")
    return 0 if all(kept for _, kept in verdicts(rows, messages)) else 1


if __name__ == "__main__":
    sys.exit(main())
