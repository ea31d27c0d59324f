"""Rows out of the reach of an RBF kernel, and rows infinitely far away.

With k(x, z) = exp(-gamma |x - z|^2), a row far from all training rows has the score of one infinitely far away, but for
less than rounding: scores no longer order such rows. The logarithm of the kernel mass,

    l(x) = log sum_i |c_i| k(x, x_i),

with c_i the model's coefficients, still orders them. So l(x) takes the place of their score, less a number that puts
them below all rows within reach. A slab's two-sided score falls with the mass of itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from slabsvm.data.checks import canonical, framed
from slabsvm.detectors.answers import answer, detector_and_rows
from slabsvm.detectors.base import rows_of, without_names
from slabsvm.detectors.kernelized import KernelDetector
from slabsvm.fitted.planes import OUT_OF_REACH
from slabsvm.kernels.named import RBF
from slabsvm.runtime.arrays import BoolArray, FloatArray
from slabsvm.runtime.estimators import _safe_indexing

# What is added to the log mass of rows out of reach. Decisions of rows within reach are of the size of 1.
BEYOND = -1e6


def ordered(detector: Any, X: Any) -> tuple[FloatArray, BoolArray]:
    """Return how normal a detector holds each row, (n,), in an order to infinity, and which are out of its reach."""
    values = answer(detector, X).values
    model, _ = detector_and_rows(detector)
    if not _has_mass(model):
        return values, np.zeros(len(values), dtype=bool)
    least = least_mass(model)
    if falls_with_mass(model):
        score = model.planes_.two_sided
        return values, values <= score(np.array([score.side * least]))
    # Only rows of a low score may have little mass: the mass is never less than the position along w.
    some = np.flatnonzero(np.abs(values - limit_of(model)) <= 2 * least)
    values, is_far = values.copy(), np.zeros(len(values), dtype=bool)
    if len(some):
        _, rows = detector_and_rows(detector, _safe_indexing(X, some))
        log_mass = model.model_.expansion.log_mass(rows_of(model, rows))
        is_far[some] = log_mass <= np.log(least)
        values[some] = np.where(is_far[some], BEYOND + log_mass, values[some])
    return values, is_far


def limit_of(detector: Any) -> float:
    """Return the decision_function of a row infinitely far away, or -inf where nothing takes its place."""
    model, _ = detector_and_rows(detector)
    if not needs_mass(model):
        return -np.inf
    samples = model.model_.expansion.samples
    row = np.zeros((1, samples.shape[1]))
    # At 100 bandwidths kernel values underflow: exp(-100^2) is 0 in float64. With a gamma of 0 all rows are alike.
    row[0, 0] = samples[:, [0]].max() + (100.0 / np.sqrt(model.gamma_) if model.gamma_ > 0 else 0.0)
    return float(without_names(model).decision_function(row)[0])


def needs_mass(model: Any) -> bool:
    """Return whether scores alone do not order rows out of the model's reach."""
    return _has_mass(model) and not falls_with_mass(model)


def least_mass(model: Any) -> float:
    """Return the mass below which a row is out of reach: a share of a slab's lower plane, or 4 units of rounding."""
    plane = getattr(model, "rho_lower_", 0.0)
    return float(max(OUT_OF_REACH * plane, 4.0 * model.model_.rounding))


def falls_with_mass(model: Any) -> bool:
    """Return whether the model's score beyond its planes falls with the kernel mass."""
    return hasattr(model, "planes_") and bool(model.planes_.scores_by_mass)


def _has_mass(model: Any) -> bool:
    return isinstance(model, KernelDetector) and isinstance(model.model_.kernel, RBF)


def far_rows(X: Any, *, pairwise: bool = False) -> Any:
    """Return a few rows like those of X and infinitely far from all of them, or None where they cannot be made.

    X is a table of numbers, dense, CSR or a frame; if it has no negative number, the far rows have none. Where it holds
    kernel values with the training rows (pairwise), those of a far row are 0.
    """
    if pairwise:
        return np.zeros((1, np.shape(X)[1]))
    # Extremes of a CSR matrix sum its duplicates in place.
    values = canonical(sp.csr_array(X)) if sp.issparse(X) else np.asarray(X)
    if values.ndim != 2 or values.dtype.kind not in "fiu" or not values.shape[0]:
        return None
    low, high = float(values.min()), float(values.max())
    # Eight random directions, but for the first two.
    directions = np.random.default_rng(0).uniform(0.5, 1.0, (8, values.shape[1]))
    directions[:2] = 1.0
    if low < 0:
        directions *= np.random.default_rng(1).choice([-1.0, 1.0], directions.shape)
        directions[:2] = [[1.0], [-1.0]]
    with np.errstate(over="ignore", invalid="ignore"):
        # A million times as far as the largest number, for which 1e-30 stands where all are zero.
        rows = directions * (max(-low, high, 1e-30) * 1e6)
    if not np.isfinite(rows).all():
        return None
    return sp.csr_array(rows) if sp.issparse(X) else framed(rows, X)


def largest_answer(method: Callable[[Any], FloatArray], rows: Any) -> float:
    """Return the largest value of a detector's method at rows far from all others; NaN where there are none."""
    if rows is None:
        return np.nan
    try:
        with np.errstate(all="ignore"):
            return float(np.max(method(rows)))
    except (ValueError, TypeError, ArithmeticError, Warning):
        # A detector that refuses such rows accepts none of them.
        return np.nan
