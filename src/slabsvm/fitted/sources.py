"""Which rows set the threshold: rows that are held out, or rows that are left out by folds.

Scores of a threshold's rows come from models that have not learned them: exactly without each row
(`slabsvm.solvers.small`), or by one model of the other rows, or by ten models of nine tenths of the rows each.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slabsvm.fitted.training import Training
from slabsvm.runtime.arrays import BoolArray, FloatArray
from slabsvm.solvers.small import MOST_EXACT

# At most this number of groups is held out, and at most half of all.
MANY_GROUPS = 100
# The number of folds, where there are as many rows or groups.
FOLDS = 10
# Up to this number of distinct rows each has a fold of its own.
MOST_ALONE = 50


def held_out(training: Training, random: np.random.RandomState, least_learned: int) -> BoolArray:
    """Return which rows, (n_samples,), set the threshold and are not learned: 1,000, or a tenth if it is more.

    At least `least_learned` are learned, and at least half. Of groups whole ones are held out, MANY_GROUPS if there are
    twice as many: in random order each that leaves half of the rows, and two groups, to learn. Raises ValueError for
    fewer than three rows, or groups.
    """
    kept, groups = np.flatnonzero(training.weights > 0), training.groups
    n, what = (len(kept), "rows") if groups is None else (groups.count, "groups")
    if n < 3:
        raise ValueError(
            f"Two {what} have to be learned and one has to be held out, and there are {n}. Give more {what}. Up to "
            f"{MOST_EXACT:,} distinct rows need not be held out: calibration='auto' leaves out each, or each group."
        )
    wanted = min(max(1000, len(kept) // 10), len(kept) - least_learned, len(kept) // 2)
    out = np.zeros(training.n_rows, dtype=bool)
    if groups is None:
        out[random.choice(kept, wanted, replace=False)] = True
        return out
    names, held = np.asarray(training.names), list[int]()
    sizes, room = np.bincount(names[kept], minlength=n), len(kept) // 2
    for group in random.permutation(n).tolist():
        enough = room <= len(kept) // 2 - wanted and len(held) >= min(MANY_GROUPS, n // 2)
        if enough or len(held) == n - 2:
            break
        if sizes[group] <= room:
            held.append(group)
            room -= int(sizes[group])
    out[np.isin(names, held)] = True
    return out


def folds(training: Training, random: np.random.RandomState) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Give for each of ten or twenty folds the weights of rows to learn, (n_samples,), and what is left out, (p,).

    The latter is how many copies leave of each row that is `counted`. They are dealt to the folds one by one, whether
    the row is given or weighs as often, so that most copies stay where one leaves. Of few distinct rows a copy of each
    is a fold of its own, and nothing is drawn. A group is in one fold.
    """
    n, groups, distinct = training.n_rows, training.groups, training.distinct
    copies = np.rint(training.n_copies).astype(np.int64)
    if groups is None and len(copies) <= MOST_ALONE:
        for sample in range(len(copies)) if copies.sum() > 1 else ():
            leaving = np.zeros(len(copies))
            leaving[sample] = 1.0
            yield _representing(training, (copies - leaving) / copies), leaving
        return
    # In the order in which they come, so that folds do not depend on what is in a row.
    place = distinct.group if training.names is None else training.names
    kept = np.flatnonzero(place >= 0)
    first = np.full(int(place.max()) + 1, n)
    np.minimum.at(first, place[kept], kept)
    order = np.argsort(first)[random.permutation(len(first))]
    # A model of 180 rows of 200 knows less than one of all by more than chance.
    count = FOLDS if len(copies) > 500 else 2 * FOLDS
    if groups is not None:
        fold = np.empty(len(order), dtype=np.intp)
        fold[order] = np.arange(len(order)) % count
        for number in range(min(count, len(order))):
            out = (place >= 0) & (fold[place] == number)
            yield np.where(out, 0.0, training.weights), (fold[groups.numbers] == number).astype(np.float64)
        return
    ends = np.cumsum(copies[order])
    for number in range(count):
        leaving = np.empty(len(copies))
        leaving[order] = (ends - number - 1) // count - (ends - copies[order] - number - 1) // count
        yield _representing(training, (copies - leaving) / copies), leaving


def _representing(training: Training, shares: FloatArray) -> FloatArray:
    """Return weights of all rows, (n_samples,): a row of each distinct sample has this share, (k,), of its weight."""
    weights = np.zeros(training.n_rows)
    weights[training.distinct.representatives] = training.distinct.weights * shares
    return weights
