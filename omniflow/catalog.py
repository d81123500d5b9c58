"""The specs that come with OmniFlow, by name: `smol_speech.speech` is `specs/smol_speech/speech.program.yaml`."""

from __future__ import annotations

from pathlib import Path


class UnknownSpec(Exception):
    """A name that is neither a file nor in the catalogue; the message lists near ones."""


def catalog_root() -> Path:
    """The folder of the families: the checkout's `specs/` when this is one, the installed copy otherwise."""
    package = Path(__file__).resolve().parent
    checkout = package.parent / "specs"
    return checkout if checkout.is_dir() and (package.parent / "pyproject.toml").is_file() else package / "_specs"


def catalog() -> dict[str, Path]:
    """Every program and workflow of the catalogue by its name `family.name`."""
    root = catalog_root()
    found = {}
    for kind in ("program", "workflow"):
        for path in sorted(root.glob(f"*/*.{kind}.yaml")):
            found[f"{path.parent.name}.{path.name.removesuffix(f'.{kind}.yaml')}"] = path
    return found


def _is_there(path: Path) -> bool:
    try:
        path.lstat()
    except OSError:
        return False
    return True


def find_spec(name: str) -> Path:
    """The file a person means: a path as it is, otherwise a name of the catalogue. Errors: UnknownSpec."""
    if not name:
        raise UnknownSpec("the name of the spec is empty: name a file, or a program of the catalogue")
    path = Path(name)
    if path.suffix in (".yaml", ".yml", ".json") or "/" in name or _is_there(path):
        return path
    known = catalog()
    if name in known:
        return known[name]
    from omniflow_compiler.suggest import nearest

    close = nearest(name, known)
    hint = f"did you mean {' or '.join(close)}?" if close else f"the catalogue has {', '.join(sorted(known))}"
    raise UnknownSpec(f"`{name}` is neither a file nor in the catalogue; {hint}")
