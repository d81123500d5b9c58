"""`omniflow lsp`: the language server, which editors start."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, cast


def serve(plugins: Sequence[Path]) -> int:
    """Serves one editor over standard input and output until it says goodbye; 1 when what it said broke off."""
    if find_spec("pygls") is None:
        print("omniflow: the language server needs pygls: pip install 'omniflow[lsp]'", file=sys.stderr)
        return 2
    from omniflow.lsp.server import make_server
    from omniflow.lsp.wire import Wire
    from omniflow.plugins import load_plugins
    from omniflow_compiler.library.library import BUILT_IN
    from omniflow_compiler.pipeline import Options

    server = make_server(Options(library=BUILT_IN.with_experts(load_plugins(plugins))))
    wire = Wire(sys.stdin.buffer, sys.stdout.buffer)
    server.start_io(cast(BinaryIO, wire))  # of which pygls calls `readline` and `read`
    if wire.fault is None:
        return 0
    print(f"omniflow: what came in is not of the Language Server Protocol: {wire.fault}", file=sys.stderr)
    return 1
