"""Calls that joblib divides among threads, processes, or the workers of a cluster, of which one may die."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from sklearn.utils.parallel import Parallel

# What is called may itself be what workers die of.
TRIES = 3


def parallel(calls: Iterable[Any], n_jobs: int | None) -> list[Any]:
    """Return what calls, made by `delayed`, return, in their order.

    On a Dask cluster joblib gives a call's rows to one worker alone. When it dies nobody has them, and Dask cancels the
    calls that are in want of them: all are then made anew, from rows that are sent again.

    Raises
    ------
    CancelledError
        Workers have died at every try.
    """
    made = list(calls)
    for _ in range(TRIES - 1):
        with suppress(CancelledError):
            return list(Parallel(n_jobs=n_jobs)(made))
    return list(Parallel(n_jobs=n_jobs)(made))
