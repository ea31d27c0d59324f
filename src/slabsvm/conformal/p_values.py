"""Conformal p-values from scores, and novelties of a batch from p-values: arithmetic on arrays.

Let c_1, ..., c_n be the scores of positives that a detector has not learned (larger is more normal). A new sample of
score s gets

    p = (1 + #{i: c_i <= s}) / (n + 1).

If the held-out positives and the new one are exchangeable, P(p <= alpha) <= alpha for every alpha, whatever the data
and the model (Vovk, Gammerman, Shafer 2005). Seen from both sides, with p' = (1 + #{i: c_i >= s}) / (n + 1), the
p-value is min(1, 2 min(p, p')): a score that is too high is then as strange as one that is too low.

p-values are steps of 1/(n + 1), and all strangers may share the lowest. A *graded* p-value tells them apart: it lies
between p - 1/(n + 1) and p, by where s lies between its neighbours among the c_i.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slabsvm.detectors.base import ROUNDING_UNITS
from slabsvm.dual.program import FloatArray

Counts = npt.NDArray[np.intp]

# alpha (n + 1) is a whole number in decimals where it is one to within this.
WHOLE = 1e-9
# A share of a step stays below the next step.
LARGEST_SHARE = 1.0 - 1e-9


def conformal_p_values(calibration_scores: Any, scores: Any, *, two_sided: bool = False) -> FloatArray:
    """Return the p-value of each score, given those of positives that the detector has not learned.

    Parameters
    ----------
    calibration_scores : array-like of shape (n_calibration,)
        Larger is more normal.
    scores : array-like of shape (n_samples,)
        Of new samples, by the same detector.
    two_sided : bool, default=False
        Whether a score that is too high is as strange as one that is too low.

    Returns
    -------
    p_values : (n_samples,) array of float64, in (0, 1]

    Raises
    ------
    ValueError
        For NaN, or no calibration scores.

    References
    ----------
    V. Vovk, A. Gammerman, G. Shafer, "Algorithmic Learning in a Random World", 2005, chapter 2. S. Bates, E. Candes,
    L. Lei, Y. Romano, M. Sesia, "Testing for outliers with conformal p-values", Annals of Statistics 51, 2023.
    """
    ordered, asked = in_order(calibration_scores), np.asarray(scores, dtype=np.float64).reshape(-1)
    return combined([tail_of(ordered, asked)], [tail_of(-ordered[::-1], -asked)], len(ordered), two_sided)


def benjamini_hochberg(p_values: Any, fdr: float = 0.1) -> npt.NDArray[np.bool_]:
    """Return which of a batch are novelties, such that of those named, a share of at most fdr is false on average.

    The procedure of Benjamini and Hochberg: with p_(1) <= ... <= p_(n), the smallest k are named, k being the largest
    with p_(k) <= fdr k / n. Conformal p-values of one split are dependent, and it holds for them (Bates et al. 2023
    show it).

    Parameters
    ----------
    p_values : array-like of shape (n_samples,)
    fdr : float in (0, 1), default=0.1

    Raises
    ------
    ValueError
        For an fdr outside (0, 1), or values outside [0, 1].

    References
    ----------
    Y. Benjamini, Y. Hochberg, "Controlling the false discovery rate", J. Royal Statistical Society B 57, 1995. Bates et
    al. 2023, as in `conformal_p_values`.
    """
    values = np.asarray(p_values, dtype=np.float64).reshape(-1)
    if not 0 < fdr < 1:
        raise ValueError(f"fdr must be a share between 0 and 1, got {fdr:g}; .1 means that one in ten may be false.")
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("p-values must lie between 0 and 1, and none may be NaN.")
    count = len(values)
    ordered = np.sort(values)
    allowed = fdr * np.arange(1, count + 1) / max(count, 1)
    held = np.flatnonzero(ordered <= allowed * (1 + WHOLE))
    return values <= (ordered[held[-1]] if len(held) else -1.0)


@dataclass(frozen=True)
class Tail:
    """Where new scores stand among those of held-out positives, counted from one end.

    Attributes
    ----------
    passed : (n,) array of int
        How many held-out scores a new one has reached or passed.
    share : (n,) array in [0, 1)
        How far it is on its way to the next one; beyond the last, how near to infinity.
    """

    passed: Counts
    share: FloatArray


def in_order(scores: Any) -> FloatArray:
    """Return calibration scores in increasing order, shape (n,); refuse none and NaN."""
    values = np.sort(np.asarray(scores, dtype=np.float64).reshape(-1))
    if len(values) == 0:
        raise ValueError("There are no calibration scores; give those of at least one held-out positive.")
    if np.isnan(values[-1]):
        raise ValueError(
            "A calibration score is NaN: the detector cannot score its own positives. Check its parameters."
        )
    return values


def tail_of(ordered: FloatArray, scores: FloatArray) -> Tail:
    """Return where scores stand among calibration scores in increasing order, counted from the lowest.

    A score that equals one of them but for rounding has reached it.
    """
    if np.isnan(scores).any():
        raise ValueError("A score is NaN: the detector cannot score these samples.")
    finite = ordered[np.isfinite(ordered)]
    # Of a score and a usual one: by the largest, one sample far out would make all others equal.
    size = np.maximum(
        np.where(np.isfinite(scores), np.abs(scores), 0.0), np.median(np.abs(finite)) if len(finite) else 0.0
    )
    scores = scores + ROUNDING_UNITS * float(np.finfo(np.float64).eps) * size
    passed = np.searchsorted(ordered, scores, side="right")
    below, above = ordered[np.maximum(passed - 1, 0)], ordered[np.minimum(passed, len(ordered) - 1)]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        unit = float(np.std(finite)) if len(finite) > 1 else 0.0
        # Where the calibration scores do not tell how far is far, all that is beyond them is.
        unit = unit if 0 < unit < np.inf else float(np.finfo(np.float64).tiny)
        share = np.where(
            passed == len(ordered), 1.0 - 1.0 / (1.0 + (scores - below) / unit), (scores - below) / (above - below)
        )
        share = np.where(passed == 0, 1.0 / (1.0 + (above - scores) / unit), share)
    return Tail(passed, np.clip(np.nan_to_num(share, nan=0.0), 0.0, LARGEST_SHARE))


def combined(lower: Sequence[Tail], upper: Sequence[Tail], count: int, two_sided: bool) -> FloatArray:
    """Return the p-values that the tails of one or several detectors make, with `count` calibration scores in all."""
    p: FloatArray = (1 + _passed(lower)) / (count + 1)
    return np.minimum(1.0, 2.0 * np.minimum(p, (1 + _passed(upper)) / (count + 1))) if two_sided else p


def _passed(tails: Sequence[Tail]) -> Counts:
    return np.asarray(np.sum([tail.passed for tail in tails], axis=0))


def graded(tails: Sequence[Tail]) -> FloatArray:
    """Return how many calibration scores were passed, and how far it is to the next: between two whole numbers."""
    return np.asarray(_passed(tails) + np.mean([tail.share for tail in tails], axis=0))
