"""Which samples a solver works on: those that may become support vectors, those that violate optimality."""

from __future__ import annotations

import numpy as np

from slabsvm.dual.program import Dual
from slabsvm.dual.solution import Point, Solution
from slabsvm.runtime.arrays import FloatArray, IndexArray

# Candidates: the share of support vectors of the part that was solved first, on each side, and half as many again.
MARGIN = 1.5
# The samples that join the working set: at least this many, or as many as are free; a quarter for each of four sides.
NEWCOMERS = 256


def candidates_of(dual: Dual, scores: FloatArray, rough: Solution) -> IndexArray:
    """Return each plane's lowest sigma_p s: MARGIN times the part's share of support vectors, and mass enough."""
    named = np.zeros(dual.n_samples, dtype=bool)
    for sign, multipliers, caps, total in zip(dual.signs, rough.multipliers, dual.caps, dual.totals, strict=True):
        share = np.count_nonzero(multipliers) / len(multipliers)
        order = np.argsort(sign * scores, kind="stable")
        enough = int(np.searchsorted(np.cumsum(caps[order]), MARGIN * total)) + 1
        named[order[: max(int(MARGIN * share * dual.n_samples), enough)]] = True
    return np.flatnonzero(named)


def working_set(point: Point, largest: int) -> IndexArray:
    """Return the samples with a free variable, and on each side of each plane those nearest to violating optimality.

    Of more samples than largest, those that violate optimality most.
    """
    distances = point.distances
    can_rise = point.multipliers < point.dual.caps
    can_fall = point.multipliers > 0
    chosen = np.asarray((can_rise & can_fall).any(axis=0))
    n_each = max(NEWCOMERS, int(np.count_nonzero(chosen))) // 4
    for movable, merits in ((can_rise, -distances), (can_fall, distances)):
        for can_move, merit in zip(movable, merits, strict=True):
            movers = np.flatnonzero(can_move & ~chosen)
            # The best movers come, violators or not: with ties, or a cap above the total, there may be no violator, and
            # with a small nu no more than a few at a time.
            n_chosen = min(n_each, max(NEWCOMERS // 4, int(np.count_nonzero(merit[movers] > 0))), len(movers))
            if n_chosen:
                chosen[movers[np.argpartition(-merit[movers], n_chosen - 1)[:n_chosen]]] = True
    working = np.flatnonzero(chosen)
    if len(working) > largest:
        violation = np.where(can_rise, -distances, -np.inf), np.where(can_fall, distances, -np.inf)
        worst = np.maximum(*violation).max(axis=0)[working]
        working = np.sort(working[np.argpartition(-worst, largest - 1)[:largest]])
    return working
