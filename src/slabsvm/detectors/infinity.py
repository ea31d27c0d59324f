"""What a fit says where a row infinitely far from all training samples would be accepted, or nearly.

Every fit asks for the limit of its score infinitely far away (`Kernel.far_score`), and whether its planes accept it:

- A local kernel (RBF) falls to 0, and the limit is the score of a row unlike all samples. It is kept outside, by moving
  the plane that faces it, and what that costs is said.
- A kernel that levels off (intersection, chi2) has a finite limit, and samples score on both sides of it. One that
  grows (Hellinger) has an infinite one, accepted where there is no upper plane. Planes are left where they are.
- A linear kernel has another limit in each direction, and of a function or matrix of the user's nothing is known. What
  can be asked is whether a row whose kernel values are all 0 is accepted, as unlike the samples as it is.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# Lengths k(x, x) that differ by less than this share are one length.
SAME_LENGTH = 1e-6


def of_one_length(squared_lengths: npt.NDArray[np.float64]) -> bool:
    """Return whether rows of these k(x, x), shape (n,), are equally long, so that none is far from the others."""
    return bool(np.ptp(squared_lengths) <= SAME_LENGTH * np.max(squared_lengths))


def unreached(alone: float, expected: float, nominal: float, remedy: str) -> str:
    """Return the warning where a threshold is kept above the limit, which this share of samples scores when alone."""
    return (
        f"{alone:.0%} of the training samples score, without themselves, what a row infinitely far away scores: the "
        "kernel lets no other sample reach them. Such rows are never accepted, so that the threshold lies above them, "
        f"and {expected:.0%} of new positives are expected to be accepted, where nu asks for {nominal:.0%}. Use "
        f"{remedy}, or scale the features, for example with StandardScaler."
    )


def unlike_all(alone: float) -> str:
    """Return the warning where a row whose kernel values are all 0 is accepted, as this share of samples is not."""
    return (
        "A row whose kernel values with all training samples are 0 is accepted, and with a kernel that falls off with "
        f"distance that is every row far away: {alone:.0%} of the training samples score no more without themselves. "
        "Use a kernel that falls off more slowly, more samples, or kernel='rbf', which keeps such rows outside."
    )


def beyond_all(far_score: float, kernel: object) -> str:
    """Return the warning where rows larger than all samples in every feature are accepted."""
    return (
        f"Rows that exceed the training rows in every feature, however far, score {far_score:.4g} in the limit, which "
        f"is accepted (kernel={kernel!r}). Use kernel='rbf' or SVDD, which reject rows far away, or scale each row to "
        "the same sum, as of histograms, so that none is."
    )


def zero_accepted() -> str:
    """Return the warning where a linear slab accepts the row of zeros."""
    return (
        "The row of zeros is accepted: the hyperplanes do not tell the samples from the origin, which is what a row "
        "far away becomes in some feature maps (Nystroem of an RBF kernel). Use more samples or fewer features, or a "
        "map that falls off more slowly (a smaller gamma)."
    )
