"""Coverage-guided fuzzing of the loader and the front end behind it, with atheris (the `fuzz` extra).

python -m tests.compiler.fuzz_loader [CORPUS ...] [-atheris_runs=N]      any libFuzzer option
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["omniflow_compiler"]):
    from omniflow_compiler.pipeline import Options, compile_file
    from omniflow_compiler.render import render_report

FOLDER = Path(tempfile.mkdtemp()) / "family"
CARD = "omniflow: 1\nkind: card\nid: c\ncomponents: {t: {use: null.tokenizer}, l: {use: null.thinker}}\n"


def answer(content: bytes) -> None:
    """Compiles the bytes as a file; whatever they are, the answer is findings or a schedule."""
    path = FOLDER / "x.yaml"
    path.write_bytes(content)
    compilation = compile_file(path, Options())
    render_report(compilation.report, compilation.sources)
    if compilation.kind in ("program", "workflow"):
        assert (compilation.schedule is None) == (compilation.report.num_errors > 0)


def main() -> None:
    """Runs until libFuzzer's options say that it is enough."""
    FOLDER.mkdir()
    (FOLDER / "card.yaml").write_text(f"{CARD}loops: {{think: {{kind: ar_decode, binds: l, max_tokens: 8}}}}\n")
    atheris.Setup(sys.argv, answer)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
