"""Writes the outputs of all pages anew, after a change of wording: read what `git diff` says before you keep it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from omniflow_compiler.codes import CODES
from omniflow_compiler.explanations import read_page, renewed


def main() -> None:
    """Rewrites each page that is out of date."""
    here = Path(__file__).parent
    for code in CODES:
        page = read_page(code)
        with tempfile.TemporaryDirectory() as folder:
            text = renewed(page, Path(folder))
        if text != page.text:
            (here / f"{code}.md").write_text(text, encoding="utf-8")
            print(f"{code}.md")


if __name__ == "__main__":
    main()
