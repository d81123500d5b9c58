"""What a person sees of a bug of ours: one line, and a file that has all we need to reproduce it."""

from __future__ import annotations

import platform
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path


def report_bug(error: Exception, arguments: Sequence[str]) -> int:
    """Writes the report into the temporary folder and names it; 3 is the exit code of a bug."""
    from omniflow_compiler.version import VERSION

    lines = [
        f"omniflow {VERSION}, Python {platform.python_version()}, {platform.system()} {platform.machine()}",
        f"command: omniflow {' '.join(arguments)}",
        "",
        "".join(traceback.format_exception(error)),
    ]
    with tempfile.NamedTemporaryFile("w", prefix="omniflow-bug-", suffix=".txt", delete=False) as file:
        file.write("\n".join(lines))
    print(f"omniflow: this is a bug of omniflow ({type(error).__name__}), not of your spec", file=sys.stderr)
    print(f"omniflow: please report it with {Path(file.name)} and the spec", file=sys.stderr)
    return 3
