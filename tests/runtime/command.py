"""The command line in this process."""

from __future__ import annotations

from omniflow.cli import app
from omniflow.commands.guard import guarded


def cli(*arguments: str) -> int:
    """Runs `omniflow ...` and gives its exit code; what it prints is captured as usual."""
    try:
        guarded(lambda: app(args=list(arguments)))
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0
