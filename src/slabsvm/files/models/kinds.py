"""How values are kept: `kind_of` makes a generic reader and writer of an annotation (`slabsvm.runtime.fields`).

A kind serves both ways. What has been saved can be read, since both ways check it alike: a type, a range, a dtype, and
a shape whose sizes have names and must agree within an estimator. A value of a class is kept by its fields, and
`conditions` has what must hold of one as a whole.
"""

from __future__ import annotations

import dataclasses
import math
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from slabsvm.files.arrays import Header
from slabsvm.files.models.archive import At, exactly, shown
from slabsvm.files.models.conditions import broken
from slabsvm.runtime import fields

# Floats that JSON has no number for.
NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
MOST = 2**63 - 1
MOST_FLOAT = int(np.finfo(np.float64).max)


class Kind(ABC):
    """A kind of values."""

    @abstractmethod
    def write(self, value: Any, at: At) -> Any:
        """Return the JSON of a value, with its arrays put into the archive; refuse one of another kind."""

    @abstractmethod
    def read(self, node: Any, at: At) -> Any:
        """Return the value of its JSON; refuse any other."""


# Kinds of classes that are kept otherwise than by their fields.
KINDS: dict[Any, Kind] = {}


@cache
def kind_of(hint: Any) -> Kind:
    """Return how the values of an annotation are kept: by its note, or by its type."""
    hint, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    note: Any = next((one for one in notes if not isinstance(one, fields.Mark)), None)
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if type(None) in options:
        others: Any = reduce(or_, (one for one in options if one is not type(None)))
        kind = kind_of(others if note is None else Annotated[others, note])
        return Optional(kind, for_training=fields.FOR_TRAINING in notes)
    if isinstance(note, Kind):
        return note
    return _by_note(hint, note) if note is not None else _by_type(hint, options)


def _by_note(hint: Any, note: Any) -> Kind:
    if isinstance(note, fields.Many):
        return ManyKind(kind_of(get_args(hint)[0]), note, tuple if get_origin(hint) is tuple else list)
    if type(note) in KINDS_OF_NOTES:
        return KINDS_OF_NOTES[type(note)](note)
    # A number that is an array without dimensions is a float.
    return Plain(hint if hint in (str, int) else float, note)


def _by_type(hint: Any, options: tuple[Any, ...]) -> Kind:
    if len(options) > 1:
        return Either({one.__name__.lower(): kind_of(one) for one in options}, lambda one: type(one).__name__.lower())
    if get_origin(hint) in (list, tuple, Sequence):
        return _by_note(hint, fields.Many())
    if hint in (bool, str, int, float):
        return Plain(hint)
    return KINDS[hint] if hint in KINDS else record(hint)


class Plain(Kind):
    """A bool, text or number of Python's, which NumPy's and those in arrays without dimensions become.

    A float that is not finite is a word in the file.
    """

    def __init__(self, base: type, note: fields.Number | fields.Choice | None = None) -> None:
        self.base: Any = base
        self.size = str(getattr(note, "size", ""))
        self.must, self.allows = _range_of(base, note)

    def write(self, value: Any, at: At) -> Any:
        found = self.read(value.item() if isinstance(value, np.generic | np.ndarray) else value, at)
        return str(found) if self.base is float and not math.isfinite(found) else found

    def read(self, node: Any, at: At) -> Any:
        if self.base is float:
            node = NOT_FINITE.get(node, node) if isinstance(node, str) else node
            node = float(node) if type(node) is int and abs(node) <= MOST_FLOAT else node
        if type(node) is not self.base or not self.allows(node):
            at.refuse(f"is {shown(node)}, and must be {self.must}")
        if self.size:
            at.bound(self.size, node)
        return node


