"""What a fit says where a row infinitely far from all training samples would be accepted, or nearly.

Every fit compares its planes with the limit of its score infinitely far away (`Kernel.far_score`):

- A local kernel (RBF) falls to 0, and the limit is the score of a row unlike all samples. It is kept outside, by moving
  the plane that faces it, and what that costs is said.
- A kernel that levels off (intersection, chi2) has a finite limit, and samples score on both sides of it. One that
  grows (Hellinger) has an infinite one, accepted where there is no upper plane. Planes are left where they are.
- Nystroem's map of a local kernel takes rows far away to zero, which is kept outside as the kernel's limit is.
- A linear kernel has another limit in each direction, and nothing is known of a function or matrix of the user's. The
  row whose kernel values are all 0 takes the far row's place: none is less like the samples.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slabsvm.fitted.model import Solved, Unseen
from slabsvm.runtime.arrays import FloatArray

# The number of samples, the first in their random order, that are checked for others that reach them.
CHECKED = 1000
# Lengths k(x, x) that differ by less than this share are one length.
SAME_LENGTH = 1e-6


def planes_outside(
    solved: Solved,
    unseen: Unseen,
    offsets: FloatArray,
    rounding: float,
    *,
    far_score: Callable[[], float | None],
    kernel: object,
    remedy: str,
) -> tuple[str, FloatArray]:
    """Return the warning where a row infinitely far away would be accepted, or nothing, and the offsets to set, (P,).

    The given offsets are quantiles of unseen, and planes are moved outwards by rounding. far_score returns the limit of
    s(x) as all features of x grow alike; None where it is unknown, or decides nothing. kernel is the parameter, for the
    text, and remedy what makes more samples alike.
    """
    dual, scores, weights = solved.dual, unseen.scores, unseen.weights
    if solved.kernel is None or not solved.kernel.local:

        def accepted(score: float) -> bool:
            return bool(dual.accepts(np.array([score]), offsets, rounding)[0])

        if not dual.linear.any() and accepted(0.0):
            return unlike_all(float(weights @ (dual.side * scores <= rounding) / weights.sum())), offsets
        far, lengths = far_score(), solved.gram.diagonal
        # Among rows of one length none is far from the others.
        if far is None or np.ptp(lengths) <= SAME_LENGTH * np.max(lengths) or not accepted(far):
            return "", offsets
        return _beyond_all(far, kernel), offsets
    kept = dual.outside_zero(offsets, 2 * rounding)
    if (kept == offsets).all():
        return "", kept
    some = unseen.some(CHECKED)
    shares = weights[some]
    reached = dual.side * solved.scores_of_others(unseen, some) > rounding
    within = dual.accepts(dual.outside_zero(scores[some], 2 * rounding), kept, rounding)
    warning_text = unreached(
        alone=float(np.average(~reached, weights=shares)),
        expected=float(np.average(reached & within, weights=shares)),
        nominal=1.0 - float(dual.nus.sum()),
        remedy=remedy,
    )
    return warning_text, kept


def unreached(alone: float, expected: float, nominal: float, remedy: str) -> str:
    """Return the warning where a threshold is kept above the limit, which this share of samples scores when alone."""
    return (
        f"{alone:.0%} of the training samples are out of the kernel's reach of all others: their leave-one-out score "
        f"is that of a row infinitely far away. Such rows are never accepted. Expect {expected:.0%} of new positives "
        f"to be accepted, where nu asks for {nominal:.0%}. Use {remedy}, or scale the features, for example with "
        "StandardScaler."
    )


def unlike_all(alone: float) -> str:
    """Return the warning where a row whose kernel values are all 0 is accepted, as this share of samples is not."""
    return (
        "A row whose kernel values with all training samples are 0 is accepted. If the kernel falls off with "
        f"distance, every row far away is such a row. {alone:.0%} of the training samples score no more than it by "
        "leave-one-out. Use a kernel that falls off more slowly, more samples, or kernel='rbf', which keeps such "
        "rows outside."
    )


def _beyond_all(far_score: float, kernel: object) -> str:
    """Return the warning where rows larger than all samples in every feature are accepted."""
    return (
        f"Rows that exceed the training rows in every feature are accepted, however far away: in the limit they score "
        f"{far_score:.4g} (kernel={kernel!r}). Use kernel='rbf' or SVDD, which reject rows far away. Or scale each row "
        "to the same sum, as in histograms."
    )
