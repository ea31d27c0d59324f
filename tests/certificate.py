"""What a solution claims, recomputed from K and the multipliers alone, by formulas as naive as they come."""

import math
from typing import Any

import numpy as np


def scores(dual: Any, K: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
    """Return s = K beta + c, in extended precision."""
    beta = sum(sign * row for sign, row in zip(dual.signs, multipliers.astype(np.longdouble), strict=True))
    return K.astype(np.longdouble) @ beta + dual.linear


def objective(dual: Any, K: np.ndarray, multipliers: np.ndarray) -> float:
    """1/2 beta'K beta + c'beta."""
    beta = sum(sign * row for sign, row in zip(dual.signs, multipliers.astype(np.longdouble), strict=True))
    return float(0.5 * beta @ (K.astype(np.longdouble) @ beta) + dual.linear @ beta)


def gap(dual: Any, K: np.ndarray, multipliers: np.ndarray) -> float:
    """How much the linearised objective could still fall within the boxes: the duality gap (Frank and Wolfe).

    Plane p contributes <v_p, sigma_p s> less the least such product, which puts all mass on the lowest sigma_p s.
    """
    total = 0.0
    s = scores(dual, K, multipliers)
    for sign, row, upper_bounds, mass in zip(dual.signs, multipliers, dual.upper_bounds, dual.totals, strict=True):
        slopes = sign * s
        lowest = np.zeros_like(row)
        left = float(mass)
        for i in np.argsort(slopes, kind="stable"):
            lowest[i] = min(upper_bounds[i], left)
            left -= lowest[i]
        # Sums of row and lowest agree only up to rounding; with slopes taken from their middle, that does not matter.
        differences = (row - lowest) * (slopes - np.median(slopes))
        total += math.fsum(float(term) for term in differences)
    return total


def scale(dual: Any, K: np.ndarray) -> float:
    """The largest objective that the boxes allow; what rounding errors are proportional to."""
    return float(np.diagonal(K).mean()) * float(dual.totals.sum()) ** 2


def lowest_mean(values: np.ndarray, shares: np.ndarray, nu: float) -> Any:
    """Return the mean of the share nu of values that is lowest, the last of them counted in part."""
    order = np.argsort(values, kind="stable")
    before = np.cumsum(shares[order]) - shares[order]
    return np.clip(nu - before, 0.0, shares[order]) @ values[order] / nu
