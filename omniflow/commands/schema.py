"""`omniflow schema`: the JSON Schema of a kind of spec, for editors and machines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from omniflow.commands.arguments import BadArgument

KINDS = ("card", "program", "graph", "workflow", "config")


def print_schema(kind: str, plugins: Sequence[Path]) -> int:
    """Prints the schema of that kind, with the experts of installed packages and plugins."""
    if kind not in KINDS:
        raise BadArgument(f"there is no schema `{kind}`; kinds are {', '.join(KINDS)}")
    from omniflow.plugins import load_plugins
    from omniflow_compiler.json_schema import full_schema
    from omniflow_compiler.library.library import BUILT_IN

    library = BUILT_IN.with_experts(load_plugins(plugins))
    print(json.dumps(full_schema(kind, library), indent=1, ensure_ascii=False))
    return 0
