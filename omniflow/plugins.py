"""Plugin files: Python that the person who starts OmniFlow names, never a spec. Each adds experts:

`SIGNATURES` lists what the compiler must know of them, `LOADERS` maps each `use` to the function that loads it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from omniflow.errors import PluginError

if TYPE_CHECKING:
    from omniflow_compiler.library.signature import ExpertSignature

_LOADED: dict[Path, ModuleType] = {}


def load_plugins(paths: Sequence[Path]) -> list[ExpertSignature]:
    """Runs each file once and returns the signatures it lists in `SIGNATURES`. Errors: PluginError."""
    return [signature for path in paths for signature in _signatures(path, load_plugin(path))]


def load_plugin(path: Path) -> ModuleType:
    """The plugin's module, run once per process. Errors: PluginError."""
    resolved = path.resolve()
    if resolved in _LOADED:
        return _LOADED[resolved]
    if not resolved.is_file() or resolved.suffix != ".py":
        raise PluginError(f"--plugin {path}: there is no such Python file")
    name = f"omniflow_plugin_{resolved.stem}"
    spec = importlib.util.spec_from_file_location(name, resolved)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001  whatever a person's own file raises is told to that person
        del sys.modules[name]
        raise PluginError(f"--plugin {path}: {type(error).__name__}: {error}") from None
    _LOADED[resolved] = module
    return module


def plugin_modules() -> list[ModuleType]:
    """The plugins of this process, in the order they were loaded."""
    return list(_LOADED.values())


def _signatures(path: Path, module: ModuleType) -> list[ExpertSignature]:
    from omniflow_compiler.library.signature import ExpertSignature

    found = vars(module).get("SIGNATURES")
    if not isinstance(found, list | tuple) or not all(isinstance(s, ExpertSignature) for s in found):
        raise PluginError(f"--plugin {path}: it has no list `SIGNATURES` of ExpertSignature")
    return list(found)
