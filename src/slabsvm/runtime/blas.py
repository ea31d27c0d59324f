"""One thread for BLAS and LAPACK: results do not depend on how many they might have had.

They divide a product among their threads in shapes that depend on the number of threads, and rounding depends on the
shapes. All that a fitted model or a score comes from is therefore computed inside `ONE_BLAS_THREAD`. BLAS's own threads
were besides measured to slow down what a descent asks of it, small solves sevenfold.
"""

from __future__ import annotations

import os
import threading
from contextlib import ContextDecorator
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


class _OneBlasThread(ContextDecorator):
    """While any thread is inside, BLAS runs on one thread: what is worth it is divided among Python's threads instead.

    BLAS has one setting for the whole process. The first to enter keeps it and the last to leave restores it, so that
    fits in concurrent threads do not restore each other's.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limits: Any = None

    def begin_anew(self) -> None:
        """Forget the threads that were inside: in a child process there are none, nor anyone to leave or unlock."""
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
