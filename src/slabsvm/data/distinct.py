"""Distinct samples and their weights, in an order that depends on their content alone.

Identical rows become one row of greater weight: the problem is smaller and has the same solution, and a weight means
exactly what repetition means. Sorted by a hash of the rows' bits, samples are as good as in random order, which a
solver that starts from some of them needs, and a fit is independent of the order of the rows.

Rows may come in groups (patients, machines, videos), and a new row from a new group: a model answers as it will answer
new rows only where a whole group is left out, and with it the samples that no other group has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from slabsvm.data.checks import canonical
from slabsvm.runtime.arrays import STEP_BYTES, FloatArray, IndexArray, pieces
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.runtime.caller import counted
from slabsvm.runtime.estimators import cached_property

# Near copies are looked for among this many nearest rows.
NEIGHBOURS = 10


@dataclass(frozen=True)
class Distinct:
    """The distinct rows among n, of which k have positive weight."""

    representatives: IndexArray  # (k,): one row for each
    weights: FloatArray  # (k,): the sum of the weights of all rows equal to it
    inverse: IndexArray  # (n,): the distinct row, from 0, that each row is equal to; -1 for a row of weight 0
    # (k,) of uint64: The hash of each row's content, in ascending order; it identifies the row in another data set
    keys: npt.NDArray[np.uint64]

    @cached_property
    def copies(self) -> IndexArray:
        """How many rows of positive weight are equal to each, shape (k,)."""
        return np.bincount(self.inverse[self.inverse >= 0])

    def spread(self, values: FloatArray, weights: FloatArray) -> FloatArray:
        """Return values (..., k) of the distinct samples divided among their rows, (..., n), by their weights."""
        share = np.where(self.inverse >= 0, weights / self.weights[self.inverse], 0.0)
        return np.asarray(values[..., self.inverse] * share)


def distinct_rows(X: Any, weights: FloatArray) -> Distinct:
    """Return the distinct rows of X, (n, d), dense or CSR, that have positive weight; weights (n,) >= 0."""
    rows = np.flatnonzero(weights > 0)
    hashes = _row_hashes(X if len(rows) == len(weights) else X[rows])
    order = np.argsort(hashes, kind="stable")
    sorted_hashes = hashes[order]
    starts = np.append(True, sorted_hashes[1:] != sorted_hashes[:-1])
    # Equal hashes of unequal rows would merge different samples: with 64 bits and a million rows, at probability 3e-8.
    group = np.full(len(weights), -1, dtype=np.intp)
    group[rows[order]] = np.cumsum(starts) - 1
    sums = _exact_sums(weights[rows[order]], np.flatnonzero(starts))
    return Distinct(rows[order[starts]], sums, group, keys=sorted_hashes[starts])


def _exact_sums(weights: FloatArray, firsts: IndexArray) -> FloatArray:
    """Return the sums of stretches of weights, (n,), that begin at firsts, (k,), as if each was rounded once."""
    counts = np.diff(firsts, append=len(weights))
    if weights.min() == weights.max():
        return np.asarray(counts * float(weights[0]))
    sums = weights[firsts].astype(np.float64)
    for which in np.flatnonzero(counts > 1):
        sums[which] = math.fsum(weights[firsts[which] : firsts[which] + counts[which]])
    return sums


def same_points(K: FloatArray, weights: FloatArray) -> Distinct:
    """Return the distinct points of positive weight, shuffled, of a kernel matrix K, (n, n), by its equal rows."""
    merged = distinct_rows(K, weights)
    rank = np.empty(len(weights), dtype=np.intp)
    rank[np.random.default_rng(0).permutation(len(weights))] = np.arange(len(weights))
    keys = rank[merged.representatives]
    order = np.argsort(keys)
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.arange(len(order))
    inverse = np.where(merged.inverse >= 0, place[merged.inverse], -1)
    return Distinct(merged.representatives[order], merged.weights[order], inverse, keys=keys[order].astype(np.uint64))


def equal_rows(X: Any) -> IndexArray:
    """Return which distinct row each row of X, a table of any kind, is equal to, (n_samples,), numbered by content."""
    if sp.issparse(X):
        table = canonical(sp.csr_array(X))
        return distinct_rows(table, np.ones(table.shape[0])).inverse
    table = np.asarray(X)
    try:
        numbers = table.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as no_numbers:
        # A gap is not equal to itself.
        keys = [tuple(map(_key, row)) for row in table] if table.ndim > 1 else list(table)
        number: dict[Any, int] = {}
        try:
            return np.array([number.setdefault(key, len(number)) for key in keys], dtype=np.intp)
        except TypeError:
            raise no_numbers from None
    return distinct_rows(numbers.reshape(len(numbers), -1), np.ones(len(numbers))).inverse


def _key(value: Any) -> Any:
    return None if not isinstance(value, str) and is_missing(value) else value


def is_missing(name: Any) -> bool:
    """Return whether a value is None, NaN, NaT or pandas.NA."""
    try:
        return name is None or bool(name != name)  # noqa: PLR0124  # NaN and NaT alone differ from themselves
    except TypeError:
        # pandas.NA will not say.
        return True


def fingerprints(X: Any) -> npt.NDArray[np.uint64]:
    """Return a hash of each validated row of X in float32, (n,): products round rows otherwise in another batch."""
    return _row_hashes(X, np.float32)


def near_copies(X: Any, matrix: IndexArray | None = None) -> float:
    """Return the share of distinct rows whose first few neighbours are much nearer than the next: near copies.

    Of independent rows around which d dimensions are filled evenly, the distances r_1 < r_2 < ... of the nearest ones
    have (r_k / r_(k+1))^(k d) uniform in 0 to 1, for each k by itself, whatever the density and the unit. d is read off
    farther neighbours. A row has near copies where one of the first NEIGHBOURS of these numbers is below 0.002, and the
    distance less than half of the next: on a lattice the next is often 1.4 times as far. Of many rows the same 64 are
    asked each time. Up to 20 rows have a share of 0.

    Parameters
    ----------
    X : (m, d) array or CSR matrix, or (n, n) kernel matrix
        Distinct rows.
    matrix : (m,) array of int or None
        Which rows of a kernel matrix are the distinct samples.
    """
    m = X.shape[0] if matrix is None else len(matrix)
    if matrix is None and not sp.issparse(X):
        # Columns of two values, as of categories, make gaps between independent rows; 1,000 rows tell which those are.
        some_rows = X[:1000]
        varied = ((some_rows > some_rows.min(axis=0)) & (some_rows < some_rows.max(axis=0))).any(axis=0)
        if varied.any() and not varied.all():
            X = np.unique(X[:, varied], axis=0)
            m = len(X)
    rounding = 64 * float(np.finfo(np.float64).eps)
    # The dimension is read off the 40 nearest rows of 64 at most, and off no fewer than 20.
    farthest = min(40, m - 1)
    if farthest < 20:
        return 0.0
    asked = np.random.default_rng(0).choice(m, min(m, 64), replace=False)
    nearest = np.empty((len(asked), farthest))
    # Products as small as these take longer in several threads.
    with ONE_BLAS_THREAD, np.errstate(over="ignore", invalid="ignore"):
        lengths, products = _products(X, asked, matrix)
        for some in pieces(len(asked), 8 * m, STEP_BYTES):
            squares = lengths[asked[some]][:, None] + lengths
            # What rounding makes of the difference of equal numbers is no distance.
            squares = np.maximum(squares - 2.0 * products(asked[some]), rounding * squares)
            squares[np.arange(len(squares)), asked[some]] = np.inf
            nearest[some] = np.sort(np.partition(squares, farthest - 1, axis=1)[:, :farthest], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Across a gap that categories make the dimension seems larger: the least of scales 5 rows apart counts.
        near = np.arange(5, farthest, 5)
        far = np.minimum(2 * near, farthest)
        growths = np.median(np.log(nearest[:, far - 1] / nearest[:, near - 1]), axis=0) / np.log(far / near)
        dimension = 2.0 / np.max(growths)
        shares = np.sqrt(nearest[:, :NEIGHBOURS] / nearest[:, 1 : NEIGHBOURS + 1])
    # Few rows can tell no more than 6 dimensions.
    dimension = min(max(dimension, 1.0), 6.0) if np.isfinite(dimension) else 1.0
    chances = shares ** (np.arange(1, NEIGHBOURS + 1) * dimension)
    return float(((chances < 0.002) & (shares < 0.5)).any(axis=1).mean())


def _products(
    X: Any, asked: IndexArray, matrix: IndexArray | None
) -> tuple[FloatArray, Callable[[IndexArray], FloatArray]]:
    """Return the squared lengths of rows, and what returns the products of some with all; a kernel matrix has both."""
    if matrix is not None:
        return X[matrix, matrix].astype(np.float64), lambda some: X[np.ix_(matrix[some], matrix)].astype(np.float64)
    if sp.issparse(X):
        sparse = X.astype(np.float64)
        return np.asarray(sparse.multiply(sparse).sum(axis=1)).ravel(), lambda some: (sparse[some] @ sparse.T).toarray()
    # Rows far from the origin differ by less than their products round; the median is where most rows are.
    rows = X - np.median(X[asked], axis=0).astype(np.float64)
    return np.einsum("ij,ij->i", rows, rows), lambda some: rows[some] @ rows.T


def _row_hashes(X: Any, precision: Any = np.float64) -> npt.NDArray[np.uint64]:
    """Return a hash of each row at a precision: its bits times odd random numbers, modulo 2^64, mixed."""
    n_samples, n_features = X.shape
    # The same random odd numbers for the same number of features.
    multipliers = np.random.default_rng(0).integers(0, 2**63, n_features, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    hashes = np.empty(n_samples, dtype=np.uint64)
    if sp.issparse(X):
        bits = _mixed(_bits(X.data, precision)) * multipliers[X.indices]
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(bits, dtype=np.uint64)])
        return _mixed(sums[X.indptr[1:]] - sums[X.indptr[:-1]])
    for rows in pieces(n_samples, 8 * n_features, STEP_BYTES):
        bits = _mixed(_bits(X[rows], precision))
        hashes[rows] = (bits * multipliers).sum(axis=1, dtype=np.uint64)
    return _mixed(hashes)


def _bits(values: npt.NDArray[np.floating[Any]], precision: Any) -> npt.NDArray[np.uint64]:
    """Return the bits of the values, rounded to a precision, as float64, with -0 taken for 0."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = values.astype(precision)
    return np.ascontiguousarray(rounded.astype(np.float64) + 0.0).view(np.uint64)


