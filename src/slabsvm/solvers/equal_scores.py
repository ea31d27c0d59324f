"""The start of a slab that has collapsed, or nearly, of more samples than K is held for: all samples score the same.

Where K is close to the identity, beta = c K^-1 1 fits the boxes. No pair of multipliers can then improve: it is the
optimum. Where few samples leave their boxes, the descent has little left to do. Where K is held the descent is as fast.
"""

from __future__ import annotations

import numpy as np

from slabsvm.dual.program import Dual
from slabsvm.dual.solution import Point
from slabsvm.gram.blocks import Blocks
from slabsvm.gram.neighbours import Neighbours
from slabsvm.runtime.arrays import FloatArray

# The lower plane may lack this much of what beta asks of it: samples that are beyond their boxes ask for less in them.
SURPLUS = 1.1
# Each sample is regressed on so many neighbours, and at most so many products with K are
# made, until scores of 1 are off by no more than this on average: the gap is then some 1e-3 of the objective, or less.
NEIGHBOURS = 64
PRODUCTS = 60
LEVEL = 2e-5


def equal_scores(dual: Dual, K: Blocks) -> Point | None:
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
