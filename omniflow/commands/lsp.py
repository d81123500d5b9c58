"""`omniflow lsp`: the language server, which editors start."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path


def serve(plugins: Sequence[Path]) -> int:
    """Serves one editor over standard input and output until it says goodbye."""
    if find_spec("pygls") is None:
        print("omniflow: the language server needs pygls: pip install 'omniflow[lsp]'", file=sys.stderr)
        return 2
    from omniflow.lsp.server import make_server
    from omniflow.plugins import load_plugins
    from omniflow_compiler.library.library import BUILT_IN
    from omniflow_compiler.pipeline import Options

    make_server(Options(library=BUILT_IN.with_experts(load_plugins(plugins)))).start_io()
    return 0
