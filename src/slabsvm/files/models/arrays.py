"""The kinds of arrays: of numbers, of places among others, of rows dense or sparse, and of labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from slabsvm.files.arrays import Header
from slabsvm.files.models.archive import At, Incoming, Outgoing, exactly, shown
from slabsvm.files.models.kinds import Flag, Kind, Scalar, Whole

FLOATS = ("f8", "f4")
# The dtypes of labels, and the types of their values in the file.
LABELS: dict[str, tuple[Any, Any]] = {
    "object": (object, object),
    "str": (str, str),
    "bool": (bool, bool),
    **{f"{kind}{bits}": (f"{kind}{bits}", int) for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": (f"float{bits}", (int, float)) for bits in (32, 64)},
}


class Array(Kind):
    """An array of numbers.

    Parameters
    ----------
    *shape : str
        A name for each size.
    dtype : tuple of str, default=("f8",)
        The dtypes that are accepted, as NumPy's letters and bytes.
    holds : {"finite", "numbers", "any"}, default="finite"
        Whether values may be infinite, and NaN too.
    """

    def __init__(self, *shape: str, dtype: tuple[str, ...] = ("f8",), holds: str = "finite") -> None:
        self.shape = shape
        self.dtype = dtype
        self.holds = holds

    def write(self, value: Any, at: At) -> Any:
        """Return where the array is."""
        if not isinstance(value, np.ndarray):
            at.refuse(f"is {shown(value)}, and must be an array")
        self._match(value.dtype, value.shape, at)
        self._values(value, at)
        store: Outgoing = at.store
        return store.keep(at.place, value)

    def read(self, node: Any, at: At) -> npt.NDArray[Any]:
        """Return the array, of which the header is checked before its values are read."""
        store: Incoming = at.store
        header = self.header(node, at)
        self._match(header.dtype, header.shape, at)
        array = store.array(header)
        self._values(array, at)
        return array

    def header(self, node: Any, at: At) -> Header:
        """Return what the member that a node names says of itself."""
        name, crc = exactly(node, ("npy", "crc32"), at)
        if name != f"{at.place}.npy" or not isinstance(crc, int):
            at.refuse(f"names {shown(name)} as its array, and must name {at.place}.npy with its check sum")
        store: Incoming = at.store
        return store.header(name, crc)

    def _match(self, dtype: np.dtype[Any], shape: tuple[int, ...], at: At) -> None:
        if dtype.str[1:] not in self.dtype or len(shape) != len(self.shape):
            at.refuse(
                f"is an array of {dtype} of shape {shape}, and must be one of {' or '.join(self.dtype)} of shape "
                f"({', '.join(self.shape)})"
            )
        for size, value in zip(self.shape, shape, strict=True):
            at.bound(size, value)

    def _values(self, array: npt.NDArray[Any], at: At) -> None:
        if array.dtype.kind != "f" or self.holds == "any":
            return
        good = np.isfinite(array) if self.holds == "finite" else ~np.isnan(array)
        if not good.all():
            at.refuse("holds NaN" if np.isnan(array).any() else "holds infinity")


class Places(Array):
    """An array of numbers of things, counted from 0.

    Parameters
    ----------
    *shape : str
    below : str
        The size that they are less than.
    """

    def __init__(self, *shape: str, below: str) -> None:
        super().__init__(*shape, dtype=("i8",))
        self.below = below

    def _values(self, array: npt.NDArray[Any], at: At) -> None:
        size = at.sizes.get(self.below, 0)
        if array.size and not 0 <= array.min() <= array.max() < size:
            at.refuse(f"must hold numbers from 0 on that are less than {size:,}")


class Rows(Kind):
    """A table of rows: a dense array, or a CSR matrix in canonical form.

    Parameters
    ----------
    rows, columns : str
        The names of the sizes.
    dtype : tuple of str, default=("f8", "f4")
    """

    def __init__(self, rows: str, columns: str, *, dtype: tuple[str, ...] = FLOATS) -> None:
        self.rows = rows
        self.columns = columns
        self.dense = Array(rows, columns, dtype=dtype)
        self.values = Array("stored", dtype=dtype)

    def write(self, value: Any, at: At) -> Any:
        """Return where the rows are."""
        if not sp.issparse(value):
            return self.dense.write(value, at)
        if value.format != "csr" or not value.has_canonical_format:
            at.refuse(f"is a sparse {value.format} matrix, and must be a CSR one in canonical form")
        at.bound(self.rows, value.shape[0])
        at.bound(self.columns, value.shape[1])
        parts = at.apart("csr")
        return {
            "matrix": isinstance(value, sp.spmatrix),
            "shape": list(value.shape),
            "data": self.values.write(value.data, parts.inside("data")),
            "indices": _INDICES.write(value.indices, parts.inside("indices")),
            "indptr": _BOUNDS.write(value.indptr, parts.inside("indptr")),
        }

    def read(self, node: Any, at: At) -> Any:
        """Return the rows; a CSR matrix's indices lie within it, since compiled code believes them."""
        if isinstance(node, dict) and "npy" in node:
            return self.dense.read(node, at)
        is_matrix, shape, *nodes = exactly(node, ("matrix", "shape", "data", "indices", "indptr"), at)
        Flag().read(is_matrix, at.inside("matrix"))
        if not isinstance(shape, list) or len(shape) != 2:
            at.refuse("must have a shape of two numbers")
        n_rows, n_columns = (Whole(most=2**62).read(size, at.inside("shape")) for size in shape)
        at.bound(self.rows, n_rows)
        at.bound(self.columns, n_columns)
        parts = at.apart("csr")
        kinds = {"data": self.values, "indices": _INDICES, "indptr": _BOUNDS}
        data, indices, indptr = (
            kind.read(one, parts.inside(name)) for (name, kind), one in zip(kinds.items(), nodes, strict=True)
        )
        if len(indptr) != n_rows + 1 or indptr[0] != 0 or indptr[-1] != len(data) or (np.diff(indptr) < 0).any():
            at.refuse("is no CSR matrix: its rows do not begin and end in order")
        if len(indices) and not 0 <= indices.min() <= indices.max() < n_columns:
            at.refuse("is no CSR matrix: a column is outside of it")
        rows = (sp.csr_matrix if is_matrix else sp.csr_array)((data, indices, indptr), shape=(n_rows, n_columns))
        if not rows.has_canonical_format:
            at.refuse("is a CSR matrix that is not in canonical form")
        return rows


