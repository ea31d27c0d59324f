"""A sparse factor U of K^-1: K^-1 ~= U U', from each sample's nearest earlier ones.

Column i holds the regression of sample i on its nearest samples j < i, scaled by its conditional standard deviation:
the sparse factor nearest to K^-1 in the Kullback-Leibler sense (Vecchia 1988; Schaefer, Katzfuss and Owhadi 2021).
Where K is close to the identity a few neighbours tell nearly all that the others do, and conjugate gradients with U U'
in front of K converge in a few products. The diagonal of U U' is near that of K^-1, and for most
samples below it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from slabsvm.gram.base import TILE, Blocks
from slabsvm.gram.cholesky import RIDGE
from slabsvm.runtime.arrays import AnyFloatArray, FloatArray, IndexArray, pieces

# So many earlier samples are regressed on. Twice as many save a third of the products and cost four times the time.
NEAREST = 16
# Where K is not held, samples are regressed at once that have so many neighbours in all: K is computed among them.
NEIGHBOURS_AT_ONCE = 1024


class Neighbours:
    """Each sample's nearest earlier ones under a kernel, and the factors that they give.

    Parameters
    ----------
    K : Blocks
    n_nearest : int, default=NEAREST
    limit : int or None
        Only samples before this one are anybody's neighbours; None for all.
    """

    def __init__(self, K: Blocks, n_nearest: int = NEAREST, limit: int | None = None) -> None:
        from slabsvm.compiled import neighbours as _loops

        self.K = K
        n_samples, diagonal = K.gram.n_samples, K.gram.diagonal
        self._ridges = RIDGE[K.dtype] * np.where(diagonal > 0, diagonal, 1.0)
        scales = (1.0 / np.sqrt(np.where(diagonal > 0, diagonal, np.inf))).astype(K.dtype)
        self._nearest = np.empty((n_samples, min(n_nearest, n_samples - 1)), dtype=np.int32)

        def find(some: slice, rows: AnyFloatArray) -> None:
            _loops.nearest_earlier(rows, scales, some.start, self._nearest)

        K.sweep(find, slice(0, n_samples), slice(0, n_samples if limit is None else limit))

    def factor(self, face: IndexArray, n_nearest: int | None = None) -> NeighbourFactor:
        """Return the factor of the inverse of K over some samples, in ascending order, from all neighbours or fewer."""
        from slabsvm.compiled import neighbours as _loops

        nearest = np.ascontiguousarray(self._nearest[:, :n_nearest])
        places = np.full(len(nearest), -1, dtype=np.intp)
        places[face] = np.arange(len(face))
        chosen = np.empty((len(face), nearest.shape[1]), dtype=np.int32)
        columns = np.empty((len(face), nearest.shape[1] + 1))

        def regress(some: slice) -> None:
            K, index = self._among(face[some], nearest)
            _loops.regress(K, index, self._ridges, face, places, nearest, some.start, some.stop, chosen, columns)

        computed_at_once = max(1, NEIGHBOURS_AT_ONCE // max(1, nearest.shape[1]))
        some_at_once = pieces(len(face), 1, computed_at_once if self.K.matrix is None else TILE)
        if self.K.matrix is None:
            # The blocks are divided among threads, and these take no tasks from each other.
            for some in some_at_once:
                regress(some)
        else:
            self.K.gram.divide(regress, some_at_once)
        return NeighbourFactor(chosen, columns)

    def _among(self, samples: IndexArray, nearest: npt.NDArray[np.int32]) -> tuple[AnyFloatArray, IndexArray]:
        """Return K among samples and their neighbours at least, and where in it each sample is."""
        if self.K.matrix is not None:
            return self.K.matrix, np.arange(len(nearest))
        theirs = nearest[samples]
        needed = np.union1d(samples, theirs[theirs >= 0])
        index = np.zeros(len(nearest), dtype=np.intp)
        index[needed] = np.arange(len(needed))
        return self.K.among(needed, needed), index


class NeighbourFactor:
    """U with U U' ~= K_FF^-1: in row a, the places and the values of column a, its diagonal's value last."""

    def __init__(self, chosen: npt.NDArray[np.int32], columns: FloatArray) -> None:
        self._chosen = chosen
        self._columns = columns

    def leading(self, size: int) -> NeighbourFactor:
        """Return the factor of the first so many samples alone."""
        return NeighbourFactor(self._chosen[:size], self._columns[:size])

    def solve(self, right: FloatArray) -> FloatArray:
        """Return U U' right, shape (f,) or (f, k): about K_FF^-1 right."""
        from slabsvm.compiled import neighbours as _loops

        columns = right if right.ndim > 1 else right[:, None]
        answer = np.zeros_like(columns)
        _loops.product(self._chosen, self._columns, np.ascontiguousarray(columns), answer)
        return answer.reshape(right.shape)

    @property
    def diagonal(self) -> FloatArray:
        """The diagonal of U U', shape (f,): about that of K_FF^-1."""
        from slabsvm.compiled import neighbours as _loops

        return np.asarray(_loops.diagonal(self._chosen, self._columns))

    @property
    def variances(self) -> FloatArray:
        """The variance of each sample given its neighbours, shape (f,)."""
        return np.asarray(self._columns[:, -1] ** -2.0)
