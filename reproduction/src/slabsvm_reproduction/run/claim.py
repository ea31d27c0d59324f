"""One run at a time in an output folder: a second one would do all of the work again."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from slabsvm.data.files import open_regular

LOCK = ".slabsvm-run"
# Where Windows locks a byte, nobody else can read it: behind the number of the process.
BEHIND = 1 << 10


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Keep other runs out of a folder.

    The system holds the lock while the process lives, so that the file of a killed run keeps nobody out.

    Raises
    ------
    ClickException
        Another run is at work there.
    OSError
        Something else is where the lock's file should be.
    """
    path = folder / LOCK
    while True:
        with open_regular(path, "a+b", links=False) as file:
            if not _is_locked(file.fileno()):
                file.seek(0)
                owner = file.read(BEHIND).decode(errors="replace").strip() or "unknown"
                raise click.ClickException(
                    f"Another run is at work on {folder} (process {owner}). Wait for it to end, or name another folder "
                    "with --output."
                )
            # The run before removed the file between the opening and the locking: the lock is of no use.
            if not _is_same(file.fileno(), path):
                continue
            try:
                # On a full disk the lock stays without a number.
                with suppress(OSError):
                    os.ftruncate(file.fileno(), 0)
                    os.write(file.fileno(), b"%d\n" % os.getpid())
                yield
            finally:
                with suppress(OSError):
                    path.unlink()
            return


def _is_locked(descriptor: int) -> bool:
    """Take the system's lock on an open file; False where another run has it."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, BEHIND, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # A file system that has no locks keeps nobody out.
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True


def _is_same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
