"""The multipliers that give every sample the same score: the optimum of a slab that has collapsed, or near it.

If beta = c K^-1 1 fits within the boxes, all scores are equal, and no pair of multipliers can improve: beta is optimal.
That happens when K is close to the identity. There K is well conditioned, so that conjugate gradients need few products
with K, while a descent needs many steps for each sample. If a few coefficients leave their boxes, beta is a start.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from slabsvm.dual.program import Dual
from slabsvm.runtime.arrays import FloatArray

# A start needs no more products: further ones cost more than the steps that they save.
MAX_PRODUCTS = 20
TOL = 1e-4
# If PROBE products leave a residual above this share of the right-hand side, K is too ill-conditioned.
PROBE = 8
HOPELESS = 0.2


def equal_score_multipliers(dual: Dual, K: npt.NDArray[np.floating[Any]]) -> FloatArray | None:
    """Return feasible multipliers, shape (P, m), near those of equal scores; None where K is too ill-conditioned.

    Parameters
    ----------
    dual : Dual
        With the linear term zero; otherwise the result is feasible, and its scores are not equal.
    K : (m, m) array
    """
    beta = _conjugate_gradients(K)
    if beta is None:
        return None
    total = float(dual.signs @ dual.totals)
    if beta.sum() != 0:
        beta *= total / beta.sum()
    signed = dual.signs[:, None] * beta
    multipliers = np.clip(signed, 0.0, dual.caps)
    if dual.n_planes > 1:
        # Equal additions to both planes cancel in beta: they are made, where there is room, until the sums are right.
        spare = (dual.caps - multipliers).min(axis=0)
        missing = float(dual.totals[0] - multipliers[0].sum())
        if 0 < missing < spare.sum():
            multipliers += spare * (missing / spare.sum())
    return dual.project_sums(multipliers)


def _conjugate_gradients(K: npt.NDArray[np.floating[Any]]) -> FloatArray | None:
    """Return x with K x = 1 nearly, shape (m,); None where a few products show that it would take too many."""
    residual = np.ones(len(K), dtype=K.dtype)
    x = np.zeros_like(residual)
    direction = residual.copy()
    square = float(residual @ residual)
    enough, hopeless = TOL**2 * square, HOPELESS**2 * square
    for count in range(MAX_PRODUCTS):
        if count == PROBE and square > hopeless:
            return None
        image = direction @ K
        curvature = float(direction @ image)
        if curvature <= 0:
            break
        length = square / curvature
        x += length * direction
        residual -= length * image
        previous, square = square, float(residual @ residual)
        if square <= enough:
            break
        direction = residual + (square / previous) * direction
    return x.astype(np.float64)
