"""What ends a command from outside: the message of an early interruption, and an orderly end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130  # the exit status by which shells know an interruption


@contextmanager
def nothing_begun() -> Iterator[None]:
    """Turn an interruption during imports, which take seconds, into a line and an exit status: no work is lost."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped before any work was begun; the same command begins it.\n")
        raise SystemExit(INTERRUPTED) from None


def end_in_order() -> None:
    """Have the signals by which schedulers and closed terminals end a process remove what it has written in part."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # nohup has it ignored.
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda number, _: sys.exit(128 + number))
