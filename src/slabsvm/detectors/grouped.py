"""The abstract detector that takes groups of rows, and answers for rows of new groups."""

from __future__ import annotations

from typing import Any, Self

from slabsvm.detectors.base import Detector
from slabsvm.runtime.atomic import atomic
from slabsvm.runtime.sklearn_private import _fit_context


class GroupedDetector(Detector):
    """A detector that leaves whole groups out where its thresholds are put."""

    @atomic
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Learn from positive samples.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            float32 or float64; other types become float64. With kernel="precomputed" the symmetric matrix of kernel
            values, of shape (n_samples, n_samples).
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative; a weight of 2 means what two identical samples mean, and a weight of 0 leaves the sample out.
            Only the ratios of weights count (but for SVDD's C, which is a bound for a weight of 1). Whole multiples of
            the least weight are counts, and `AutoSlabSVM`, neighbours and dependences expect new rows to repeat the
            samples as often: where such weights say how much a sample matters, rows that repeat none are rejected too
            often, and `ConformalDetector` puts the threshold by rows that were held out.
        groups : array-like of shape (n_samples,), default=None
            The name of each row's group, such as its patient, machine or video; numbers or words, none missing. Give
            them where new rows come from new groups, of which all rows are alike. Thresholds are then put by what rows
            score under the model without all of their group: the share of rows *of new groups* that is accepted is
            near what nu asks for. All groups count alike there, however many rows they have, and rows within a group
            by their weights; what the model learns from is its rows, as without groups. gamma="neighbours" looks at
            neighbours of other groups. A row that several groups have stays when one of them is left out.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For parameters, shapes or values that make no sense, and where all rows are of one group; the text says what
            to do. After this or any other exception, an interrupt among them, the model is what it was.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            When a solver stopped before its duality gap was within tol.
        slabsvm.SlabCollapseWarning
            When the model has no width, when a row infinitely far away would be accepted or is kept outside at the
            cost of new positives, when offsets="training" will reject far more new positives than the parameters ask
            for, when many rows repeat and far more or fewer of those are accepted, when a few rows make the scale of a
            feature, when a slab rejects the rows that it learned, when samples are few by number or by their uneven
            weights, or when copies are most of them. The text stays in `warning_`.
        """
        del y
        return self._fit(X, sample_weight, groups)
