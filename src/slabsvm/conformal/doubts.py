"""What a calibration says where it keeps its rate and yet accepts every row, or rows infinitely far away."""

from __future__ import annotations

import numpy as np

from slabsvm.conformal.p_values import WHOLE

# The largest number of calibration samples that a message asks for.
MOST_SAMPLES = 1e15


class CalibrationWarning(UserWarning):
    """A calibration keeps its rate, and yet accepts every row, having too few of them, or rows that are far away."""


def too_few(n_calibration: int, smallest_p_value: float, alpha: float, sides: int) -> str:
    """Return the warning where no p-value is as small as alpha."""
    needed = int(np.ceil(min(sides / alpha, MOST_SAMPLES) - WHOLE)) - 1
    return (
        f"Nothing will be rejected: with {n_calibration} calibration samples the smallest p-value is "
        f"{smallest_p_value:.3g}, and alpha is {alpha:g}. Give at least {needed} calibration samples, or a larger "
        "alpha; 'cross' and 'leave-one-out' calibrate on every row."
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
