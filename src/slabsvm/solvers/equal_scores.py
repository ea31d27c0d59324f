"""The strategy for a slab that has collapsed: all samples score the same, and one solve with K gives their multipliers.

Where K is close to the identity, beta = c K^-1 1 fits the boxes. No pair of multipliers can then improve: it is the
optimum, where c' beta is zero. A few samples that leave their boxes are held at their bounds, and the others' scores
are equal; each costs one solve more. One Cholesky factor of K decides. That of float32 takes half the time, and
iterative refinement with K in float64 makes up for its rounding; leave-one-out scores are made of the same factor.
"""

from __future__ import annotations

import numpy as np

from slabsvm.dual.active_set import Face
from slabsvm.dual.program import Dual
from slabsvm.dual.solution import Point, Solution, Status, certified
from slabsvm.gram.base import Gram
from slabsvm.runtime.arrays import FloatArray

# Worth trying where K_ii is this share of the sum of its row, on average, or more.
ALONE = 0.04
# That of so many of them tells.
ASKED = 256
# Of more samples, products with K tell sooner whether equal scores are the optimum (`slabsvm.solvers.conjugate`).
FACTORED = 3000
# Up to so many samples the factor is one of float64, which takes no longer there,
FEW = 256
# and one of float32 can hold squares of values within this factor of 1.
MODERATE = 1e15
# Samples depend on each other by a squared pivot of K below this share of its diagonal: their beta is large and of both
# signs, and fits no boxes. Of float32, rounding hides a smaller one.
DEPENDENT = 1e-9
DEPENDENT_SINGLE = 2e-5
# Samples that are held at their bounds may make up for this surplus of the others.
HELD_SURPLUS = 1.1
# At most so many samples, and this share of all, are held at their bounds; which they are is changed so often.
MOST_HELD = 50
SHARE_HELD = 0.05
ROUNDS = 8
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


def surplus(dual: Dual, beta: FloatArray) -> float:
    """Return what a beta of equal scores needs of the multipliers of its sign, relative to what their plane has.

    Above 1 no multipliers have this beta: the planes are apart. 0 for one plane, whose beta is of one sign or is none.
    """
    if dual.n_planes == 1:
        return 0.0
    highest = np.maximum(dual.signs, 0.0) @ dual.caps
    return float(np.clip(beta, 0.0, highest).sum() / dual.totals[dual.signs > 0].sum())


def far_apart(dual: Dual, diagonal: FloatArray, sums: FloatArray) -> bool:
    """Return whether a slab's samples are so far from most others, by the sums of K's rows, that it may have collapsed.

    One plane asks for beta >= 0, which is rarely what K^-1 1 is.
    """
    return dual.n_planes > 1 and bool((sums > 0).all()) and float((diagonal / sums).mean()) > ALONE


def equal_scores(dual: Dual, K: FloatArray) -> tuple[Point, Face | None] | None:
    """Return a feasible point of equal scores, or nearest to them, and the face if all samples are free there.

    Parameters
    ----------
    dual : Dual
    K : (m, m) array of float64

    Returns
    -------
    (Point, Face or None), or None where samples depend on each other, or the planes are apart
    """
    single = dual.n_samples > FEW and 1 / MODERATE < float(np.diagonal(K).mean()) < MODERATE
    face = Face(dual, np.zeros_like(dual.caps), np.ones(dual.caps.shape, dtype=bool))
    try:
        face.factor(K, np.float32 if single else np.float64, regular=True)
    except np.linalg.LinAlgError:
        return None
    if face.least_pivot < (DEPENDENT_SINGLE if single else DEPENDENT):
        return None
    total = float(dual.signs @ dual.totals)
    beta = face.solve(-dual.linear[:, None], np.array([[total]]))[:, 0]
    if surplus(dual, beta) > HELD_SURPLUS:
        return None
    beta = _held_in_boxes(dual, face, beta)
    multipliers = multipliers_of(dual, beta)
    kept = dual.beta(multipliers)
    free = (multipliers > 0) & (multipliers < dual.caps)
    feasible = free.all() and np.abs(kept - beta).max() <= FEASIBLE * np.abs(beta).max()
    return Point(dual, multipliers, dual.linear + K @ kept), face if feasible else None


def _held_in_boxes(dual: Dual, face: Face, equal: FloatArray) -> FloatArray:
    """Return beta, shape (m,), of equal scores but for the few samples that would leave their boxes, held at bounds.

    A sample is let go where its score is on the wrong side of the others'. Where many leave, or the same ones come and
    go, it is the beta that was given.
    """
    highest = np.maximum(dual.signs, 0.0) @ dual.caps
    lowest = -(np.maximum(-dual.signs, 0.0) @ dual.caps)
    beta, sides, columns = equal, np.zeros(len(equal)), np.zeros((len(equal), 0))
    known = np.zeros(0, dtype=np.intp)
    for _ in range(ROUNDS):
        leaving = np.where(beta > highest, 1.0, np.where(beta < lowest, -1.0, 0.0))
        leaving[sides != 0] = sides[sides != 0]
        if (leaving == sides).all():
            return beta
        sides = leaving
        held = np.flatnonzero(sides)
        if len(held) > min(MOST_HELD, SHARE_HELD * len(equal)):
            break
        new = np.setdiff1d(held, known)
        right = np.zeros((len(equal), len(new)))
        right[new, np.arange(len(new))] = 1.0
        columns = np.hstack([columns, face.solve(right, np.zeros((1, len(new))))])
        known = np.concatenate([known, new])
        bounds = np.where(sides > 0, highest, lowest)[held]
        theirs = columns[:, [int(np.flatnonzero(known == each)[0]) for each in held]]
        pulls = np.linalg.solve(theirs[held], equal[held] - bounds)
        beta = equal - theirs @ pulls
        beta[held] = bounds
        sides[held[pulls * sides[held] < 0]] = 0.0
    return equal


def solve_collapsed(dual: Dual, gram: Gram, tol: float, cache_bytes: float) -> Solution | None:
    """Return what equal scores come to, from all of K in float64, with its face where that is the optimum.

    None where there is one plane, or products with K tell sooner, or K does not fit the memory.
    """
    if dual.n_planes == 1 or gram.cheap_products or dual.n_samples > FACTORED or 8 * dual.n_samples**2 > cache_bytes:
        return None
    # Samples come in random order.
    some = np.arange(min(ASKED, dual.n_samples))
    if not far_apart(dual, gram.diagonal[some], gram.block(some, None).sum(axis=1)):
        return None
    found = equal_scores(dual, np.asarray(gram.block(np.arange(dual.n_samples), None), dtype=np.float64))
    if found is None:
        return None
    point, face = found
    return certified(
        point,
        mean_diagonal=float(gram.diagonal.mean()),
        resolution=gram.resolution,
        tol=tol,
        iterations=0,
        unfinished=Status.STALLED,
        face=face,
    )
