"""The message of an interruption before a command can answer it."""

from __future__ import annotations

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
