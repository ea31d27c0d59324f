"""An independent reference: the Dual over all P m variables, as Clarabel (an interior-point conic solver) sees it.

Nothing of slabsvm's algebra is used but the numbers that state the problem: signs, caps, totals and the linear term.
"""

from dataclasses import dataclass
from typing import Any

import clarabel
import numpy as np
import scipy.sparse as sp

import certificate

# Nothing here can be reached by accident: Clarabel runs until it makes no more progress.
TIGHT = 1e-14
# Clarabel's regularisation and the share of the way to the boundary that it goes; its own defaults first fail on
# problems with few free variables. They are tried in turn until Clarabel's own point has a small enough gap.
SETTINGS = ((1e-16, 0.9), (1e-14, 0.9), (1e-15, 0.9), (1e-14, 0.8), (1e-12, 0.9), (1e-8, 0.99))
SMALL_ENOUGH = 1e-10


@dataclass(frozen=True)
class Reference:
    """The objective, its duality gap, the multipliers (P, m), and the offsets (P,): the equality rows' multipliers."""

    objective: float
    gap: float
    multipliers: np.ndarray
    offsets: np.ndarray


def solve(dual: Any, K: np.ndarray) -> Reference:
    """Minimise 1/2 beta'K beta + c'beta; posed twice, since its scale is known only after the first time."""
    # Ones over the unit below are finite, too: NumPy 1.26 fills vectors up with them where it divides.
    largest = certificate.scale(dual, K) + float(np.abs(dual.linear).max()) + 1e-290
    best = _solve(dual, K, largest, *SETTINGS[0])
    for settings in SETTINGS:
        found = _solve(dual, K, max(abs(best.objective), 1e-14 * largest), *settings)
        best = min(best, found, key=lambda reference: reference.gap)
        if best.gap <= SMALL_ENOUGH * abs(best.objective):
            break
    return best


def _solve(dual: Any, K: np.ndarray, size: float, regularisation: float, fraction: float) -> Reference:
    """Solve with the objective in units of size, and the multipliers of a plane in units of its mean cap.

    As 1/2 |t|^2 + c'beta with t = R beta and K = R'R: an objective far below K's size keeps its relative precision.
    """
    n_planes, m = dual.caps.shape
    n = n_planes * m
    units = np.repeat(dual.caps.mean(axis=1), m)
    signs = np.repeat(dual.signs, m) * units
    eigenvalues, vectors = np.linalg.eigh(K / size)
    kept = eigenvalues > 1e-15 * max(eigenvalues.max(), 0.0)
    root = (vectors[:, kept] * np.sqrt(eigenvalues[kept])).T
    r = len(root)
    eye, sums = sp.eye_array(n, format="csc"), np.repeat(np.eye(n_planes), m, axis=1)
    rows = sp.block_array(
        [
            [sp.csc_array(sums), None],
            [sp.csc_array(np.tile(root, (1, n_planes)) * signs) if r else None, -sp.eye_array(r) if r else None],
            [-eye, None],
            [eye, None if r else sp.csc_array((n, 0))],
        ],
        format="csc",
    )
    right = np.concatenate([dual.totals * m / dual.caps.sum(axis=1), np.zeros(r + n), (dual.caps.ravel() / units)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.equilibrate_enable = False
    settings.static_regularization_constant = regularisation
    settings.max_step_fraction = fraction
    settings.min_terminate_step_length = 1e-10
    for name in ("tol_gap_abs", "tol_gap_rel", "tol_feas"):
        setattr(settings, name, TIGHT)
    solver = clarabel.DefaultSolver(
        sp.block_diag([sp.csc_array((n, n)), sp.eye_array(r)], format="csc"),
        np.concatenate([np.tile(dual.linear / size, n_planes) * signs, np.zeros(r)]),
        rows,
        right,
        [clarabel.ZeroConeT(n_planes + r), clarabel.NonnegativeConeT(2 * n)],
        settings,
    )
    answer = solver.solve()
    multipliers = np.nan_to_num((np.array(answer.x[:n]) * units).reshape(n_planes, m))
    multipliers = _feasible(dual, multipliers)
    # sigma_p s is the multiplier of plane p's sum on the plane; the rows above are in units of the mean cap.
    offsets = -dual.signs * np.array(answer.z[:n_planes]) * size / dual.caps.mean(axis=1)
    return Reference(
        certificate.objective(dual, K, multipliers), certificate.gap(dual, K, multipliers), multipliers, offsets
    )


def _feasible(dual: Any, multipliers: np.ndarray) -> np.ndarray:
    """Clarabel's point is feasible to its tolerance; shift each row, within its boxes, until its sum is right."""
    fixed = np.empty_like(multipliers)
    for row, caps, total, out in zip(multipliers, dual.caps, dual.totals, fixed, strict=True):
        high = caps.max() + np.abs(row).max()
        low = -high
        for _ in range(120):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if np.clip(row + middle, 0, caps).sum() < total else (low, middle)
        out[:] = np.clip(row + high, 0, caps)
    return fixed
