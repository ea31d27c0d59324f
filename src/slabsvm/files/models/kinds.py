"""How values are kept: `kind_of` makes a generic reader and writer of an annotation (`slabsvm.runtime.fields`).

A kind serves both ways. What has been saved can be read, since both ways check it alike: a type, a range, a dtype, and
a shape whose sizes have names and must agree within an estimator. A value of a class is kept by its fields, and
`doubt` says what is wrong with one as a whole.
"""

from __future__ import annotations

import dataclasses
import math
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache, singledispatch
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from slabsvm.files.arrays import Header
from slabsvm.files.models.archive import At, exactly, shown
from slabsvm.runtime import fields

# Floats that JSON has no number for.
NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
# Numbers of NumPy that are kept as such, since arithmetic with float32 arrays tells them from Python's.
SCALARS: dict[str, Any] = {"float64": np.float64, "float32": np.float32, "int64": np.int64, "int32": np.int32}
MOST = 2**63 - 1


class Kind(ABC):
    """A kind of values."""

    @abstractmethod
    def write(self, value: Any, at: At) -> Any:
        """Return the JSON of a value, with its arrays put into the archive; refuse one of another kind."""

    @abstractmethod
    def read(self, node: Any, at: At) -> Any:
        """Return the value of its JSON; refuse any other."""


@singledispatch
def doubt(value: Any) -> str:
    """Return what is wrong with a value that was read, each of whose parts is what it should be; or nothing."""
    del value
    return ""


def ascending(values: npt.NDArray[Any]) -> bool:
    """Return whether none of some numbers is less than the one before it, of which several may be the same infinity."""
    return bool((values[1:] >= values[:-1]).all())


# Kinds of classes that are kept otherwise than by their fields.
KINDS: dict[Any, Kind] = {}


@cache
def kind_of(hint: Any) -> Kind:
    """Return how the values of an annotation are kept: by its note, or by its type."""
    hint, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    note = next((one for one in notes if not isinstance(one, fields.Mark)), None)
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if type(None) in options:
        others: Any = Union[tuple(one for one in options if one is not type(None))]  # noqa: UP007  # | takes no tuple
        kind = kind_of(others if note is None else Annotated[others, note])
        return Optional(kind, for_training=fields.FOR_TRAINING in notes)
    if isinstance(note, Kind):
        return note
    return _by_type(hint, options) if note is None else _by_note(hint, note)


def _by_note(hint: Any, note: Any) -> Kind:
    if isinstance(note, fields.Many):
        return ManyKind(kind_of(get_args(hint)[0]), note, tuple if get_origin(hint) is tuple else list)
    if type(note) in KINDS_OF_NOTES:
        return KINDS_OF_NOTES[type(note)](note)
    return plain(hint, note)


def _by_type(hint: Any, options: tuple[Any, ...]) -> Kind:
    if len(options) > 1:
        return Either(
            {one.__name__.lower(): kind_of(one) for one in options}, lambda value: type(value).__name__.lower()
        )
    if get_origin(hint) in (list, tuple, Sequence):
        return _by_note(hint, fields.Many())
    if hint in (bool, str, int, float):
        return plain(hint)
    return KINDS[hint] if hint in KINDS else Record(hint)


class Plain(Kind):
    """A value that JSON has, of one type; NumPy's become Python's."""

    def __init__(self, base: type, must: str, allows: Callable[[Any], bool] = lambda _: True, size: str = "") -> None:
        self.base, self.must, self.allows, self.size = base, must, allows, size

    def write(self, value: Any, at: At) -> Any:
        return self.read(value.item() if isinstance(value, np.generic) else value, at)

    def read(self, node: Any, at: At) -> Any:
        kind = type(node)
        if kind is not self.base or not self.allows(node):
            at.refuse(f"is {shown(node)}, and must be {self.must}")
        if self.size:
            at.bound(self.size, node)
        return node


