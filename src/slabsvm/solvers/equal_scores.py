"""The start of a slab that has collapsed, or nearly: all samples score the same, and one solve with K gives how.

Where K is close to the identity, beta = c K^-1 1 fits the boxes. No pair of multipliers can then improve: it is the
optimum, where c' beta is zero, and leave-one-out scores are made of the same factor. Where few samples leave their
boxes, the descent has little left to do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slabsvm.dual.program import Dual
from slabsvm.dual.solution import Face, Point
from slabsvm.gram.blocks import Blocks
from slabsvm.gram.neighbours import Neighbours
from slabsvm.runtime.arrays import AnyFloatArray, FloatArray

# Samples depend on each other by a squared pivot of K below this share of its diagonal: their beta is large and of both
# signs, and fits no boxes. Of float32, rounding hides a smaller one.
DEPENDENT: dict[Any, float] = {np.float64: 1e-9, np.float32: 2e-5}
# The lower plane may lack this much of what beta asks of it: samples that are beyond their boxes ask for less in them.
SURPLUS = 1.1
# Multipliers are those of beta where what their boxes take off it is no more than this share of the largest.
FEASIBLE = 1e-9
# Of more samples than are factored, each is regressed on so many neighbours, and at most so many products with K are
# made, until scores of 1 are off by no more than this on average: the gap is then some 1e-3 of the objective, or less.
NEIGHBOURS = 64
PRODUCTS = 60
LEVEL = 2e-5


def equal_scores(dual: Dual, K: AnyFloatArray) -> tuple[Point, Face | None] | None:
    """Return the feasible point that is nearest to equal scores, and the face if all samples are free there.

    None where samples depend on each other by K, shape (m, m), or the planes are apart.
    """
    face = Face(dual, np.zeros_like(dual.caps), np.ones(dual.caps.shape, dtype=bool))
    try:
        face.factor(K, regular=True)
    except np.linalg.LinAlgError:
        return None
    if face.least_pivot < DEPENDENT[K.dtype.type]:
        return None
    total = float(dual.signs @ dual.totals)
    beta = face.solve(-dual.linear[:, None], np.array([[total]]))[:, 0]
    # What rounding has left is solved for once more.
    beta += face.to_optimum(dual.linear + K @ beta.astype(K.dtype))
    if surplus(dual, beta) > SURPLUS:
        return None
    multipliers = dual.multipliers_of(beta)
    kept = dual.beta(multipliers)
    free = (multipliers > 0) & (multipliers < dual.caps)
    feasible = free.all() and np.abs(kept - beta).max() <= FEASIBLE * np.abs(beta).max()
    return Point(dual, multipliers, dual.linear + K @ kept.astype(K.dtype)), face if feasible else None


def equal_scores_by_products(dual: Dual, K: Blocks) -> Point | None:
    """Return a feasible point that is near equal scores, by conjugate gradients with a neighbours' factor before K.

    None where the planes are apart. There is no linear term.
    """
    factor = Neighbours(K, NEIGHBOURS).factor(np.arange(dual.n_samples))
    total, eps = float(dual.signs @ dual.totals), float(np.finfo(K.dtype).eps)
    x, residual = np.zeros(dual.n_samples), np.ones(dual.n_samples)
    direction = factor.solve(residual)
    square = float(residual @ direction)
    if surplus(dual, direction * (total / direction.sum())) > SURPLUS:
        return None
    for _ in range(PRODUCTS):
        image = K.times(direction)
        curvature = float(direction @ image)
        # By Kantorovich's inequality no K of a condition below 1 / eps^2 has less.
        if not curvature > eps * np.linalg.norm(direction) * np.linalg.norm(image):
            break
        x += square / curvature * direction
        residual -= square / curvature * image
        if np.abs(residual).mean() <= LEVEL:
            break
        step = factor.solve(residual)
        square, before = float(residual @ step), square
        direction = step + square / before * direction
    multipliers = dual.multipliers_of(x * (total / x.sum()))
    return Point(dual, multipliers, K.times(dual.beta(multipliers)))


def surplus(dual: Dual, beta: FloatArray) -> float:
    """Return what a beta of equal scores needs of the multipliers of its sign, relative to what their plane has.

    Above 1 no multipliers have this beta: the planes are apart.
    """
    highest = np.maximum(dual.signs, 0.0) @ dual.caps
    return float(np.clip(beta, 0.0, highest).sum() / dual.totals[dual.signs > 0].sum())
