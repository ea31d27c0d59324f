"""Which rows are out of a kernel model's reach, and which of those are farther away.

With the RBF kernel k(x, z) = exp(-gamma |x - z|^2), a row far from all training rows has the score of one infinitely
far away, but for less than rounding: scores no longer order such rows. The logarithm of the kernel mass,

    l(x) = log sum_i |c_i| k(x, x_i),

with c_i the model's coefficients, does not underflow and still orders them. Rows are ordered by the pair (l, score),
with l = infinity for rows within reach. For a one-class SVM this is the order of the scores in exact arithmetic. For a
slab that ranks by distance from its centre it also puts rows infinitely far away below the rows beyond the upper plane,
whose scores may be lower. A slab's two-sided score falls with the mass of itself, and orders all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from slabsvm.data.checks import canonical
from slabsvm.detectors.answers import taken_by, unwrapped
from slabsvm.detectors.base import nameless, rows_of
from slabsvm.detectors.kernelized import KernelDetector
from slabsvm.fitted.model import SupportVectorModel
from slabsvm.kernels.rbf import RBF
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.sklearn_private import _safe_indexing

# A row is out of a slab's reach where its mass is less than this share of the lower plane's offset. It is out of
# any model's reach where its mass is less than this multiple of the margin for rounding in the model's thresholds.
SHARE_OF_PLANE = 1e-3
UNITS_OF_ROUNDING = 4.0
# Kernel values underflow at this many bandwidths 1/sqrt(gamma) from every training row: exp(-100^2) is 0 in float64.
BANDWIDTHS = 100.0
# The number of rows that represent infinite distance, and their distance as a multiple of the data's largest number.
N_DIRECTIONS = 8
TIMES_LARGEST = 1e6
# The largest number is taken to be this for data that are all zero.
LEAST_SIZE = 1e-30


def final_estimator(detector: Any, X: Any = None) -> tuple[Any, Any]:
    """Return the detector at the end of pipelines and searches, and rows as it receives them."""
    before, final = unwrapped(detector)
    if X is None or not before:
        return final, X
    # What overflows float64 is as far out as that goes.
    with np.errstate(over="ignore", invalid="ignore"):
        rows = taken_by(before, X)
    values = rows.data if sp.issparse(rows) else rows
    if isinstance(values, np.ndarray) and values.dtype.kind == "f" and np.isinf(values).any():
        np.clip(values, -np.finfo(values.dtype).max, np.finfo(values.dtype).max, out=values)
    return final, rows


def needs_reach(detector: Any) -> bool:
    """Return whether scores alone do not order rows out of the detector's reach: a slab's fall with the mass."""
    model, _ = final_estimator(detector)
    return _has_mass(model) and not _ranks_by_mass(model)


def reach_of(detector: Any, X: Any, decisions: FloatArray) -> FloatArray:
    """Return the log kernel mass of rows out of an RBF kernel's reach, by their decisions; else infinity, (n,)."""
    reach = np.full(len(decisions), np.inf)
    model, _ = final_estimator(detector)
    if not _has_mass(model):
        return reach
    least = least_mass(model)
    # Only rows of a low score may have little mass: the mass is never less than the position along w.
    if _ranks_by_mass(model):
        score = model.planes_.two_sided
        low = decisions <= score(np.array([score.side * least]))
    else:
        low = np.abs(decisions - limit_of(model)) <= 2 * least
    some = np.flatnonzero(low)
    if len(some):
        _, rows = final_estimator(detector, _safe_indexing(X, some))
        reach[some] = _where_little(model.model_.expansion.log_mass(rows_of(model, rows)), least)
    return reach


def deciding_reach(detector: Any, X: Any, decisions: FloatArray) -> FloatArray:
    """Return `reach_of` where rows are ordered by it, and infinity where scores alone order them."""
    return reach_of(detector, X, decisions) if needs_reach(detector) else np.full(len(decisions), np.inf)


def reach_without_own(detector: Any, X: Any) -> FloatArray:
    """Return `reach_of` of the training rows, each without the model's kernel function around it, or its group's."""
    model, rows = final_estimator(detector, X)
    if not _has_mass(model):
        return np.full(len(model.loo_scores_), np.inf)
    if isinstance(model.model_, SupportVectorModel):
        every = np.ones(len(model.loo_scores_), dtype=bool)
        return _where_little(model.model_.log_mass_of_others(every), least_mass(model))
    return _where_little(model.model_.expansion.log_mass(rows_of(model, rows), own=True), least_mass(model))


def limit_of(detector: Any) -> float:
    """Return the decision_function of a row infinitely far away; -inf without an RBF kernel, or if mass ranks rows."""
    model, _ = final_estimator(detector)
    if not needs_reach(model):
        return -np.inf
    samples = model.model_.expansion.samples
    row = np.zeros((1, samples.shape[1]))
    row[0, 0] = samples[:, [0]].max() + BANDWIDTHS / np.sqrt(model.gamma_)
    return float(nameless(model).decision_function(row)[0])


def least_mass(model: Any) -> float:
    """Return the mass below which a row is out of reach."""
    plane = getattr(model, "rho_lower_", 0.0)
    return float(max(SHARE_OF_PLANE * plane, UNITS_OF_ROUNDING * model.model_.rounding))


def _has_mass(model: Any) -> bool:
    return isinstance(model, KernelDetector) and isinstance(model.model_.kernel, RBF)


def _ranks_by_mass(model: Any) -> bool:
    return hasattr(model, "planes_") and bool(model.planes_.scores_by_mass)


def _where_little(log_mass: FloatArray, least: float) -> FloatArray:
    return np.where(log_mass <= np.log(least), log_mass, np.inf)


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
    # Random directions, but for the first two.
    directions = np.random.default_rng(0).uniform(0.5, 1.0, (N_DIRECTIONS, values.shape[1]))
    directions[:2] = 1.0
    if low < 0:
        directions *= np.random.default_rng(1).choice([-1.0, 1.0], directions.shape)
        directions[:2] = [[1.0], [-1.0]]
    with np.errstate(over="ignore", invalid="ignore"):
        rows = directions * (max(-low, high, LEAST_SIZE) * TIMES_LARGEST)
    if not np.isfinite(rows).all():
        return None
    if sp.issparse(X):
        return sp.csr_array(rows)
    if hasattr(X, "iloc"):
        return type(X)(rows, columns=X.columns)
    # Polars takes columns by name.
    return type(X)(dict(zip(X.columns, rows.T, strict=True))) if hasattr(X, "columns") else rows


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