class Float(Kind):
    """A float of 64 bits; one that is not finite is a word in the file."""

    def __init__(self, note: fields.Number) -> None:
        self.note = note

    def write(self, value: Any, at: At) -> Any:
        number = self.read(value.item() if isinstance(value, np.generic | np.ndarray) else value, at)
        return number if math.isfinite(number) else str(number)

    def read(self, node: Any, at: At) -> float:
        node = NOT_FINITE.get(node, node) if isinstance(node, str) else node
        if not isinstance(node, float | int) or isinstance(node, bool):
            at.refuse(f"is {shown(node)}, and must be a number")
        try:
            number = float(node)
        except OverflowError:
            at.refuse("is too large for a number")
        if self.note.finite and not math.isfinite(number):
            at.refuse(f"is {number}, and must be finite")
        if number <= self.note.above and self.note.above > -math.inf:
            at.refuse(f"is {number}, and must be more than {self.note.above}")
        return number


def plain(hint: Any, note: Any = None) -> Kind:
    """Return the kind of a bool, text, whole number or float, which one in an array without dimensions is, too."""
    if hint is bool:
        return Plain(bool, "true or false")
    if isinstance(note, fields.Choice):
        return Plain(str, f"one of {', '.join(note.texts)}", note.texts.__contains__)
    if hint is str:
        return Plain(str, "a text")
    note = note or fields.Number()
    if hint is not int:
        return Float(note)
    least, most = max(0, note.least), min(MOST, note.most)
    return Plain(int, f"a whole number from {least} to {most}", lambda number: least <= number <= most, note.size)


class Optional(Kind):
    """A value that may be None, and is where it is of use to training alone and that is left out."""

    def __init__(self, kind: Kind, *, for_training: bool = False) -> None:
        self.kind, self.for_training = kind, for_training

    def write(self, value: Any, at: At) -> Any:
        left_out = value is None or (self.for_training and not at.training)
        return None if left_out else self.kind.write(value, at)

    def read(self, node: Any, at: At) -> Any:
        return None if node is None else self.kind.read(node, at)


class ManyKind(Kind):
    """A list or tuple of values of one kind."""

    def __init__(self, kind: Kind, note: fields.Many, made: type[list[Any] | tuple[Any, ...]]) -> None:
        self.kind, self.note, self.made = kind, note, made

    def write(self, value: Any, at: At) -> Any:
        self._check(value, at)
        return [self.kind.write(one, at.apart(number)) for number, one in enumerate(value)]

    def read(self, node: Any, at: At) -> Any:
        if not isinstance(node, list):
            at.refuse("must be a list")
        self._check(node, at)
        return self.made(self.kind.read(one, at.apart(number)) for number, one in enumerate(node))

    def _check(self, value: Any, at: At) -> None:
        if len(value) < self.note.least:
            at.refuse(f"has {len(value)} entries, and must have at least {self.note.least}")
        if self.note.size:
            at.bound(self.note.size, len(value))


class Parts(Kind):
    """A value of named parts, each of a kind; later ones may rely on the sizes that earlier ones name."""

    parts: dict[str, Kind]
    # The parts that files of earlier versions lack, which are None then.
    later: Sequence[str] = ()

    def write(self, value: Any, at: At) -> Any:
        values = self.taken(value, at)
        # The sizes that parts name are their own.
        inner = at.apart()
        return {name: kind.write(values[name], inner.inside(name)) for name, kind in self.parts.items()}

    def read(self, node: Any, at: At) -> Any:
        if isinstance(node, dict):
            node = dict.fromkeys(self.later) | node
        nodes = exactly(node, tuple(self.parts), at)
        inner = at.apart()
        found = {
            name: kind.read(one, inner.inside(name))
            for (name, kind), one in zip(self.parts.items(), nodes, strict=True)
        }
        try:
            value = self.made_of(found)
            text = doubt(value)
        except ValueError as error:
            text = str(error)
        return value if not text else at.refuse(f"cannot be: {text}")

    @abstractmethod
    def taken(self, value: Any, at: At) -> dict[str, Any]:
        """Return the parts of a value, or refuse it."""

    @abstractmethod
    def made_of(self, parts: dict[str, Any]) -> Any:
        """Return the value of parts; ValueError says that they do not belong together."""


