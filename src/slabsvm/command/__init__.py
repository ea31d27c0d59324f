"""The command line. click and rich, the optional extra `slabsvm[command]`, are imported in this folder alone.

Other distributions add subcommands through entry points of the group `slabsvm.commands`.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from slabsvm.runtime.caller import ExtraMissingError, require

INTERRUPTED = 130  # the exit status by which shells know an interruption


def main() -> None:
    """Run the command line; exit with status 1 and a sentence where the extra `command` is missing."""
    try:
        for library in ("click", "rich"):
            require("The command slabsvm", library, "slabsvm[command]")
    except ExtraMissingError as error:
        sys.exit(str(error))
    # The signals by which schedulers and closed terminals end a process have it remove what it has written in part.
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # nohup has it ignored.
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    with nothing_begun():
        from slabsvm.command.group import slabsvm
    slabsvm()


@contextmanager
def nothing_begun() -> Iterator[None]:
    """Turn an interruption during imports, which take seconds, into a line and an exit status: no work is lost."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped before any work was begun; the same command begins it.\n")
        raise SystemExit(INTERRUPTED) from None
