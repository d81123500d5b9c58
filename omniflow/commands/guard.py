"""The edge of the command line: no user mistake ends in a traceback, and a bug of ours says how to report it."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable


def guarded(command: Callable[[], object]) -> None:
    """Runs a command and ends the process with the exit code that its failure has."""
    from omniflow.catalog import UnknownSpec
    from omniflow.commands.arguments import BadArgument
    from omniflow.errors import PluginError

    try:
        try:
            command()
        finally:
            if not sys.stdout.closed:
                sys.stdout.flush()  # what cannot be written is found here, not when the interpreter ends
    except (UnknownSpec, BadArgument, PluginError) as error:
        print(f"omniflow: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            sys.exit(_bug(error))
        print("omniflow: cannot write the output: no space left on device", file=sys.stderr)
        sys.stderr.close()  # the interpreter tries again, and would say so
        sys.exit(1)
    except KeyboardInterrupt:
        print("omniflow: interrupted", file=sys.stderr)
        sys.exit(130)
    except Exception as error:  # noqa: BLE001  whatever reaches this line is a bug of ours, and is reported as one
        sys.exit(_bug(error))


def _bug(error: Exception) -> int:
    from omniflow.commands.bug import report_bug

    return report_bug(error, sys.argv[1:])