class Made(Parts):
    """A value that a function makes of parts with these annotations, and another takes each from."""

    def __init__(self, make: Callable[..., Any], take: Callable[[Any, str], Any], **hints: Any) -> None:
        self.make, self.take = make, take
        self.parts = {name: kind_of(hint) for name, hint in hints.items()}

    def taken(self, value: Any, at: At) -> dict[str, Any]:
        """Return what the one function takes."""
        del at
        return {name: self.take(value, name) for name in self.parts}

    def made_of(self, parts: dict[str, Any]) -> Any:
        """Return what the other function makes."""
        return self.make(**parts)


class Record(Parts):
    """A value of a class, by the fields of a dataclass, or by what its constructor takes."""

    def __init__(self, made: type, without: Sequence[str] = ()) -> None:
        self.made = made
        is_data = dataclasses.is_dataclass(made)
        init = vars(made).get("__init__")
        hints = get_type_hints(made if is_data else init, include_extras=True) if is_data or init else {}
        names = [one.name for one in dataclasses.fields(made)] if is_data else [one for one in hints if one != "return"]
        self.own: list[str] = []
        self.not_kept: list[str] = []
        self.inline: dict[str, Record] = {}
        self.parts, self.later = {}, []
        for name in names:
            marks = get_args(hints[name])[1:] if get_origin(hints[name]) is Annotated else ()
            if fields.NOT_KEPT in marks:
                self.not_kept.append(name)
            elif fields.INLINE in marks:
                self.inline[name] = Record(get_args(hints[name])[0])
                self.parts |= self.inline[name].parts
            elif name not in without:
                self.own.append(name)
                self.parts[name] = kind_of(hints[name])
                self.later += [name] * (fields.LATER in marks)

    def taken(self, value: Any, at: At) -> dict[str, Any]:
        """Return the fields of a value of exactly this class."""
        if type(value) is not self.made:
            at.refuse(f"is of the class {type(value).__name__}, which is not kept here")
        found = {name: getattr(value, name) for name in self.own}
        for name, record in self.inline.items():
            found |= record.taken(getattr(value, name), at)
        return found

    def made_of(self, parts: dict[str, Any]) -> Any:
        """Return the value of these fields."""
        for name, record in self.inline.items():
            parts[name] = record.made_of({part: parts.pop(part) for part in record.parts})
        return self.made(**parts, **dict.fromkeys(self.not_kept))


class Either(Kind):
    """A value of one of some kinds, each with a name in the file."""

    def __init__(self, kinds: Mapping[str, Kind], which: Callable[[Any], str]) -> None:
        # which gives the name of a value's kind, or another one for a value that is not kept.
        self.kinds, self.which = kinds, which

    def write(self, value: Any, at: At) -> Any:
        name = self.which(value)
        if name not in self.kinds:
            at.refuse(f"is {name}, which is not kept")
        return {name: self.kinds[name].write(value, at.inside(name))}

    def read(self, node: Any, at: At) -> Any:
        if not isinstance(node, dict) or len(node) != 1 or not set(node) <= set(self.kinds):
            at.refuse(f"must be one of {', '.join(self.kinds)}")
        ((name, inner),) = node.items()
        return self.kinds[name].read(inner, at.inside(name))


class ArrayKind(Kind):
    """An array of numbers, in a member of the archive; its header is checked before its values are read."""

    def __init__(self, note: fields.Array) -> None:
        self.note, self.shape = note, tuple(note.shape.split())

    def write(self, value: Any, at: At) -> Any:
        if not isinstance(value, np.ndarray):
            at.refuse(f"is {shown(value)}, and must be an array")
        self._match(value, at)
        self._check(value, at)
        return at.store.keep(at.place, value)

    def read(self, node: Any, at: At) -> npt.NDArray[Any]:
        name, crc = exactly(node, ("npy", "crc32"), at)
        if name != f"{at.place}.npy" or not isinstance(crc, int):
            at.refuse(f"names {shown(name)} as its array, and must name {at.place}.npy with its check sum")
        header: Header = at.store.header(name, crc)
        self._match(header, at)
        array: npt.NDArray[Any] = at.store.array(header)
        self._check(array, at)
        return array

    def _match(self, found: npt.NDArray[Any] | Header, at: At) -> None:
        if found.dtype.str[1:] not in self.note.dtype or len(found.shape) != len(self.shape):
            at.refuse(
                f"is an array of {found.dtype} of shape {found.shape}, and must be one of "
                f"{' or '.join(self.note.dtype)} of shape ({', '.join(self.shape)})"
            )
        for size, value in zip(self.shape, found.shape, strict=True):
            at.bound(size, value)

    def _check(self, array: npt.NDArray[Any], at: At) -> None:
        if self.note.below:
            most = at.sizes.get(self.note.below, 0)
            if array.size and not 0 <= array.min() <= array.max() < most:
                at.refuse(f"must hold numbers from 0 on that are less than {most:,}")
        if array.dtype.kind != "f" or self.note.holds == "any":
            return
        good = np.isfinite(array) if self.note.holds == "finite" else ~np.isnan(array)
        if not good.all():
            at.refuse("holds NaN" if np.isnan(array).any() else "holds infinity")


