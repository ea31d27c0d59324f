"""One run at a time in an output folder: a second one would do all of the work again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from slabsvm.data.files import BEHIND, locked, open_regular, same_file

LOCK = ".slabsvm-run"


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
            if not same_file(file.fileno(), path):
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
    """Take the lock; False where another run has it. A file system that has no locks keeps nobody out."""
    try:
        return locked(descriptor)
    except OSError:
        return True
