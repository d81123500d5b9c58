"""`omniflow init`: a new folder with a commented card, a program, and the schemas that editors complete from."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from omniflow.commands.arguments import BadArgument

TEMPLATES = ("text", "speech", "image")
PLACEHOLDER = "NEW_NAME"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


def start_project(name: str, *, template: str, parent: Path) -> int:
    """Writes the folder `parent/name`; nothing that is there is ever overwritten."""
    from omniflow.files import WriteError

    if template not in TEMPLATES:
        raise BadArgument(f"--template {template}: templates are {', '.join(TEMPLATES)}")
    if not _NAME.match(name):
        raise BadArgument(f"`{name}` cannot be a name: use letters, digits, dots, dashes and underscores")
    folder = parent / name
    files = {folder / path: text for path, text in _files(name, template).items()}
    for path in (folder, *files):
        if path.exists() and (path != folder or not path.is_dir()):
            raise BadArgument(f"{path} exists already; choose another name")
    try:
        _write(folder, files)
    except WriteError as error:
        print(f"omniflow: {error}", file=sys.stderr)
        return 1
    program = folder / f"{template}.program.yaml"
    print("\n".join([*map(str, files), "", f"Next: omniflow run {program} --input prompt='a small house'"]))
    return 0


def _write(folder: Path, files: Mapping[Path, str]) -> None:
    """Writes all files or, when one fails, none. Errors: WriteError."""
    from omniflow.files import WriteError, write_text

    folders = [each for each in (folder, *{path.parent for path in files} - {folder}) if not each.exists()]
    try:
        for path, text in files.items():
            write_text(path, text)
    except WriteError:
        for path in files:
            if path.is_file():
                path.unlink()
        for each in reversed(folders):
            if each.is_dir() and not any(each.iterdir()):
                each.rmdir()
        raise


def _files(name: str, template: str) -> dict[str, str]:
    """The files' texts by their paths in the folder."""
    from omniflow_compiler.json_schema import full_schema
    from omniflow_compiler.library.library import BUILT_IN

    root = Path(__file__).resolve().parents[1] / "templates" / template
    files = {
        path.name: path.read_text(encoding="utf-8").replace(PLACEHOLDER, name) for path in sorted(root.glob("*.yaml"))
    }
    for kind in ("card", "program"):
        schema = json.dumps(full_schema(kind, BUILT_IN), indent=1, ensure_ascii=False)
        files[f"schemas/{kind}.schema.json"] = f"{schema}\n"
    return files
