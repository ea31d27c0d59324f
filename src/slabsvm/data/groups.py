"""Rows that come in groups (patients, machines, videos), and which distinct samples belong to each.

Rows of a group are more alike than rows of different groups, and a new row comes from a new group: a model answers as
it will answer new rows only where a whole group is left out. With it leave the samples that no other group has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from slabsvm.data.distinct import Distinct, is_missing
from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray
from slabsvm.runtime.caller import counted
from slabsvm.runtime.objects import cached_property

# The group of a sample that several groups have, and the member that a row of weight 0 is.
SHARED = -1
NO_MEMBER = -1


@dataclass(frozen=True)
class Groups:
    """Which of m distinct samples each of some groups has: a list of p members, each a sample in a group.

    Groups are numbered by the first sample of each, so that their names and the order of rows have no part in it, and
    members are in the order of groups, and of samples in each.
    """

    # (p,): the sample and the group of each member
    samples: IndexArray
    numbers: IndexArray
    # (p,): how much each counts: all groups count alike, and within a group rows do by their weights. They sum to 1.
    weights: FloatArray
    representatives: IndexArray  # (p,): a row of each member
    of_rows: IndexArray  # (n,): the member that each row is; NO_MEMBER for a row of weight 0
    of_samples: IndexArray  # (m,): the group of each sample; SHARED for one that several groups have

    @property
    def count(self) -> int:
        """The number of groups."""
        return int(self.numbers[-1]) + 1

    @cached_property
    def starts(self) -> IndexArray:
        """The place of each group's first member, and the number of members, (count + 1,)."""
        return np.searchsorted(self.numbers, np.arange(self.count + 1))

    def __iter__(self) -> Iterator[tuple[IndexArray, IndexArray]]:
        for samples in np.split(self.samples, self.starts[1:-1]):
            yield samples, samples[self.of_samples[samples] != SHARED]

    def shares(self, chosen: BoolArray) -> FloatArray:
        """Return the share of each group's members that are chosen, (count,), chosen (p,)."""
        return np.asarray(np.bincount(self.numbers, self.weights * chosen) * self.count)


def groups_of(names: Any, distinct: Distinct, weights: FloatArray) -> Groups:
    """Return which samples each group has, for the name of each row's group, (n,), and the rows' weights, (n,).

    Raises ValueError for names as `numbered`, and where all rows that weigh anything are of one group.
    """
    kept = np.flatnonzero(distinct.group >= 0)
    named, samples, m = numbered(names, len(weights))[kept], distinct.group[kept], len(distinct.weights)
    labels, named = np.unique(named, return_inverse=True)
    if len(labels) < 2:
        raise ValueError(
            "All rows are of one group, so it is not known how rows of other groups will score. Give rows of at least "
            "2 groups, or leave groups out: then each row counts by itself."
        )
    first = np.full(len(labels), m)
    np.minimum.at(first, named, samples)
    place = np.empty(len(labels), dtype=np.intp)
    place[np.argsort(first, kind="stable")] = np.arange(len(labels))
    keys, rows, member = np.unique(place[named] * m + samples, return_index=True, return_inverse=True)
    numbers, samples = np.divmod(keys, m)
    of_members = np.bincount(member, weights=weights[kept]).astype(np.float64)
    mass = of_members / (np.bincount(numbers, weights=of_members)[numbers] * len(labels))
    of_rows = np.full(len(weights), NO_MEMBER, dtype=np.intp)
    of_rows[kept] = member
    of_samples = np.empty(m, dtype=np.intp)
    of_samples[samples] = numbers
    of_samples[np.bincount(samples) > 1] = SHARED
    return Groups(samples, numbers, mass, kept[rows], of_rows, of_samples)


def numbered(names: Any, n_rows: int) -> IndexArray:
    """Return the number of each row's group, (n_rows,), in the order in which groups appear.

    Raises ValueError for another number of names than rows, and missing names; TypeError for what cannot be compared.
    """
    # An array of words would take NaN for one, and 1 for "1"; a masked array lists what is masked as None.
    given = np.asarray(names, dtype=object) if isinstance(names, list | tuple) else np.asanyarray(names)
    if given.shape != (n_rows,):
        raise ValueError(
            f"groups must name the group of each row, as an array of shape ({n_rows},); this one has the shape "
            f"{given.shape}."
        )
    number: dict[Any, int] = {}
    try:
        numbers = [number.setdefault(name, len(number)) for name in given.astype(object).tolist()]
    except TypeError as error:
        raise TypeError(f"groups must hold numbers or words, one for each row ({error}).") from error
    of_rows = np.array(numbers, dtype=np.intp)
    missing = np.flatnonzero(np.isin(of_rows, [place for name, place in number.items() if is_missing(name)]))
    if len(missing):
        raise ValueError(
            f"groups has no name for {counted(len(missing), 'row')}, the first of them row {missing[0]}. Name the "
            "group of each row; a row that belongs to no other can be its own group."
        )
    return of_rows
