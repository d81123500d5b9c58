"""`omniflow explain`: the page of a diagnostic code."""

from __future__ import annotations

from omniflow.commands.arguments import BadArgument


def explain_code(code: str) -> int:
    """Prints the code's page, or the table of all codes when none is named."""
    from omniflow_compiler.codes import CODES, explanation
    from omniflow_compiler.suggest import nearest

    if not code:
        for known in CODES.values():
            print(f"{known.id}  {known.title}")
        return 0
    name = code.upper()
    if name not in CODES:
        close = nearest(name, CODES)
        raise BadArgument(f"unknown code `{code}`" + (f"; did you mean {' or '.join(close)}?" if close else ""))
    print(explanation(name), end="")
    return 0