def _mixed(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return bits scrambled by a bijection (xor-shift and multiply), so that sums of them hash well."""
    mixed = bits ^ (bits >> np.uint64(30))
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


@dataclass(frozen=True)
class Groups:
    """Which of m distinct samples each of some groups has: a list of p members, each a sample in a group.

    Groups are numbered by the first sample of each, and members in the order of groups, and of samples in each.
    """

    # (p,): the sample and the group of each member
    samples: IndexArray
    numbers: IndexArray
    # (p,): how much each counts: all groups count alike, and within a group rows do by their weights. They sum to 1.
    weights: FloatArray
    representatives: IndexArray  # (p,): a row of each member
    of_rows: IndexArray  # (n,): the member that each row is; -1 for a row of weight 0
    of_samples: IndexArray  # (m,): the group of each sample; -1 for one that several groups have

    @property
    def count(self) -> int:
        """The number of groups."""
        return int(self.numbers[-1]) + 1

    @cached_property
    def starts(self) -> IndexArray:
        """The place of each group's first member, and the number of members, (count + 1,)."""
        return np.searchsorted(self.numbers, np.arange(self.count + 1))

    def __iter__(self) -> Iterator[tuple[IndexArray, IndexArray]]:
        """Yield for each group its samples, and those of them that no other group has."""
        for samples in np.split(self.samples, self.starts[1:-1]):
            yield samples, samples[self.of_samples[samples] >= 0]


def groups_of(names: Any, distinct: Distinct, weights: FloatArray) -> Groups:
    """Return which samples each group has, for the name of each row's group, (n,), and the rows' weights, (n,).

    Raises ValueError for names as `numbered`, and where all rows that weigh anything are of one group.
    """
    kept, of_rows = np.flatnonzero(distinct.inverse >= 0), numbered(names, len(weights))
    # Neither their numbers nor sums of weights depend on the order of rows.
    kept = kept[np.lexsort((weights[kept], distinct.inverse[kept], of_rows[kept]))]
    samples, m = distinct.inverse[kept], len(distinct.weights)
    labels, begins, named = np.unique(of_rows[kept], return_index=True, return_inverse=True)
    if len(labels) < 2:
        raise ValueError(
            "All rows are of one group, so it is not known how rows of other groups will score. Give rows of at least "
            "2 groups, or leave groups out: then each row counts by itself."
        )
    members = [slice(*ends) for ends in pairwise([*begins.tolist(), len(kept)])]
    contents = [(samples[some].tolist(), weights[kept[some]].tolist()) for some in members]
    place = np.empty(len(labels), dtype=np.intp)
    place[sorted(range(len(labels)), key=contents.__getitem__)] = np.arange(len(labels))
    keys, rows, member = np.unique(place[named] * m + samples, return_index=True, return_inverse=True)
    numbers, samples = np.divmod(keys, m)
    of_members = np.bincount(member, weights=weights[kept]).astype(np.float64)
    mass = of_members / (np.bincount(numbers, weights=of_members)[numbers] * len(labels))
    of_rows = np.full(len(weights), -1, dtype=np.intp)
    of_rows[kept] = member
    of_samples = np.empty(m, dtype=np.intp)
    of_samples[samples] = numbers
    of_samples[np.bincount(samples) > 1] = -1
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
