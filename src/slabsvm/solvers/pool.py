"""The samples that the working sets are drawn from, with the parts of K that a descent on them needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from slabsvm.dual import FloatArray
from slabsvm.gram import Gram, Samples

# The pool is cut back to the working set when it would grow to this many of them,
GROWTH = 1.5
# and is not, however small the working set, while it has no more members than this.
SPACIOUS = 256
# A block of so many members is held whatever the memory: a working set that lacks free variables makes no progress.
LEAST_SPACE = 2048
# A working set of this share of all samples takes in the rest, if all of K fits the memory.
NEARLY_ALL = 0.5


class Pool:
    """The members of the recent working sets, with their block of K and, while they fit the memory, their rows of K.

    Only newcomers cost kernel values. Storage doubles when it is full, so that members join at no other cost.

    Parameters
    ----------
    gram : Gram
    dtype : float32 or float64
    cache_bytes : float
        What rows and block may take together. When the rows do not fit, products are computed from the data; the block
        is always held.

    Attributes
    ----------
    members : (k,) array of intp
        In order of arrival.
    block : (>= k, >= k) C-contiguous array
        K among the members in its first k rows and columns, and zeros behind them as far as LANES reach.
    """

    def __init__(self, gram: Gram, dtype: type[np.floating[Any]], cache_bytes: float) -> None:
        self.gram = gram
        self.dtype = dtype
        self.cache_bytes = cache_bytes
        self.members: Samples = np.zeros(0, dtype=np.intp)
        self.block: npt.NDArray[np.floating[Any]] = np.zeros((0, 0), dtype=dtype)
        self._rows: npt.NDArray[np.floating[Any]] | None = np.zeros((0, gram.n_samples), dtype=dtype)
        self._is_member = np.zeros(gram.n_samples, dtype=bool)

    @property
    def holds_everything(self) -> bool:
        """Whether all samples are members and their rows are here."""
        return self._rows is not None and len(self.members) == self.gram.n_samples

    @property
    def could_hold_everything(self) -> bool:
        """Whether all of K fits the memory."""
        return self._bytes(self.gram.n_samples, self.gram.n_samples) <= self.cache_bytes

    @property
    def rows(self) -> npt.NDArray[np.floating[Any]]:
        """The members' rows of K, shape (k, m); empty when they are not held."""
        return self.block[:0] if self._rows is None else self._rows[: len(self.members)]

    @property
    def largest(self) -> int:
        """How many members' block fits the memory, and never too few to make progress."""
        return max(LEAST_SPACE, int(np.sqrt(self.cache_bytes / np.dtype(self.dtype).itemsize)))

    def admit(self, working: Samples) -> None:
        """Make all of a working set members."""
        n_samples = self.gram.n_samples
        new = working[~self._is_member[working]]
        if len(new) == 0:
            return
        if len(working) > NEARLY_ALL * n_samples and self.could_hold_everything:
            self.admit_everything()
            return
        if len(self.members) + len(new) > max(GROWTH * len(working), SPACIOUS):
            self._keep_only(working)
        old, size = len(self.members), len(self.members) + len(new)
        self.members = np.concatenate([self.members, new])
        self._is_member[new] = True
        if self._rows is not None and self._bytes(size, n_samples + size) > self.cache_bytes:
            self._rows = None
        if self._rows is None:
            among = self.gram.block(new, self.members, self.dtype)
        else:
            rows = self.gram.block(new, None, self.dtype)
            among = rows[:, self.members]
            self._rows = _grown(self._rows, old, size, n_samples)
            self._rows[old:size] = rows
        self.block = _grown(self.block, old, size, padded(size))
        self.block[old:size, :size] = among
        self.block[:old, old:size] = among[:, :old].T

    def admit_everything(self) -> None:
        """Make all samples members, in their own order; the block then serves as the rows."""
        n_samples = self.gram.n_samples
        self.members = np.arange(n_samples)
        self._is_member[:] = True
        self.block = np.empty((n_samples, padded(n_samples)), dtype=self.dtype)
        self.block[:, n_samples:] = 0.0
        self._rows = self.block[:, :n_samples]
        self.gram.block(self.members, None, self.dtype, out=self._rows)

    def product(self, beta: FloatArray) -> FloatArray:
        """Return K beta of all samples, shape (m,), for coefficients of the members, shape (k,)."""
        size = len(self.members)
        moved = np.flatnonzero(beta)
        if self._rows is None:
            whole = np.zeros(self.gram.n_samples)
            whole[self.members] = beta
            return self.gram.dot(whole, self.dtype)
        if 2 * len(moved) > size:
            image = beta.astype(self.dtype) @ self._rows[:size]
        else:
            image = beta[moved].astype(self.dtype) @ self._rows[moved]
        return np.asarray(image, dtype=np.float64)

    def _bytes(self, n_rows: int, n_columns: int) -> int:
        return n_rows * n_columns * np.dtype(self.dtype).itemsize

    def _keep_only(self, working: Samples) -> None:
        wanted = np.zeros(self.gram.n_samples, dtype=bool)
        wanted[working] = True
        kept = np.flatnonzero(wanted[self.members])
        self._is_member &= wanted
        self.members = self.members[kept]
        block = np.zeros((len(kept), padded(len(kept))), dtype=self.dtype)
        block[:, : len(kept)] = self.block[np.ix_(kept, kept)]
        self.block = block
        if self._rows is not None:
            self._rows = self._rows[kept]


def padded(size: int) -> int:
    """Return the least multiple of the compiled descent's LANES that is at least size."""
    from slabsvm import _smo

    return -(-size // _smo.LANES) * _smo.LANES


def _grown(
    store: npt.NDArray[np.floating[Any]], used: int, n_rows: int, n_columns: int
) -> npt.NDArray[np.floating[Any]]:
    """Return a store of at least (n_rows, n_columns) that begins with the used rows of the old one; zeros elsewhere."""
    if store.shape[0] >= n_rows and store.shape[1] >= n_columns:
        return store
    height = max(n_rows, min(2 * store.shape[0], n_rows + n_rows // 2))
    width = n_columns if n_columns == store.shape[1] else max(n_columns, padded(height))
    larger = np.zeros((height, width), dtype=store.dtype)
    larger[:used, : store.shape[1]] = store[:used]
    return larger
