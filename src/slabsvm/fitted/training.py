"""What a detector learns from: rows that were validated, and which are one sample or leave together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from slabsvm.data.distinct import NO_MEMBER, Distinct, Groups
from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.runtime.objects import cached_property

# A remainder of less than this share of a weight is rounding.
ROUNDING = 1e-9
# Weights that matter more or less have no common divisor as large as this share of the lightest.
LEAST_DIVISOR = 0.01


@dataclass(frozen=True)
class Training:
    """What a detector learns from."""

    X: Any  # (n_samples, n_features): validated rows; of a precomputed kernel its matrix
    weights: FloatArray  # (n_samples,)
    distinct: Distinct  # which rows are the same sample, and their weights
    # Which samples are left out together; None where each is left out alone.
    groups: Groups | None = field(default=None, kw_only=True)
    # (k, d): distinct rows that are known to be outliers, which no sample counts among
    outliers: Any = field(default=None, kw_only=True)
    # The rows that put thresholds and p-values, of these the first; None for all.
    judges: Training | None = field(default=None, kw_only=True)

    @property
    def n_rows(self) -> int:
        """The number of rows that were given."""
        return len(self.weights)

    @cached_property
    def samples(self) -> Any:
        """A row of each distinct sample."""
        return self.X[self.distinct.representatives]

    @cached_property
    def counts(self) -> FloatArray:
        """How often each distinct sample is there, (k,): ones where weights are no whole multiples of one another.

        Weights of 70, 71 and 83 are rows that repeat. Weights of 3 each are rows that were given three times over, and
        each counts once; weights that fall with a row's age say how much it matters.
        """
        return whole_multiples(self.distinct.weights)

    @property
    def may_be_counts(self) -> bool:
        """Whether the weights may say how often rows were seen."""
        return may_be_counts(self.counts, self.samples)

    @property
    def n_counted(self) -> float:
        """How many rows are left out, one after the other: all that repeat each other, too; or how many groups."""
        return float(self.counts.sum()) if self.groups is None else float(self.groups.count)

    @property
    def n_alone(self) -> int:
        """The number of what is left out at once: of distinct samples, or of groups."""
        return len(self.distinct.weights) if self.groups is None else self.groups.count

    @property
    def names(self) -> IndexArray | None:
        """The number of each row's group, (n_samples,), negative for rows of weight 0; None without groups."""
        if self.groups is None:
            return None
        return np.where(self.groups.of_rows >= 0, self.groups.numbers[self.groups.of_rows], NO_MEMBER)

    @property
    def counted(self) -> tuple[IndexArray, FloatArray]:
        """A row of each distinct sample, or with groups of each member, and how much it counts: (p,) arrays."""
        if self.groups is None:
            return self.distinct.representatives, self.distinct.weights
        return self.groups.representatives, self.groups.weights

    def by_row(self, values: FloatArray) -> FloatArray:
        """Return the values of what is `counted` for each row, shape (n_samples,); NaN where a row's weight is 0."""
        place = self.distinct.group if self.groups is None else self.groups.of_rows
        return np.where(place >= 0, values[place], np.nan)

    @property
    def masses(self) -> FloatArray:
        """How much each row counts, (n_samples,): with groups, which all count alike, its share of its group."""
        groups = self.groups
        if groups is None:
            return self.weights
        kept = np.where(groups.of_rows >= 0, self.weights, 0.0)
        of_members = np.bincount(np.maximum(groups.of_rows, 0), weights=kept)
        return np.asarray(kept * (groups.weights / of_members)[groups.of_rows])


def whole_multiples(weights: FloatArray) -> FloatArray:
    """Return weights, (k,), over their greatest common divisor, or ones where there is none."""
    values = np.unique(weights)
    if len(values) == 1:
        return np.ones(len(weights))
    divisor, least = float(values[0]), LEAST_DIVISOR * float(values[0])
    for value in values[1:]:
        larger, remainder = float(value), divisor
        # Euclid's algorithm.
        while remainder >= least:
            larger, remainder = remainder, larger % remainder
            if larger - remainder <= ROUNDING * value:
                remainder = 0.0
        if remainder > ROUNDING * value:
            return np.ones(len(weights))
        divisor = larger
    return np.asarray(np.rint(weights / divisor))


def may_be_counts(weights: FloatArray, samples: Any) -> bool:
    """Return whether weights of distinct samples, (k,), may say how often each was seen.

    They are whole multiples of one another, and there is no feature that tells all samples apart: its values hardly
    ever come back, and neither do rows.
    """
    if whole_multiples(weights).max() <= 1:
        return False
    if sp.issparse(samples):
        columns = samples.tocsc()
        # A feature that is 0 in two samples does not tell them apart.
        samples = columns[:, np.flatnonzero(np.diff(columns.indptr) >= len(weights) - 1)].toarray()
    return not any(len(np.unique(column)) == len(weights) for column in np.asarray(samples).T)
