"""The edge of the command line: no user mistake ends in a traceback, and a bug of ours says how to report it."""

from __future__ import annotations

import atexit
import errno
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

OUTSIDE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR)  # the disk's say
INTERRUPTED = 130


def guarded(command: Callable[[], object]) -> None:
    """Runs a command and ends the process with the exit code that its failure has."""
    try:
        try:
            command()
        finally:
            if not sys.stdout.closed:
                sys.stdout.flush()  # what cannot be written is found here, not when the interpreter ends
    except KeyboardInterrupt:
        from omniflow.commands.printing import complain

        complain("interrupted")
        sys.exit(INTERRUPTED)
    except Exception as error:  # noqa: BLE001  whatever is no mistake of a user is a bug of ours, and is reported as one
        sys.exit(_code_of(error))


def leave_when_interrupted() -> None:
    """From now on Ctrl-C ends the process with one line, wherever it is, in an import too.

    Once all is done it changes nothing any more: Python, as it ends, would let it kill. A process that was started to
    ignore it goes on doing so.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


def open_what_is_closed() -> None:
    """Standard streams that the process was started without are there, and lead nowhere."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def _leave(_number: int, _frame: FrameType | None) -> None:
    try:
        os.write(2, b"omniflow: interrupted\n")
    finally:
        os._exit(INTERRUPTED)


def _code_of(error: Exception) -> int:
    """Says what is to be said of an error, and gives the exit code."""
    from omniflow.catalog import UnknownSpec
    from omniflow.commands.arguments import BadArgument
    from omniflow.commands.printing import complain, discard
    from omniflow.errors import PluginError

    if isinstance(error, UnknownSpec | BadArgument | PluginError):
        complain(str(error))
        return 2
    if isinstance(error, BrokenPipeError):
        discard(sys.stdout)
        return 1  # as Python and click end when nobody reads on
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        discard(sys.stdout)
        complain("cannot write the output: no space left on device")
        return 1
    if isinstance(error, FileNotFoundError) and error.filename is None:
        complain("the working folder is not there any more; change to another one")
        return 1
    if isinstance(error, OSError) and error.errno in OUTSIDE and error.filename is not None:
        complain(f"{str(error.filename)[:200]}: {(error.strerror or 'error').lower()}")
        return 1
    from omniflow.commands.bug import report_bug

    return report_bug(error, sys.argv[1:])
