"""Where the command line starts: what was checked before and has not changed is answered at once."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line that the process was started with."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["check"]:
        from omniflow.commands.remembered import recall

        answer = recall(arguments)
        if answer is not None:
            code, output, errors = answer
            sys.stdout.write(output)
            sys.stderr.write(errors)
            sys.exit(code)
    from omniflow.cli import main as run

    run()


if __name__ == "__main__":
    main()
