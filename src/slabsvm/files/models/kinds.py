"""The kinds of values that a model is made of: what each is in a file, and what is accepted for it when it is read.

A kind is stated once and serves both ways. What has been saved can be read, since both ways check it alike: a type, a
range, a dtype, and a shape whose sizes have names, such as ("n", "d"), and must agree within an estimator.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from slabsvm.files.arrays import Header
from slabsvm.files.models.archive import At, Incoming, Outgoing, exactly, shown

# Floats that JSON has no number for.
NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
# Numbers of NumPy that are kept as such, since arithmetic with float32 arrays tells them from Python's.
SCALARS: dict[str, Any] = {"float64": np.float64, "float32": np.float32, "int64": np.int64, "int32": np.int32}


class Kind(ABC):
    """A kind of values."""

    @abstractmethod
    def write(self, value: Any, at: At) -> Any:
        """Return the JSON of a value, with its arrays put into the archive; refuse one of another kind."""

    @abstractmethod
    def read(self, node: Any, at: At) -> Any:
        """Return the value of its JSON; refuse any other."""


class _Plain(Kind):
    """A value that JSON has; NumPy's become Python's."""

    def write(self, value: Any, at: At) -> Any:
        """Return the value itself."""
        return self.read(value.item() if isinstance(value, np.bool_ | np.integer) else value, at)

    def read(self, node: Any, at: At) -> Any:
        """Return the value itself."""
        if not self.holds(node):
            at.refuse(f"is {shown(node)}, and must be {self}")
        return node

    @abstractmethod
    def holds(self, value: Any) -> bool:
        """Return whether a value is of this kind, which `str` says in words."""


class Flag(_Plain):
    """True or false."""

    def holds(self, value: Any) -> bool:
        """Return whether it is."""
        return isinstance(value, bool)

    def __str__(self) -> str:
        return "true or false"


class Text(_Plain):
    """A text, or one of some choices."""

    def __init__(self, *choices: str) -> None:
        self.choices = choices

    def holds(self, value: Any) -> bool:
        """Return whether it is."""
        return isinstance(value, str) and (not self.choices or value in self.choices)

    def __str__(self) -> str:
        return "a text" if not self.choices else f"one of {', '.join(self.choices)}"


@dataclass(frozen=True)
class Whole(_Plain):
    """A whole number."""

    least: int = 0
    most: int = 2**63 - 1
    names: str = field(default="", kw_only=True)  # the size that it is

    def read(self, node: Any, at: At) -> int:
        """Return the number, which others of its name must be."""
        number: int = super().read(node, at)
        if self.names:
            at.bound(self.names, number)
        return number

    def holds(self, value: Any) -> bool:
        """Return whether it is."""
        return isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most

    def __str__(self) -> str:
        return f"a whole number from {self.least} to {self.most}"


@dataclass(frozen=True)
class Number(Kind):
    """A float of 64 bits; one that is not finite is a word in the file."""

    above: float = field(default=-math.inf, kw_only=True)  # the number is larger
    finite: bool = field(default=True, kw_only=True)

    def write(self, value: Any, at: At) -> Any:
        """Return the number, or its word."""
        if not isinstance(value, float | int | np.floating | np.integer) or isinstance(value, bool):
            at.refuse(f"is {shown(value)}, and must be a number")
        number = self._checked(float(value), at)
        return number if math.isfinite(number) else str(number)

    def read(self, node: Any, at: At) -> float:
        """Return the number."""
        if isinstance(node, str) and node in NOT_FINITE:
            return self._checked(NOT_FINITE[node], at)
        if not isinstance(node, float | int) or isinstance(node, bool):
            at.refuse(f"is {shown(node)}, and must be a number")
        try:
            return self._checked(float(node), at)
        except OverflowError:
            at.refuse("is too large for a number")

    def _checked(self, number: float, at: At) -> float:
        if self.finite and not math.isfinite(number):
            at.refuse(f"is {number}, and must be finite")
        if number <= self.above and self.above > -math.inf:
            at.refuse(f"is {number}, and must be more than {self.above}")
        return number


@dataclass(frozen=True)
class Maybe(Kind):
    """A value that may be None."""

    kind: Kind

    def write(self, value: Any, at: At) -> Any:
        """Return null, or the value's JSON."""
        return None if value is None else self.kind.write(value, at)

    def read(self, node: Any, at: At) -> Any:
        """Return None, or the value."""
        return None if node is None else self.kind.read(node, at)


