"""Runs the benchmarks one after another, each in a process of its own: `python -m benchmarks [NAME ...]`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
NAMES = ("compile_scale", "engine_overhead", "cascade", "decoder", "serving")


def main() -> int:
    """The number of benchmarks that could not be run."""
    chosen = sys.argv[1:] or NAMES
    unknown = [name for name in chosen if not (FOLDER / f"{name}.py").is_file()]
    if unknown:
        print(f"no benchmark {unknown[0]}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    failed = 0
    for name in chosen:
        print(f"== {name}", flush=True)
        failed += subprocess.run([sys.executable, str(FOLDER / f"{name}.py")], check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