def _range_of(base: type, note: Any) -> tuple[str, Callable[[Any], bool]]:
    """Return what a value must be, and the function that says whether one of its type is."""
    if base is bool:
        return "true or false", lambda _: True
    if isinstance(note, fields.Choice):
        return f"one of {', '.join(note.texts)}", note.texts.__contains__
    if base is str:
        return "a text", lambda _: True
    note = note or fields.Number()
    if base is int:
        least, most = max(0, note.least), min(MOST, note.most)
        return f"a whole number from {least} to {most}", lambda number: least <= number <= most
    must = "a finite number" if note.finite else "a number"
    if note.above > -math.inf:
        must = f"{must} above {note.above}"
    return must, lambda number: (math.isfinite(number) or not note.finite) and not number <= note.above > -math.inf


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
    """A value of named parts, each of a kind: `take` gives one of them, and `make` puts them together.

    Later parts may rely on the sizes that earlier ones name, which are the value's own. Those in `later` are not in
    files of earlier versions, and are None then. `make` raises ValueError where parts do not belong together.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        take: Callable[[Any, str], Any],
        parts: Mapping[str, Kind],
        later: Sequence[str] = (),
    ) -> None:
        self.make, self.take, self.parts, self.later = make, take, parts, later

    def write(self, value: Any, at: At) -> Any:
        inner = at.apart()
        return {name: kind.write(self.take(value, name), inner.inside(name)) for name, kind in self.parts.items()}

    def read(self, node: Any, at: At) -> Any:
        node = dict.fromkeys(self.later) | node if isinstance(node, dict) else node
        nodes, inner = exactly(node, tuple(self.parts), at), at.apart()
        named = zip(self.parts.items(), nodes, strict=True)
        found = {name: kind.read(one, inner.inside(name)) for (name, kind), one in named}
        try:
            value = self.make(**found)
            text = broken(value)
        except ValueError as error:
            text = str(error)
        return value if not text else at.refuse(f"cannot be: {text}")


def made(make: Callable[..., Any], take: Callable[[Any, str], Any] = getattr, **hints: Any) -> Parts:
    """Return the kind of a value whose parts have these annotations."""
    return Parts(make, take, {name: kind_of(hint) for name, hint in hints.items()})


def record(made: type, without: Sequence[str] = (), **others: Kind) -> Parts:
    """Return how a value of a dataclass is kept: by its fields, but those that are `without`, and by `others`."""
    hints = get_type_hints(made, include_extras=True)
    parts: dict[str, Kind] = {}
    inline: dict[str, Parts] = {}
    later, not_kept = [], []
    for name in [one.name for one in dataclasses.fields(made)]:
        marks = get_args(hints[name])[1:] if get_origin(hints[name]) is Annotated else ()
        if fields.NOT_KEPT in marks:
            not_kept.append(name)
        elif fields.INLINE in marks:
            inline[name] = record(get_args(hints[name])[0])
            parts |= inline[name].parts
        elif name not in without:
            parts[name] = kind_of(hints[name])
            later += [name] * (fields.LATER in marks)

    def take(value: Any, name: str) -> Any:
        return getattr(next((getattr(value, one) for one in inline if name in inline[one].parts), value), name)

    def make(**found: Any) -> Any:
        for name, inner in inline.items():
            found[name] = inner.make(**{part: found.pop(part) for part in inner.parts})
        return made(**found, **dict.fromkeys(not_kept))

    return Parts(make, take, parts | others, later)


class Either(Kind):
    """A value of one of some kinds, each with a name in the file; `which` gives the name of a value's kind."""

    def __init__(self, kinds: Mapping[str, Kind], which: Callable[[Any], str]) -> None:
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


class OneOf(Kind):
    """A value of one of two kinds, which a look at the value, or at its JSON, tells apart."""

    def __init__(self, first: Kind, other: Kind, is_first: Callable[[Any], bool]) -> None:
        self.first, self.other, self.is_first = first, other, is_first

    def write(self, value: Any, at: At) -> Any:
        return (self.first if self.is_first(value) else self.other).write(value, at)

    def read(self, node: Any, at: At) -> Any:
        return (self.first if self.is_first(node) else self.other).read(node, at)


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
        array: npt.NDArray[Any] = at.store.array(name, crc, lambda header: self._match(header, at))
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


class SparseKind(Parts):
    """A CSR matrix in canonical form."""

    def __init__(self, note: fields.Rows) -> None:
        parts = {
            "matrix": Plain(bool),
            "shape": ManyKind(Plain(int, fields.Number(most=2**62)), fields.Many(least=2), tuple),
            "data": ArrayKind(fields.Array("stored", dtype=note.dtype)),
            "indices": ArrayKind(fields.Array("stored", dtype=fields.INTEGERS)),
            "indptr": ArrayKind(fields.Array("bounds", dtype=fields.INTEGERS)),
        }
        super().__init__(_csr, _of_csr, parts)
        self.sizes = (note.rows, note.columns)

    def write(self, value: Any, at: At) -> Any:
        if not sp.issparse(value):
            at.refuse(
                f"are training rows in a {type(value).__name__}, which is not kept. Use save(model, path, "
                "training=False), which leaves them out, or fit on arrays"
            )
        return super().write(self._checked(value, at), at.apart("csr"))

    def read(self, node: Any, at: At) -> Any:
        return self._checked(super().read(node, at.apart("csr")), at)

    def _checked(self, value: Any, at: At) -> Any:
        if value.format != "csr" or not value.has_canonical_format:
            at.refuse(f"is a sparse {value.format} matrix, and must be a CSR one in canonical form")
        for size, length in zip(self.sizes, value.shape, strict=True):
            at.bound(size, length)
        return value


def _csr(matrix: bool, shape: tuple[int, ...], **arrays: Any) -> Any:
    """Return a CSR matrix of arrays; ValueError says that they are those of none."""
    data, indices, indptr = (arrays[name] for name in ("data", "indices", "indptr"))
    if len(shape) != 2 or len(indptr) == 0 or indptr[-1] != len(data) or (np.diff(indptr) < 0).any():
        raise ValueError("its rows do not begin and end in order")
    rows = (sp.csr_matrix if matrix else sp.csr_array)((data, indices, indptr), shape=shape)
    rows.check_format(full_check=True)
    return rows


def _of_csr(rows: Any, part: str) -> Any:
    return isinstance(rows, sp.spmatrix) if part == "matrix" else getattr(rows, part)


def is_array(value: Any) -> bool:
    """Return whether a value is a dense array, or JSON that of one."""
    return isinstance(value, np.ndarray) or (isinstance(value, dict) and "npy" in value)


def rows_kind(note: fields.Rows) -> Kind:
    """Return the kind of a table of rows: a dense array, or a CSR matrix."""
    dense = ArrayKind(fields.Array(f"{note.rows} {note.columns}", dtype=note.dtype))
    return OneOf(dense, SparseKind(note), is_array)


# The kinds of values that a note says all of.
KINDS_OF_NOTES: dict[type, Callable[[Any], Kind]] = {fields.Array: ArrayKind, fields.Rows: rows_kind}
