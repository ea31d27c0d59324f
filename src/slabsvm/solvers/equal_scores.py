"""The strategy for a slab that has collapsed: all samples score the same, and one solve with K gives their multipliers.

Where K is close to the identity, beta = c K^-1 1 fits the boxes. No pair of multipliers can then improve: it is the
optimum, where c' beta is zero. One Cholesky factor of K decides. That of float32 takes half the time, and iterative
refinement with K in float64 makes up for its rounding; leave-one-out scores are made of the same factor.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slabsvm.dual.active_set import Face
from slabsvm.dual.program import Dual
from slabsvm.dual.solution import Point, Solution, Status, certified
from slabsvm.gram.base import Gram
from slabsvm.runtime.arrays import FloatArray

# Worth trying where K_ii is this share of the sum of its row, on average, or more.
ALONE = 0.04
# Up to so many samples the factor is one of float64, which takes no longer there,
FEW = 256
# and one of float32 can hold squares of values within this factor of 1.
MODERATE = 1e15
# Samples depend on each other by a squared pivot of K below this share of its diagonal: their beta is large and of both
# signs, and fits no boxes. Of float32, rounding hides a smaller one.
DEPENDENT = 1e-9
DEPENDENT_SINGLE = 2e-5
# They are feasible where what their boxes take off them is no more than this share of the largest.
FEASIBLE = 1e-9


def multipliers_of(dual: Dual, beta: FloatArray) -> FloatArray:
    """Return feasible multipliers, shape (P, m), for a beta near one that they can have.

    Of two planes, each sample supports the one of its beta's sign. Equal additions to both cancel in beta: they are
    made, where there is room, while mass is left; where there is none, the sums are put right.
    """
    multipliers = np.clip(dual.signs[:, None] * beta, 0.0, dual.caps)
    if dual.n_planes > 1:
        spare = (dual.caps - multipliers).min(axis=0)
        missing = float((dual.totals - multipliers.sum(axis=1)).min())
        if 0 < missing < spare.sum():
            multipliers += spare * (missing / spare.sum())
    return dual.project_sums(multipliers)


def far_apart(dual: Dual, diagonal: FloatArray, sums: FloatArray) -> bool:
    """Return whether a slab's samples are so far from most others, by the sums of K's rows, that it may have collapsed.

    One plane asks for beta >= 0, which is rarely what K^-1 1 is.
    """
    return dual.n_planes > 1 and bool((sums > 0).all()) and float((diagonal / sums).mean()) > ALONE


def equal_scores(dual: Dual, K: FloatArray) -> tuple[Point, Face | None] | None:
    """Return the feasible point nearest to equal scores, and the face if it is that of equal scores itself.

    Parameters
    ----------
    dual : Dual
    K : (m, m) array of float64

    Returns
    -------
    (Point, Face or None), or None where samples depend on each other
    """
    single = dual.n_samples > FEW and 1 / MODERATE < float(np.diagonal(K).mean()) < MODERATE
    face = Face(dual, np.zeros_like(dual.caps), np.ones(dual.caps.shape, dtype=bool))
    face.factor(K, np.float32 if single else np.float64)
    if face.least_pivot < (DEPENDENT_SINGLE if single else DEPENDENT):
        return None
    beta = face.solve(-dual.linear[:, None], np.array([[dual.signs @ dual.totals]]))[:, 0]
    multipliers = multipliers_of(dual, beta)
    kept = dual.beta(multipliers)
    feasible = np.abs(kept - beta).max() <= FEASIBLE * np.abs(beta).max()
    return Point(dual, multipliers, dual.linear + K @ kept), face if feasible else None


def solve_collapsed(dual: Dual, gram: Gram, tol: float) -> Solution | None:
    """Return the solution of equal scores with its face, from all of K in float64, or None where it is not optimal."""
    if dual.n_planes == 1:
        return None
    K = np.asarray(gram.block(np.arange(dual.n_samples), None), dtype=np.float64)
    found = equal_scores(dual, K) if far_apart(dual, gram.diagonal, K @ np.ones(len(K))) else None
    if found is None:
        return None
    point, face = found
    solution = certified(
        point,
        mean_diagonal=float(gram.diagonal.mean()),
        resolution=gram.resolution,
        tol=tol,
        iterations=0,
        unfinished=Status.STALLED,
    )
    return replace(solution, face=face) if solution.converged else None
