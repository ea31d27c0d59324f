"""The solver for up to 2,000 samples: one call of the core finds the optimum, and the scores without each row or group.

The core descends, finds the optimum by pivoting, and reads left-out scores off the optimum's table
(docs/developers/method.md). The duality gap is computed here, by other code, from the multipliers that it returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slabsvm import core
from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.svm.gram import Gram, refuse_negative_curvature
from slabsvm.svm.program import DualProblem, GapScale, Point, Solution, Status, certified

# The most samples of a program that goes to the core whole, and that rows or groups are left out of exactly.
MOST_EXACT = 2000
# A step of the descent divides by no less, as a share of K's diagonal: equal samples have no curvature.
CURVATURE_FLOOR = 1e-12
# Steps of a descent times samples, at most: about two seconds.
MOST_WORK = 1e9


@dataclass(frozen=True)
class Leaving:
    """What leaves a program, one after the other: a row of each sample, or groups.

    Attributes
    ----------
    stays : (m,) array or None
        The share of each sample that stays where one row of it leaves: (c - 1) / c of c rows.
    groups : sequence of pairs of arrays, or None
        The samples of a group, and those of them that leave: all but those that other groups have, too.
    """

    stays: FloatArray | None = None
    groups: Sequence[tuple[IndexArray, IndexArray]] | None = None

    def __post_init__(self) -> None:
        """Refuse both, or neither."""
        if (self.stays is None) == (not self.groups):
            raise ValueError("Give the share of each sample that stays, or at least one group.")

    @property
    def arguments(self) -> dict[str, Any]:
        """What the core is told."""
        if self.groups is None:
            return {"stays": self.stays}
        begins = np.cumsum([0, *(len(samples) for samples, _ in self.groups)], dtype=np.int64)
        samples = np.concatenate([samples for samples, _ in self.groups]).astype(np.int64)
        leaves = np.concatenate([np.isin(samples, leaving) for samples, leaving in self.groups])
        return {"groups": (begins, samples, leaves)}


@dataclass(frozen=True)
class LeftOutScores:
    """Scores of samples under the optimum of the program without them.

    Attributes
    ----------
    scores : (m,) array, or with groups (p,)
        Of a row of each sample, or of the samples of all groups, one group after the other.
    error : float
        The certificate: how far K times all changes of multipliers is from all changes of scores, as a share of the
        offsets, the largest of eight random sums. Sets that were left out by a refit are not in it. NaN where the
        optimum was not found, since all are then left out by refits.
    counts : dict
        How many were left out all at once, step by step, again with more added to K, and by a refit.
    """

    scores: FloatArray
    error: float
    counts: dict[str, Any]


@ONE_BLAS_THREAD
def solve_small(
    dual: DualProblem,
    gram: Gram,
    *,
    tol: float = 1e-3,
    max_iter: int = -1,
    optimum: bool = True,
    leaving: Leaving | None = None,
) -> tuple[Solution, LeftOutScores | None]:
    """Return the solution of a program, and scores without what leaves it.

    Parameters
    ----------
    dual, gram : the program
    tol : float
        The relative duality gap to reach, > 0.
    max_iter : int
        Limit on the descent's steps; -1 for one that follows from the number of samples.
    optimum : bool
        Whether to go on to the optimum itself.
    leaving : Leaving or None

    Raises
    ------
    ValueError
        When K is found to be indefinite.
    """
    gram.check()
    K, diagonal = gram.padded(), float(gram.diagonal.mean())
    multipliers, scores, steps, curvature, _, left_out, error, counts = core.fit(
        K,
        np.ascontiguousarray(dual.upper_bounds),
        dual.totals,
        dual.linear,
        tol=tol,
        smallest=GapScale.of(dual, diagonal).size(0.0),
        floor=max(CURVATURE_FLOOR * diagonal, float(np.finfo(np.float64).tiny)),
        max_steps=max_iter,
        most_work=MOST_WORK,
        optimum=optimum,
        **({} if leaving is None else leaving.arguments),
    )
    refuse_negative_curvature(curvature, diagonal)
    unfinished = Status.STALLED if steps * dual.n_samples < MOST_WORK else Status.SLOW
    solution = certified(
        Point(dual, multipliers, scores),
        mean_diagonal=diagonal,
        tol=tol,
        resolution=gram.resolution,
        iterations=steps,
        unfinished=Status.ITERATION_LIMIT if 0 <= max_iter <= steps else unfinished,
    )
    return solution, None if leaving is None else LeftOutScores(left_out, error, counts)
