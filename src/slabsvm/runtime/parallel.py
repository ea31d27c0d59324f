"""Calls made elsewhere: in a thread of their own, so that Ctrl-C is answered, or by the workers of joblib."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from sklearn.utils.parallel import Parallel

from slabsvm.runtime.blas import ONE_BLAS_THREAD

Result = TypeVar("Result")


def apart(call: Callable[..., Result], *args: Any, **named: Any) -> Result:
    """Return what a call returns, or raise what it raises, with one thread of BLAS.

    Python looks at an interruption between instructions of the main thread, and not while that is inside of a call of
    LAPACK. It waits for another thread here instead. Interrupted, it goes on at once; the call ends by itself, and what
    it finds is dropped: until then it takes its processor and its memory. Other threads than the main one are never
    interrupted, and make the call themselves. It must not hold the interpreter's lock: NumPy's do not, most of
    `scipy.linalg` do.
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


# What is called may itself be what workers die of.
TRIES = 3


def parallel(calls: Iterable[Any], n_jobs: int | None) -> list[Any]:
    """Return what calls, made by `delayed`, return, in their order; raise CancelledError where none of TRIES ends.

    On a Dask cluster joblib gives a call's rows to one worker alone. When it dies nobody has them, and Dask cancels the
    calls that are in want of them: all are then made anew, from rows that are sent again.
    """
    made, tried = list(calls), 0
    while True:
        try:
            return list(Parallel(n_jobs=n_jobs)(made))
        except CancelledError:
            tried += 1
            if tried == TRIES:
                raise