_INDICES = Array("stored", dtype=("i4", "i8"))
_BOUNDS = Array("bounds", dtype=("i4", "i8"))


class Labels(Kind):
    """An array of words or numbers, of any type, such as names of classes; it is in the document.

    Parameters
    ----------
    size : str
        The name of its length.
    """

    def __init__(self, size: str) -> None:
        self.size = size

    def write(self, value: Any, at: At) -> Any:
        """Return its dtype and values."""
        if not isinstance(value, np.ndarray) or value.ndim != 1 or value.dtype.kind not in "OUbiuf":
            at.refuse(f"is {shown(value)}, and must be an array of words or numbers")
        at.bound(self.size, len(value))
        name = "str" if value.dtype.kind == "U" else value.dtype.name
        return {"dtype": name, "values": [Scalar().write(one, at) for one in value.tolist()]}

    def read(self, node: Any, at: At) -> npt.NDArray[Any]:
        """Return the array; one of words is as wide as the longest."""
        name, nodes = exactly(node, ("dtype", "values"), at)
        if not isinstance(nodes, list) or not isinstance(name, str) or name not in LABELS:
            at.refuse(f"must have values and a dtype of {', '.join(LABELS)}")
        at.bound(self.size, len(nodes))
        values = [Scalar().read(one, at) for one in nodes]
        dtype, types = LABELS[name]
        if not all(isinstance(value, types) for value in values):
            at.refuse(f"holds what is no label of type {name}")
        try:
            array = np.array(values, dtype=dtype) if values else np.empty(0, dtype=dtype)
        except OverflowError as error:
            at.refuse(f"holds what is no label of type {name}: {error}")
        return array


class Names(Kind):
    """An array of the features' names."""

    def write(self, value: Any, at: At) -> Any:
        """Return the list of them."""
        at.bound("d", len(value))
        return [str(name) for name in value]

    def read(self, node: Any, at: At) -> npt.NDArray[np.object_]:
        """Return the array."""
        if not isinstance(node, list) or not all(isinstance(name, str) for name in node):
            at.refuse("must be a list of names")
        at.bound("d", len(node))
        array = np.empty(len(node), dtype=object)
        array[:] = node
        return array