class ForTraining(Maybe):
    """A value that prediction does not need, and that may be left out."""

    def write(self, value: Any, at: At) -> Any:
        """Return null where it is to be left out."""
        return super().write(value, at) if at.training else None


class Later(Maybe):
    """A part of an estimator or record that files of earlier versions lack, which is None then."""


class Scalar(Kind):
    """None, true or false, a text or a number; NumPy's numbers stay such."""

    def write(self, value: Any, at: At) -> Any:
        """Return its JSON."""
        if isinstance(value, np.str_ | np.bool_):
            value = value.item()
        if isinstance(value, np.generic):
            name = value.dtype.name
            if name not in SCALARS:
                at.refuse(f"is a number of NumPy's type {name}, which is not kept")
            return {name: self.write(value.item(), at)}
        if value is None or isinstance(value, bool | str | int):
            return value
        if not isinstance(value, float):
            at.refuse(f"is {shown(value)}, and must be None, a text or a number")
        return value if math.isfinite(value) else {"float": str(value)}

    def read(self, node: Any, at: At) -> Any:
        """Return the value."""
        if not isinstance(node, dict):
            if isinstance(node, list):
                at.refuse("is a list, and must be None, a text or a number")
            return node
        ((name, inner),) = node.items() if len(node) == 1 else at.refuse("must be None, a text or a number")
        if name == "float" and isinstance(inner, str) and inner in NOT_FINITE:
            return NOT_FINITE[inner]
        value = None if name not in SCALARS else self.read(inner, at)
        if not isinstance(value, int | float):
            at.refuse(f"is {shown(node)}, and must be None, a text or a number")
        try:
            return SCALARS[name](value)
        except (OverflowError, ValueError) as error:
            at.refuse(f"is no number of type {name}: {error}")


@dataclass(frozen=True)
class Many(Kind):
    """A list of values of one kind."""

    kind: Kind
    names: str = field(default="", kw_only=True)  # the name of its length
    least: int = field(default=0, kw_only=True)

    def write(self, value: Any, at: At) -> Any:
        """Return the list of their JSON."""
        self._check(value, at)
        return [self.kind.write(one, at.apart(number)) for number, one in enumerate(value)]

    def read(self, node: Any, at: At) -> list[Any]:
        """Return the list."""
        if not isinstance(node, list):
            at.refuse("must be a list")
        self._check(node, at)
        return [self.kind.read(one, at.apart(number)) for number, one in enumerate(node)]

    def _check(self, value: Any, at: At) -> None:
        if len(value) < self.least:
            at.refuse(f"has {len(value)} entries, and must have at least {self.least}")
        if self.names:
            at.bound(self.names, len(value))


@dataclass(frozen=True)
class Record(Kind):
    """A value of named parts, each of a kind."""

    # It takes the parts by their names. ValueError from it means that they do not belong together.
    make: Callable[..., Any]
    parts: Mapping[str, Kind]  # later ones may rely on the sizes that earlier ones name
    take: Callable[[Any, str], Any] = field(default=getattr, kw_only=True)  # the part of a value, by its name
    apart: bool = field(default=False, kw_only=True)  # whether the sizes that the parts name are their own

    def write(self, value: Any, at: At) -> Any:
        """Return the JSON of its parts."""
        inner = self._inner(at)
        return {name: kind.write(self.take(value, name), inner.inside(name)) for name, kind in self.parts.items()}

    def read(self, node: Any, at: At) -> Any:
        """Return the value."""
        if isinstance(node, dict):
            node = {name: None for name, kind in self.parts.items() if isinstance(kind, Later)} | node
        nodes = exactly(node, tuple(self.parts), at)
        inner = self._inner(at)
        found = {
            name: kind.read(one, inner.inside(name))
            for (name, kind), one in zip(self.parts.items(), nodes, strict=True)
        }
        try:
            return self.make(**found)
        except ValueError as error:
            at.refuse(f"cannot be: {error}")

    def _inner(self, at: At) -> At:
        return replace(at, sizes=dict(at.sizes)) if self.apart else at


@dataclass(frozen=True)
class Either(Kind):
    """A value of one of some kinds, each with a name in the file."""

    kinds: Mapping[str, Kind]
    which: Callable[[Any], str]  # the name of a value's kind, or another one for a value that is not kept

    def write(self, value: Any, at: At) -> Any:
        """Return the name, and the value's JSON."""
        name = self.which(value)
        if name not in self.kinds:
            at.refuse(f"is {name}, which is not kept")
        return {name: self.kinds[name].write(value, at.inside(name))}

    def read(self, node: Any, at: At) -> Any:
        """Return the value."""
        if not isinstance(node, dict) or len(node) != 1 or not set(node) <= set(self.kinds):
            at.refuse(f"must be one of {', '.join(self.kinds)}")
        ((name, inner),) = node.items()
        return self.kinds[name].read(inner, at.inside(name))


