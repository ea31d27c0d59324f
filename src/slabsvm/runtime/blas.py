"""One thread for BLAS and LAPACK, so that results do not depend on the number of threads.

BLAS divides a product among its threads in shapes that depend on their number, and rounding errors depend on the
shapes. Everything that a fitted model or a score is made of is therefore computed inside `ONE_BLAS_THREAD`. The threads
of BLAS also slow down small solves, as of a descent, up to sevenfold.
"""

from __future__ import annotations

import os
import threading
from contextlib import ContextDecorator
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


class _OneBlasThread(ContextDecorator):
    """While any thread is inside, BLAS runs on one thread; large work is divided among Python's threads instead.

    BLAS has one setting for the whole process. The first to enter keeps it and the last to leave restores it, so that
    fits in concurrent threads do not restore each other's.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limits: Any = None

    def begin_anew(self) -> None:
        """Forget the threads inside: a child process has none of them, so that none would leave or unlock."""
        if self._inside:
            self._limits.restore_original_limits()
        self._lock = threading.Lock()
        self._inside = 0

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limits = _loaded_blas().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limits.restore_original_limits()


ONE_BLAS_THREAD = _OneBlasThread()
if hasattr(os, "register_at_fork"):  # there is no fork on Windows
    os.register_at_fork(after_in_child=ONE_BLAS_THREAD.begin_anew)


@cache
def _loaded_blas() -> Any:
    """Return the controller of the BLAS libraries that NumPy and SciPy loaded; finding them takes a millisecond."""
    return ThreadpoolController()