class RowsKind(Kind):
    """A table of rows: a dense array, or a CSR matrix in canonical form."""

    def __init__(self, note: fields.Rows) -> None:
        self.rows, self.columns = note.rows, note.columns
        self.dense = ArrayKind(fields.Array(f"{note.rows} {note.columns}", dtype=note.dtype))
        self.sparse = {
            "data": ArrayKind(fields.Array("stored", dtype=note.dtype)),
            "indices": ArrayKind(fields.Array("stored", dtype=fields.INTEGERS)),
            "indptr": ArrayKind(fields.Array("bounds", dtype=fields.INTEGERS)),
        }

    def write(self, value: Any, at: At) -> Any:
        if isinstance(value, np.ndarray):
            return self.dense.write(value, at)
        if not sp.issparse(value):
            at.refuse(
                f"are training rows in a {type(value).__name__}, which is not kept. Use save(model, path, "
                "training=False), which leaves them out, or fit on arrays"
            )
        if value.format != "csr" or not value.has_canonical_format:
            at.refuse(f"is a sparse {value.format} matrix, and must be a CSR one in canonical form")
        self._bound(value.shape, at)
        parts, found = at.apart("csr"), {"matrix": isinstance(value, sp.spmatrix), "shape": list(value.shape)}
        return found | {
            name: kind.write(getattr(value, name), parts.inside(name)) for name, kind in self.sparse.items()
        }

    def read(self, node: Any, at: At) -> Any:
        if isinstance(node, dict) and "npy" in node:
            return self.dense.read(node, at)
        is_matrix, shape, *nodes = exactly(node, ("matrix", "shape", *self.sparse), at)
        plain(bool).read(is_matrix, at.inside("matrix"))
        if not isinstance(shape, list) or len(shape) != 2:
            at.refuse("must have a shape of two numbers")
        n_rows, n_columns = (plain(int, fields.Number(most=2**62)).read(size, at.inside("shape")) for size in shape)
        self._bound((n_rows, n_columns), at)
        parts = at.apart("csr")
        data, indices, indptr = (
            kind.read(one, parts.inside(name)) for (name, kind), one in zip(self.sparse.items(), nodes, strict=True)
        )
        if len(indptr) != n_rows + 1 or indptr[0] != 0 or indptr[-1] != len(data) or (np.diff(indptr) < 0).any():
            at.refuse("is no CSR matrix: its rows do not begin and end in order")
        if len(indices) and not 0 <= indices.min() <= indices.max() < n_columns:
            at.refuse("is no CSR matrix: a column is outside of it")
        rows = (sp.csr_matrix if is_matrix else sp.csr_array)((data, indices, indptr), shape=(n_rows, n_columns))
        if not rows.has_canonical_format:
            at.refuse("is a CSR matrix that is not in canonical form")
        return rows

    def _bound(self, shape: tuple[int, int], at: At) -> None:
        at.bound(self.rows, shape[0])
        at.bound(self.columns, shape[1])


# The kinds of values that a note says all of.
KINDS_OF_NOTES: dict[type, Callable[[Any], Kind]] = {fields.Array: ArrayKind, fields.Rows: RowsKind}
