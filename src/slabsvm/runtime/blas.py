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

from threadpoolctl import OpenBLASController, ThreadpoolController


class _OneBlasThread(ContextDecorator):
    """While any thread is inside, BLAS runs on one thread; large work is divided among Python's threads instead.

    BLAS has one setting for the whole process. The first to enter keeps it and the last to leave restores it, so that
    fits in concurrent threads do not restore each other's.

    From version 3.8 on threadpoolctl obeys the thread that first asked anything of OpenBLAS, as long as it lives or
    until it is released, and ignores all others without a word. Whoever asks here is obeyed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._found: list[tuple[Any, int]] = []  # each library and how many threads it had

    def begin_anew(self) -> None:
        """Forget the threads inside: a child process has none of them, so that none would leave or unlock."""
        if self._inside:
            self._restore()
        self._lock = threading.Lock()
        self._inside = 0

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._found = [(library, library.num_threads) for library in _loaded_blas()]
                _release()
                for library, _ in self._found:
                    library.set_num_threads(1)
            self._inside += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._restore()

    def _restore(self) -> None:
        _release()
        for library, n_threads in self._found:
            library.set_num_threads(n_threads)
        _release()


ONE_BLAS_THREAD = _OneBlasThread()
if hasattr(os, "register_at_fork"):  # there is no fork on Windows
    os.register_at_fork(after_in_child=ONE_BLAS_THREAD.begin_anew)


@cache
def _loaded_blas() -> list[Any]:
    """Return the controllers of the BLAS libraries that NumPy and SciPy loaded; finding them takes a millisecond."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _release() -> None:
    """Let whichever thread asks next set the number of OpenBLAS's threads."""
    if hasattr(OpenBLASController, "clear_controlling_thread"):  # from threadpoolctl 3.8 on
        OpenBLASController.clear_controlling_thread(force=True)
