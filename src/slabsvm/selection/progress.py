"""What a search reports to its progress function: fits done, fits in all with the refit, and the time left."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

Progress = Callable[[int, int, float], object]

# The time of a fit grows about as this power of its number of rows: that of the solver as the square, that of the
# leave-one-out scores as the cube of the free support vectors.
GROWTH = 2.5


class Steps:
    """Counts the fits of a search over all of its grids, with the refit as the last.

    progress, or None, is called with the number of fits that are done, of all that are known to come, and an estimate
    of the seconds left. The refit takes `refit` times as long as a fit of the search; 0 where there is none.
    """

    def __init__(self, progress: Progress | None, refit: float) -> None:
        self._progress = progress
        self._refit = refit
        self._begin = perf_counter()
        self._n_timed = self._n_before = self._n_done = 0

    def fitted(self, done: int, total: int) -> None:
        """Report a finished fit; so many of the present grid's fits are done."""
        self._n_timed += 1
        self._n_done = self._n_before + done
        each = (perf_counter() - self._begin) / self._n_timed
        self._report(self._n_before + total + (self._refit > 0), each * (total - done + self._refit))

    def next_grid(self, total: int) -> None:
        """Go on to another grid, after a grid of so many fits."""
        self._n_done = self._n_before = self._n_before + total

    def refitted(self) -> None:
        """Report that the refit is finished, and all work with it."""
        self._n_done += 1
        self._report(self._n_done, 0.0)

    def _report(self, total: int, seconds: float) -> None:
        if self._progress is not None:
            self._progress(self._n_done, total, seconds)


def refit_cost(n_rows: int, n_searched: float, n_threads: int) -> float:
    """Return how many times as long as a fit of the search, of so many rows on one of the threads, a refit takes."""
    return float(n_threads * (n_rows / n_searched) ** GROWTH)


class WithProgress:
    """An estimator with a `progress` parameter, which `clone` keeps, and pickles and deep copies leave out.

    It writes to a terminal or a widget of this process: most such functions cannot be pickled.
    """

    def __getstate__(self) -> dict[str, object]:
        """Return what to pickle: everything but the progress function."""
        state: dict[str, object] = super().__getstate__()  # type: ignore[assignment]  # BaseEstimator's is a dict
        return {**state, "progress": None}
