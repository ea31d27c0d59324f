"""Threads: one for BLAS and LAPACK, so that results do not depend on their number, and calls made in others.

BLAS divides a product among its threads in shapes that depend on their number, and rounding errors depend on the
shapes. So what a fitted model or a score is made of is computed inside `ONE_BLAS_THREAD`. Inside, what underflows is 0,
whatever the caller's `numpy.errstate` makes of it: kernel values of rows far from each other do.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, ContextDecorator, nullcontext
from dataclasses import dataclass
from functools import cache
from inspect import currentframe
from types import FrameType
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.utils.parallel import Parallel
from threadpoolctl import OpenBLASController, ThreadpoolController

Result = TypeVar("Result")


@dataclass
class _Inside:
    """A thread that is inside."""

    frame: FrameType  # of the outermost function that entered; functions that it calls may enter again
    depth: int  # how often that function has entered
    errors: Any  # what the caller's `numpy.errstate` makes of floating-point errors

    def encloses(self, frame: FrameType | None) -> bool:
        """Return whether the function that entered is still running, below one that enters now."""
        while frame is not None:
            if frame is self.frame:
                return True
            frame = frame.f_back
        return False


class _OneBlasThread(ContextDecorator):
    """While any thread is inside, BLAS runs on one thread; large work is divided among Python's threads instead.

    BLAS has one setting for the whole process. The first to enter keeps it and the last to leave restores it. An
    interrupt may arrive before the first line of `__exit__`, which then never runs: whoever enters next finds on the
    stack that the function has ended, and takes its place.

    From version 3.8 on threadpoolctl obeys the thread that first asked anything of OpenBLAS, as long as it lives.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._inside: dict[int, _Inside] = {}  # by the number of the thread
        self._found: list[tuple[Any, int]] = []  # each library and how many threads it had

    def hold(self) -> None:
        """Wait until no thread is changing BLAS's, and let none begin: a fork would leave BLAS's own lock held."""
        self._lock.acquire()

    def let_go(self) -> None:
        """Let threads go on after `hold`."""
        self._lock.release()

    def begin_anew(self) -> None:
        """Forget the threads inside: a child process has none of them, so that none would leave or unlock."""
        self._lock = threading.RLock()
        self._inside = {}
        self._restore()

    def __enter__(self) -> None:
        frame = _user()
        try:
            self._join(frame)
        except BaseException:
            self._leave(frame)
            raise

    def __exit__(self, *exception: object) -> None:
        try:
            self._leave(_user())
        except BaseException:
            # An interrupt goes on when the number of threads is right.
            self._leave(_user())
            raise

    def _join(self, frame: FrameType) -> None:
        thread = threading.get_ident()
        with self._lock:
            known = self._inside.get(thread)
            if known is not None and known.encloses(frame):
                known.depth += known.frame is frame
                return
            if not self._found:
                self._found = [(library, library.num_threads) for library in _loaded_blas()]
                _release()
                for library, _ in self._found:
                    library.set_num_threads(1)
            self._inside[thread] = _Inside(frame, 1, np.geterr() if known is None else known.errors)
            np.seterr(under="ignore")

    def _leave(self, frame: FrameType) -> None:
        thread = threading.get_ident()
        with self._lock:
            known = self._inside.get(thread)
            if known is not None and known.frame is frame:
                known.depth -= 1
                if known.depth <= 0:
                    np.seterr(**known.errors)
                    self._inside.pop(thread)
            if not self._inside:
                self._restore()

    def _restore(self) -> None:
        if not self._found:
            return
        _release()
        for library, n_threads in self._found:
            library.set_num_threads(n_threads)
        _release()
        self._found = []


def _user() -> FrameType:
    """Return the frame of the function that enters or leaves, which calls the method that calls this."""
    # No name here may hold this frame itself, which would live on with all that its callers hold.
    user: FrameType = cast(Any, currentframe()).f_back.f_back
    return user


ONE_BLAS_THREAD = _OneBlasThread()
# Whether this process was forked from another one that had imported this module.
_FORKED = threading.Event()
if hasattr(os, "register_at_fork"):  # there is no fork on Windows
    os.register_at_fork(
        before=ONE_BLAS_THREAD.hold, after_in_parent=ONE_BLAS_THREAD.let_go, after_in_child=ONE_BLAS_THREAD.begin_anew
    )
    os.register_at_fork(after_in_child=_FORKED.set)


def safe_openmp() -> AbstractContextManager[Any]:
    """Return a context for a call that OpenMP divides among threads: in a forked process it has one.

    A child has none of its parent's threads. GNU's OpenMP, which scikit-learn comes with, takes them to be there if the
    parent has used them, and waits for them without end.
    """
    return _openmp().limit(limits=1) if _FORKED.is_set() else nullcontext()


@cache
def _openmp() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="openmp")


@cache
def _loaded_blas() -> list[Any]:
    """Return the controllers of the BLAS libraries that NumPy and SciPy loaded; finding them takes a millisecond."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _release() -> None:
    """Let whichever thread asks next set the number of OpenBLAS's threads."""
    if hasattr(OpenBLASController, "clear_controlling_thread"):  # from threadpoolctl 3.8 on
        OpenBLASController.clear_controlling_thread(force=True)


def in_own_thread(call: Callable[..., Result], *args: Any, **named: Any) -> Result:
    """Return what a call returns, or raise what it raises. Call it inside of `ONE_BLAS_THREAD`.

    Python looks at an interruption between instructions of the main thread, and not inside of a call of LAPACK. It
    waits for another thread here instead, and goes on at once when interrupted; the call ends by itself. It must not
    hold the interpreter's lock: NumPy's do not, most of `scipy.linalg` do.
    """
    if threading.current_thread() is not threading.main_thread():
        return call(*args, **named)
    future: Future[Result] = Future()

    def run() -> None:
        try:
            with ONE_BLAS_THREAD:
                found = call(*args, **named)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(found)

    # No interpreter waits at its end for a thread that is a daemon.
    threading.Thread(target=run, name="slabsvm-apart", daemon=True).start()
    return future.result()


def parallel(calls: Iterable[Any], n_jobs: int | None) -> list[Any]:
    """Return what calls, made by `delayed`, return, in order; raise CancelledError where none of three tries ends.

    When a Dask worker dies that holds a call's rows, Dask cancels the calls in want of them: all are made anew.
    """
    made, tried = list(calls), 0
    while True:
        try:
            return list(Parallel(n_jobs=n_jobs)(made))
        except CancelledError:
            # What is called may itself be what workers die of.
            tried += 1
            if tried == 3:
                raise
