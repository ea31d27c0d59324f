"""How many of some rows are strangers, by their p-values: what can be known of it, and how surely.

Let n positives calibrate, with scores of the distribution function F, and let m rows be a mixture: a share pi of
strangers, and positives besides. At each threshold the share G of the rows below it is at most (1 - pi) F + pi, so that

    pi >= (G - F) / (1 - F).

That is all that is identifiable: strangers who score as positives do leave no trace, and a share larger than pi may
explain the same rows. F at the k-th lowest calibration score is no larger than a Beta(k, n + 1 - k) variable, and the
number of rows below it is binomial given the calibration, so that an upper bound of the one and a lower bound of the
other (Clopper and Pearson 1934), each at a confidence shared among all k = 1, 2, 4, ..., make a lower bound of pi that
holds for any distribution and any number of rows (in the manner of Meinshausen and Rice, Annals of Statistics 34,
2006).

Strangers among the calibration rows, if they score no higher than positives do, make F larger than the positives', so
that the bound still holds, and p-values too: P(p <= alpha) <= alpha for new positives, with less power (Bashari, Sesia,
Romano, "Robust conformal outlier detection under contaminated reference data", arXiv 2502.04807).

How many of the rows that a detector was calibrated *by* are strangers, those rows cannot say: their own p-values are
even by construction. It takes some rows that are known to be good.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta

from slabsvm.conformal.p_values import WHOLE

# The estimate is by the rows above this p-value, where positives are most of them (Storey 2002).
STOREY = 0.5


@dataclass(frozen=True)
class Contamination:
    """The share of strangers among some rows.

    Attributes
    ----------
    least : float
        A lower bound at the confidence asked for. There is no upper one: strangers may score as positives do.
    estimate : float
        What p-values above one half say (Storey 2002): unbiased where no stranger has such a p-value, and too small
        where some have.
    """

    least: float
    estimate: float


def contamination(p_values: Any, n_calibration: int, *, confidence: float = 0.95) -> Contamination:
    """Return what p-values of rows say of the share of strangers among them.

    Parameters
    ----------
    p_values : array-like of shape (n_samples,)
        One-sided, of `ConformalDetector` with method="split" or "prefit", of rows that are drawn independently. Single
        rows have calibrated, without groups or weights: only then is F at the k-th lowest of them a Beta variable.
    n_calibration : int
        `n_calibration_`: how many rows, all of them positives, have calibrated. Strangers among them, where they score
        no higher than positives, make the bound smaller, and no less right.
    confidence : float in (0, 1), default=0.95
        The probability with which the share is no less than `least`, at least.

    Returns
    -------
    Contamination

    Raises
    ------
    ValueError
        For numbers that are no p-values of so many calibration rows.

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import ConformalDetector, contamination
    >>> rng = np.random.default_rng(0)
    >>> detector = ConformalDetector().fit(rng.normal(size=(1000, 2)))
    >>> mixed = np.concatenate([rng.normal(size=(400, 2)), rng.normal(6.0, 1.0, size=(100, 2))])
    >>> found = contamination(detector.p_values(mixed), detector.n_calibration_)
    >>> bool(0.1 < found.least <= 0.2)
    True
    """
    values = np.asarray(p_values, dtype=np.float64).reshape(-1)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence!r}.")
    if not 1 <= n_calibration < np.inf or not len(values):
        raise ValueError("Give the p-values of at least one row, and the number of calibration rows, at least one.")
    if not ((values > 0) & (values <= 1)).all():
        raise ValueError("p-values must lie above 0 and up to 1; predict's answers and scores are none.")
    n, m = int(n_calibration), len(values)
    # A row has p <= k / (n + 1) if and only if it scores below the k-th lowest calibration score.
    ranks = 2 ** np.arange(int(np.log2(n)) + 1)
    error = (1.0 - confidence) / (2 * len(ranks))
    below = (values[:, None] * (n + 1) <= ranks * (1.0 + WHOLE)).sum(axis=0)
    least_share = np.where(below > 0, beta.ppf(error, np.maximum(below, 1), m - below + 1), 0.0)
    most_of_positives = beta.ppf(1.0 - error, ranks, n + 1 - ranks)
    room = np.maximum(1.0 - most_of_positives, np.finfo(np.float64).tiny)
    least = float(np.max((least_share - most_of_positives) / room, initial=0.0))
    good = float((values > STOREY).mean()) / (1.0 - STOREY)
    return Contamination(least, max(1.0 - good, 0.0))
