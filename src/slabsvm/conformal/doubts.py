"""What a calibration says where it keeps its rate and yet accepts every row, or rows infinitely far away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from slabsvm.conformal.p_values import WHOLE
from slabsvm.conformal.remoteness import innermost
from slabsvm.detectors.linear_slab import LinearOneClassSlabSVM
from slabsvm.detectors.one_class_svm import OneClassSVM
from slabsvm.detectors.slab import OneClassSlabSVM

# The largest number of calibration samples that a message asks for.
MOST_SAMPLES = 1e15


class CalibrationWarning(UserWarning):
    """A calibration keeps its rate, and yet accepts every row, or rows that are far away, or tells no rows apart."""


def too_few(n_calibration: int, smallest_p_value: float, alpha: float, sides: int) -> str:
    """Return the warning where no p-value is as small as alpha."""
    needed = int(np.ceil(min(sides / alpha, MOST_SAMPLES) - WHOLE)) - 1
    return (
        f"Nothing will be rejected: with {n_calibration} calibration samples the smallest p-value is "
        f"{smallest_p_value:.3g}, and alpha is {alpha:g}. Give at least {needed} calibration samples (groups, where "
        "these were given), or a larger alpha; 'cross' and 'leave-one-out' calibrate on every row."
    )


def found_no_direction(detectors: Sequence[Any]) -> list[str]:
    """Return the warnings of those fits of some detectors that found w = 0.

    What a solver leaves of such a w is rounding, or depends on where it stopped. Scores order rows by it that are as
    exchangeable as by any other, so that the rate is kept; but which rows are rejected is chance.
    """
    models = [innermost(detector)[0] for detector in detectors]
    # A ball needs no direction: around the origin it tells near from far.
    kinds = (OneClassSlabSVM, OneClassSVM, LinearOneClassSlabSVM)
    return [model.warning_ for model in models if isinstance(model, kinds) and model.status_ == "degenerate"]


def without_direction(warned: Sequence[str], n_fits: int) -> str:
    """Return the warning where fits of the estimator, so many in all, found w = 0 and warned of it in these words."""
    fits = "The fit" if n_fits == 1 else f"{len(warned)} of {n_fits} fits"
    return (
        f"{fits} of the estimator found w = 0: by its scores rounding may decide which rows are rejected, and whether "
        f"rows infinitely far away are. The fit's own warning: {warned[0]}"
    )


def far_accepted(far_p_value: float, alpha: float) -> str:
    """Return the warning where a row infinitely far away is accepted."""
    return (
        f"Rows infinitely far away are accepted: one has the p-value {far_p_value:.3g}, and alpha is {alpha:g}. Where "
        "a score grows or levels off with distance, use two_sided=True, SVDD or the RBF kernel; where calibration "
        "scores tie at the lowest, a smoother estimator (a smaller gamma) tells them apart."
    )


def out_of_reach(share: float) -> str:
    """Return the warning where this share of the calibration samples, more than alpha, is out of reach."""
    return (
        f"{share:.0%} of the calibration samples are out of the kernel's reach: they score as if infinitely far away, "
        "and what is accepted beyond is decided by their kernel mass alone. Use a smaller gamma, or more samples."
    )