class Earlier(Kind):
    """A value that files of earlier schemas hold in other parts: `before` has the kind of one with a part of a name."""

    def __init__(self, now: Kind, **before: Kind) -> None:
        self.now = now
        self.before = before

    def write(self, value: Any, at: At) -> Any:
        """Return its JSON."""
        return self.now.write(value, at)

    def read(self, node: Any, at: At) -> Any:
        """Return the value."""
        found = [kind for part, kind in self.before.items() if isinstance(node, dict) and part in node]
        return (found[0] if found else self.now).read(node, at)


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
    """An array of numbers, of a shape that has a name for each size, and of one of these dtypes.

    It `holds` "finite" values, "numbers", which may be infinite, or "any", NaN too.
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
    """An array of numbers of things, counted from 0, that are less than the size named `below`."""

    def __init__(self, *shape: str, below: str) -> None:
        super().__init__(*shape, dtype=("i8",))
        self.below = below

    def _values(self, array: npt.NDArray[Any], at: At) -> None:
        size = at.sizes.get(self.below, 0)
        if array.size and not 0 <= array.min() <= array.max() < size:
            at.refuse(f"must hold numbers from 0 on that are less than {size:,}")


@dataclass(frozen=True)
class Rows(Kind):
    """A table of rows: a dense array, or a CSR matrix in canonical form."""

    rows: str  # the names of the sizes
    columns: str
    dtype: tuple[str, ...] = field(default=FLOATS, kw_only=True)

    @property
    def _dense(self) -> Array:
        return Array(self.rows, self.columns, dtype=self.dtype)

    @property
    def _sparse(self) -> dict[str, Array]:
        integers = ("i4", "i8")
        return {
            "data": Array("stored", dtype=self.dtype),
            "indices": Array("stored", dtype=integers),
            "indptr": Array("bounds", dtype=integers),
        }

    def write(self, value: Any, at: At) -> Any:
        """Return where the rows are."""
        if not sp.issparse(value):
            return self._dense.write(value, at)
        if value.format != "csr" or not value.has_canonical_format:
            at.refuse(f"is a sparse {value.format} matrix, and must be a CSR one in canonical form")
        at.bound(self.rows, value.shape[0])
        at.bound(self.columns, value.shape[1])
        parts, found = at.apart("csr"), {"matrix": isinstance(value, sp.spmatrix), "shape": list(value.shape)}
        return found | {
            name: kind.write(getattr(value, name), parts.inside(name)) for name, kind in self._sparse.items()
        }

    def read(self, node: Any, at: At) -> Any:
        """Return the rows; a CSR matrix's indices lie within it, since compiled code believes them."""
        if isinstance(node, dict) and "npy" in node:
            return self._dense.read(node, at)
        is_matrix, shape, *nodes = exactly(node, ("matrix", "shape", "data", "indices", "indptr"), at)
        Flag().read(is_matrix, at.inside("matrix"))
        if not isinstance(shape, list) or len(shape) != 2:
            at.refuse("must have a shape of two numbers")
        n_rows, n_columns = (Whole(most=2**62).read(size, at.inside("shape")) for size in shape)
        at.bound(self.rows, n_rows)
        at.bound(self.columns, n_columns)
        parts = at.apart("csr")
        data, indices, indptr = (
            kind.read(one, parts.inside(name)) for (name, kind), one in zip(self._sparse.items(), nodes, strict=True)
        )
        if len(indptr) != n_rows + 1 or indptr[0] != 0 or indptr[-1] != len(data) or (np.diff(indptr) < 0).any():
            at.refuse("is no CSR matrix: its rows do not begin and end in order")
        if len(indices) and not 0 <= indices.min() <= indices.max() < n_columns:
            at.refuse("is no CSR matrix: a column is outside of it")
        rows = (sp.csr_matrix if is_matrix else sp.csr_array)((data, indices, indptr), shape=(n_rows, n_columns))
        if not rows.has_canonical_format:
            at.refuse("is a CSR matrix that is not in canonical form")
        return rows


@dataclass(frozen=True)
class Labels(Kind):
    """An array of words or numbers, of any type, such as names of classes; it is in the document."""

    size: str  # the name of its length

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
