"""The arguments of fit, and which rows are learned and which are held out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from slabsvm.conformal.p_values import MOST_SAMPLES
from slabsvm.data.checks import canonical
from slabsvm.data.distinct import equal_rows, near_copies, numbered
from slabsvm.fitted.training import checked_weights, may_be_counts
from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.runtime.objects import cached_property
from slabsvm.runtime.sklearn_private import _num_samples


@dataclass(frozen=True)
class FitArguments:
    """The arguments of fit, of n rows."""

    X: Any
    parameters: Mapping[str, Any]  # parameters of the detector's fit
    weights: FloatArray  # (n,): how many calibration rows each row is; with groups, the share of its group that it is
    groups: IndexArray | None = None  # (n,), or None: the number of each row's group

    @cached_property
    def distinct(self) -> IndexArray:
        """The number of the distinct row that each is equal to, (n,), in the order in which these appear."""
        if np.iscomplexobj(self.X):
            return np.arange(len(self.weights))
        try:
            _, first, of_rows = np.unique(equal_rows(self.X), return_index=True, return_inverse=True)
        except (TypeError, ValueError):
            # Rows that cannot be compared are taken for distinct.
            return np.arange(len(self.weights))
        return np.asarray(np.argsort(np.argsort(first))[of_rows])

    @property
    def repeats(self) -> float:
        """The share of rows of positive weight that have an equal one."""
        kept = self.distinct[self.weights > 0]
        return float((np.bincount(kept)[kept] > 1).mean())

    @property
    def may_be_counts(self) -> bool:
        """Whether weights may say how often rows were seen; of tables that are no numbers, they may."""
        X, kept = self._numbers(), np.flatnonzero(self.weights > 0)
        if X is None:
            return True
        _, first, of_rows = np.unique(self.distinct[kept], return_index=True, return_inverse=True)
        return may_be_counts(np.bincount(of_rows, self.weights[kept]).astype(np.float64), X[kept[first]])

    def near_copies(self, *, pairwise: bool) -> float:
        """Return the share of distinct rows that have near copies; 0 where rows are no numbers."""
        X, kept = self._numbers(), np.flatnonzero(self.weights > 0)
        if X is None:
            return 0.0
        some = kept[np.unique(self.distinct[kept], return_index=True)[1]]
        if pairwise:
            return near_copies(X, some)
        return near_copies(canonical(X)[some] if sp.issparse(X) else X[some])

    def _numbers(self) -> Any:
        """Return the rows as an array or a CSR matrix, or None where they are no table of numbers."""
        X = sp.csr_array(self.X) if sp.issparse(self.X) else np.asarray(self.X)
        return X if X.ndim == 2 and X.dtype.kind in "fiu" else None


def fit_arguments(X: Any, groups: Any, parameters: Mapping[str, Any]) -> FitArguments:
    """Return the arguments of fit, of which weights and groups are checked; each group counts as one row."""
    weights = checked_weights(parameters.get("sample_weight"), X)
    weights = np.ones(_num_samples(X)) if weights is None else weights
    with np.errstate(over="ignore"):
        if groups is not None:
            numbers = numbered(groups, len(weights))
            of_rows = np.bincount(numbers, weights=weights)[numbers]
            shares = np.divide(weights, of_rows, out=np.zeros_like(weights), where=weights > 0)
            return FitArguments(X, {**parameters, "groups": numbers}, shares, numbers)
        if not weights.sum() <= MOST_SAMPLES:
            raise ValueError(
                f"Calibration takes sample weights as counts of rows. These add up to {weights.sum():.3g}. "
                f"Counts above {MOST_SAMPLES:.0e} are not exact. Divide the weights."
            )
    return FitArguments(X, parameters, weights)


def parted(given: FitArguments, share: float, random: np.random.RandomState) -> tuple[IndexArray, IndexArray]:
    """Return which rows of positive weight to learn, and which to hold out: a share of the distinct rows, or groups.

    Equal rows, or a group, stay together.
    """
    kept = np.flatnonzero(given.weights > 0)
    together = (given.distinct if given.groups is None else given.groups)[kept]
    # Of three distinct rows two can be learned, and one held out.
    if given.groups is None and len(np.unique(together)) < 3:
        together = np.arange(len(kept))
    units = np.unique(together)
    least, what, number = (2, "samples", "n_samples") if given.groups is None else (1, "groups", "number of groups")
    total = len(units)
    held = max(1, int(share * total))
    if total - held < least:
        raise ValueError(
            f"Cannot learn and calibrate from {number} = {total}: at least {least} {what} must be learned and 1 held "
            f"out. Give more {what}."
        )
    inside = np.isin(together, units[random.permutation(total)[:held]])
    return kept[~inside], kept[inside]
