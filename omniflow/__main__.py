"""Where the command line starts: what was checked before and has not changed is answered at once."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as in `typing`: nothing is imported before Ctrl-C is heard, but what Python has loaded anyway
if TYPE_CHECKING:
    from collections.abc import Sequence


def main() -> None:
    """Runs the command line that the process was started with."""
    try:  # Ctrl-C may come while what handles it is imported
        from omniflow.commands.guard import leave_when_interrupted, open_what_is_closed

        leave_when_interrupted()
    except KeyboardInterrupt:
        print("omniflow: interrupted", file=sys.stderr)
        sys.exit(130)
    open_what_is_closed()
    _main(sys.argv[1:])


def _main(arguments: list[str]) -> None:
    if arguments[:1] == ["check"]:
        from omniflow.commands.remembered import recall

        answer = recall(arguments)
        if answer is not None:
            from omniflow.commands.guard import guarded

            guarded(lambda: _repeat(*answer))
        if len(arguments) > 1 and not any(argument.startswith("-") for argument in arguments):
            _check(arguments[1:])
    from omniflow.cli import main as run

    run()


def _repeat(code: int, output: str, errors: str) -> None:
    sys.stdout.write(output)
    sys.stderr.write(errors)
    sys.exit(code)


def _check(specs: Sequence[str]) -> None:
    """A check without options needs no parser of the command line, which takes longer to import than the check."""
    import gc

    gc.disable()  # the process ends with its answer, before there is anything to collect
    from omniflow.commands.check import check_specs
    from omniflow.commands.guard import guarded
    from omniflow.commands.selection import Selection

    guarded(lambda: sys.exit(check_specs([Selection(spec=spec) for spec in specs], format="text")))


if __name__ == "__main__":
    main()
