"""Where a threshold is put, and what recall to expect of it: a quantile of scores of rows that were not learned.

This is the only place that turns such scores into offsets, expected recalls and p-values. Where scores come from (exact
left-out scores, rows that were held out, folds) it does not know, nor what kind of detector gave them.

Of n + 1 rows in random order a new one is below the k-th lowest of the others with probability k / (n + 1), and of the
n + 1 gaps between their scores it falls into each alike. With groups a new row comes from a new group, and all groups
count alike. Whole-number weights are counts of rows. Other weights say how much a row matters: rows of weights w are
worth n = (sum w)^2 / sum w^2 rows of one weight (Kish 1965).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray
from slabsvm.svm.program import weighted_quantile

# Two rows tie, and one does not.
TIED = 1.5


@dataclass(frozen=True)
class Calibration:
    """Rows that set a threshold.

    Attributes
    ----------
    rows : (p,) array of int
        Their numbers among the rows that were given.
    masses : (p,) array
        How much each counts; they sum to 1.
    effective_size : float
        How many rows of one weight say as much (Kish 1965), or the number of groups.
    groups : (p,) array of int or None
        The number of each row's group, from 0 on.
    """

    rows: IndexArray
    masses: FloatArray
    effective_size: float
    groups: IndexArray | None = None

    def by_row(self, n_rows: int) -> FloatArray:
        """Return how much each of all rows counts, (n_rows,)."""
        masses = np.zeros(n_rows)
        masses[self.rows] = self.masses
        return masses

    def quantile(self, scores: FloatArray, share: float, *, rounding: float = 0.0) -> float:
        """Return the score, of scores (p,), below which this share of the rows lies.

        Where rows tie there, to within rounding, as rows that repeat do, it is midway to the next score below: on their
        own score the least change of a row would decide.
        """
        found = weighted_quantile(scores, self.masses, share)
        if not math.isfinite(found):
            return found
        below = scores[scores < found - rounding]
        return 0.5 * (found + float(below.max())) if self.tie_at(scores, found, rounding) and len(below) else found

    def tie_at(self, scores: FloatArray, place: float, rounding: float) -> bool:
        """Return whether several rows of these scores, (p,), lie on a place, to within rounding."""
        return self.effective_size * float(self.masses @ (np.abs(scores - place) <= rounding)) >= TIED

    def expected_recall(self, within: FloatArray) -> tuple[float, float]:
        """Return the share of new rows inside all planes to expect, and its standard error.

        A plane a share f of the way from the k-th lowest score to the next has (k + f) / (n + 1) of new rows below it:
        one on a score counts that whole, and one that is midway between two scores, as a quantile is where nu n is a
        whole number, half of the gap. Where a rows lie inside P planes, (a + 1 - sum f_p) / (n + 1) of new rows do.
        Halfway in score is halfway in rank where scores are spread evenly between two neighbours; of an exponential
        tail that is off by a tenth of what f = 1 for it would be. The error is sqrt(r (1 - r) / (n + 2)), of a beta
        distribution with the mean r.

        With groups let S be the share of its own group that is beyond a row, with half of itself, and b the share
        beyond a plane of all G groups. A row of a new group is beyond the plane which the others put where the mass
        beyond it of all G + 1 is (G b + S) / (G + 1) at most, and that many rows are, with S what it is in the mean of
        rows around the plane. Of groups of one row S is 1/2, which is the law above; of groups that are all alike it is
        b, and nothing is lost. The error is that of a mean over groups.

        Parameters
        ----------
        within : (P, p) array
            How far inside each plane the rows lie; negative outside.
        """
        accepted = np.asarray((within >= 0).all(axis=0))
        if self.groups is not None:
            expected = 1.0 - sum(self._beyond(plane) for plane in within)
            count = int(self.effective_size)
            expected = min(max(expected, 0.0), 1.0)
            if count < 2:
                return expected, error_of(expected, count)
            shares = np.bincount(self.groups, self.masses * accepted, minlength=count) * count
            return expected, float(shares.std(ddof=1)) / math.sqrt(count)
        inside = self.effective_size * float(self.masses @ accepted)
        depths = sum(_depth(plane) for plane in within)
        expected = min(max(inside + 1.0 - depths, 0.0) / (self.effective_size + 1.0), 1.0)
        return expected, error_of(expected, self.effective_size)

    def p_values(self, known: FloatArray, scores: FloatArray, rounding: float = 0.0) -> FloatArray:
        """Return the share of rows, of scores known (p,), that are no more normal than new ones: (n_new,).

        The new row, or its group, counts as one more that is no more normal than itself. Scores that differ by rounding
        are one.
        """
        order = np.argsort(known, kind="stable")
        below = np.concatenate([[0.0], np.cumsum(self.masses[order])])
        at_most = below[np.searchsorted(known[order], scores + rounding, side="right")]
        return np.asarray(np.minimum((1.0 + self.effective_size * at_most) / (1.0 + self.effective_size), 1.0))

    def _beyond(self, within: FloatArray) -> float:
        """Return the share of rows of new groups that is beyond a plane, for how far inside it rows lie, (p,)."""
        assert self.groups is not None
        shares, n = self.masses, self.effective_size
        order = np.argsort(within, kind="stable")
        up_to = np.cumsum(shares[order]) - shares[order] / 2.0
        beyond = float(np.interp(0.0, within[order], up_to))
        # The share of its own group that is beyond each row: of each group, in the order of groups, and back.
        of_groups = np.lexsort((within, self.groups))
        sums = np.cumsum(shares[of_groups])
        own = np.empty_like(shares)
        own[of_groups] = (sums - self.groups[of_groups] / n - shares[of_groups] / 2.0) * n
        # On either side of the plane half of those beyond it, or of those inside where these are fewer.
        around = np.abs(up_to - beyond) <= min(beyond, 1.0 - beyond) / 2.0
        near = order[around] if around.any() else order[[np.abs(up_to - beyond).argmin()]]
        return beyond + (float(np.average(own[near], weights=shares[near])) - beyond) / (n + 1.0)


def calibration_by(
    rows: BoolArray, weights: FloatArray, names: IndexArray | None, *, counted: FloatArray | None = None
) -> Calibration:
    """Return what some rows say as calibration rows.

    Parameters
    ----------
    rows : (n,) bool array
        Which rows; those of weight 0 are left out.
    weights : (n,) array
    names : (n,) array of int or None
        The number of each row's group.
    counted : (n,) array or None
        How many rows each stands for, where weights are whole numbers.
    """
    some = np.flatnonzero(rows & (weights > 0))
    kept = weights[some]
    masses = kept / kept.sum()
    if names is None:
        effective_size = 1.0 / float(masses @ masses) if counted is None else float(counted[some].sum())
        return Calibration(some, masses, effective_size)
    _, numbers = np.unique(names[some], return_inverse=True)
    of_groups = np.bincount(numbers, kept)
    return Calibration(some, kept / of_groups[numbers] / len(of_groups), float(len(of_groups)), numbers)


def least_recall(share: float, n: float) -> tuple[float, float]:
    """Return the recall to expect at least of a threshold that accepts a share of n rows, and its standard error."""
    expected = share * n / (n + 1)
    return expected, error_of(expected, n)


def error_of(expected: float, n: float) -> float:
    """Return the standard error of a recall that n rows in random order say."""
    return math.sqrt(expected * max(1.0 - expected, 0.0) / (n + 2))


def _depth(within: FloatArray) -> float:
    """Return how far a plane is on the way from the nearest row outside to the nearest inside, from 0 to 1.

    1 where there are none on a side: nothing says how far beyond all rows new ones lie.
    """
    outside, inside = within[within < 0], within[within >= 0]
    if not len(outside) or not len(inside):
        return 1.0
    gap = -float(outside.max())
    return gap / (gap + float(inside.min()))
