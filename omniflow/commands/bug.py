"""What a person sees of a bug of ours: one line, and a file that has all we need to reproduce it."""

from __future__ import annotations

import platform
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from omniflow.commands.printing import complain


def report_bug(error: Exception, arguments: Sequence[str]) -> int:
    """Writes the report into the temporary folder and names it; 3 is the exit code of a bug."""
    from omniflow_compiler.version import VERSION

    lines = [
        f"omniflow {VERSION}, Python {platform.python_version()}, {platform.system()} {platform.machine()}",
        f"command: omniflow {' '.join(arguments)}",
        "",
        "".join(traceback.format_exception(error)),
    ]
    complain(f"this is a bug of omniflow ({type(error).__name__}), not of your spec")
    try:
        with tempfile.NamedTemporaryFile("w", prefix="omniflow-bug-", suffix=".txt", delete=False) as file:
            file.write("\n".join(lines))
    except OSError:
        complain("please report it with the spec and what follows")
        complain("\n".join(lines))
        return 3
    complain(f"please report it with {Path(file.name)} and the spec")
    return 3
