"""How values are kept: `kind_of` makes a generic reader and writer of an annotation (`slabsvm.runtime.objects`).

A kind is one function for both ways: it makes JSON of a value, with its arrays put into the archive, or a value of
JSON, and checks it: a type, a range, a dtype, and a shape whose sizes have names and must agree within an estimator. A
value of a class is kept by its fields, and `conditions` has what must hold of one as a whole.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial, reduce
from operator import or_
from typing import Annotated, Any, NoReturn, Union, get_args, get_origin, get_type_hints

import numpy as np
import scipy.sparse as sp

from slabsvm.files.models.archive import Incoming, ModelFileError, must
from slabsvm.runtime import objects as fields

# Floats that JSON has no number for.
NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
MOST = 2**63 - 1
MOST_FLOAT = int(np.finfo(np.float64).max)
# An estimator is inside of no more others.
DEEPEST = 16


@dataclass(frozen=True)
class At:
    """Where in a model a value is, and what is known of its estimator."""

    place: str  # the names that lead there, joined by points: the name of an array's member
    store: Any  # Outgoing or Incoming
    training: bool  # whether what prediction does not need is kept too
    sizes: dict[str, int]  # the sizes that have names
    depth: int = 0  # how many estimators this is inside of

    @property
    def reads(self) -> bool:
        """Whether a value is made of JSON, and not JSON of a value."""
        return isinstance(self.store, Incoming)

    def inside(self, name: str | int) -> At:
        """Return the place of a part."""
        return At(f"{self.place}.{name}", self.store, self.training, self.sizes, self.depth)

    def apart(self) -> At:
        """Return the same place, whose further sizes are its own."""
        return At(self.place, self.store, self.training, dict(self.sizes), self.depth)

    def estimator(self) -> At:
        """Return the same place for what is in an estimator that is there: its sizes are its own."""
        self.must(self.depth < DEEPEST, f"is inside of more than {DEEPEST - 1} other estimators")
        return At(self.place, self.store, self.training, {}, self.depth + 1)

    def refuse(self, text: str) -> NoReturn:
        """Raise the error that says what is wrong with the value."""
        raise ModelFileError(f"{self.place} {text}")

    def must(self, holds: object, text: str) -> None:
        """Refuse the value unless something holds."""
        if not holds:
            self.refuse(text)

    def bound(self, names: Sequence[str], values: Sequence[int]) -> None:
        """Give sizes their values, or refuse others; a size without a name may be any."""
        for size, value in zip(names, values, strict=True):
            known = self.sizes.setdefault(size, value) if size else value
            if known != value:
                self.refuse(f"is of size {value:,}, where {known:,} ({size}) are expected")


# A kind moves what is found in a model to JSON, or what is found in JSON to a model.
Kind = Callable[[Any, At], Any]
# Classes that are kept otherwise than by their fields, and notes that say all of a value.
KINDS: dict[Any, Kind] = {}
KINDS_OF_NOTES: dict[type, Callable[[Any], Kind]] = {}
OTHERS = (fields.Number, fields.Choice, fields.Many)
# What must hold of a value as a whole, such as places that belong together, which compiled code believes.
Conditions = Iterable[tuple[Any, str]]
CONDITIONS: list[Callable[[Any], Conditions]] = []


def broken(value: Any) -> str:
    """Return what is said of the first condition that does not hold of a value; nothing where all hold."""
    return next((text for conditions in CONDITIONS for holds, text in conditions(value) if not holds), "")


def shown(value: Any) -> str:
    """Return a value for a message."""
    text = repr(value) if isinstance(value, str | int | float | bool | None) else f"of type {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:60]}..."


def exactly(node: Any, names: Sequence[str], at: At) -> list[Any]:
    """Return the values of an object that has these names, and no other."""
    if not isinstance(node, dict):
        at.refuse(f"is {shown(node)}, and must have the parts {', '.join(names)}")
    if strange := node.keys() ^ set(names):
        lacking = strange - node.keys()
        at.refuse(f"has the parts {sorted(strange - lacking)} too many and {sorted(lacking)} too few")
    return [node[name] for name in names]


def only(node: Any) -> tuple[Any, Any]:
    """Return the one name of an object, and its value; of anything else no name, and the same."""
    return next(iter(node.items())) if isinstance(node, dict) and len(node) == 1 else ("", node)


def maker(n_hints: int) -> Callable[[Callable[..., Any]], Callable[..., Kind]]:
    """Return what makes kinds of a function, by all of its arguments but the last two, what is found and its place. The
    first n_hints are annotations, notes or kinds, which are read here.
    """

    def of(move: Callable[..., Any]) -> Callable[..., Kind]:
        return lambda *args, **others: partial(move, *map(kind_of, args[:n_hints]), *args[n_hints:], **others)

    return of


@cache
def kind_of(hint: Any) -> Kind:
    """Return how the values of an annotation or note are kept; of a kind, the kind itself."""
    if isinstance(hint, partial | types.FunctionType | Parts):
        return hint
    hint, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    note: Any = next((one for one in (hint, *notes) if type(one) in KINDS_OF_NOTES or isinstance(one, OTHERS)), None)
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if type(None) in options:
        others: Any = reduce(or_, (one for one in options if one is not type(None)))
        others = others if note is None else Annotated[others, note]
        return maybe(others, for_training=fields.FOR_TRAINING in notes)
    if type(note) in KINDS_OF_NOTES:
        return KINDS_OF_NOTES[type(note)](note)
    if isinstance(note, fields.Many) or get_origin(hint) in (list, tuple, Sequence):
        made, note = tuple if get_origin(hint) is tuple else list, note or fields.Many()
        return many(get_args(hint)[0], made=made, least=note.least)
    if note is not None or hint in (bool, str, int, float):
        # A number that is an array without dimensions is a float.
        return plain(hint if hint in (bool, str, int) else float, note or fields.Number())
    classes = {one.__name__.lower(): one for one in options}
    return KINDS.get(hint) or (by_class(classes) if len(classes) > 1 else record(hint))


@maker(0)
def plain(base: Any, note: fields.Number | fields.Choice, found: Any, at: At) -> Any:
    """Move a bool, text or number of Python's, which NumPy's become; a float that is not finite is a word."""
    if not at.reads and isinstance(found, np.generic | np.ndarray):
        found = found.item()
    if base is float:
        found = NOT_FINITE.get(found, found) if isinstance(found, str) else found
        found = float(found) if type(found) is int and abs(found) <= MOST_FLOAT else found
    if must := _asked(base, note, found if type(found) is base else None):
        at.refuse(f"is {shown(found)}, and must be {must}")
    at.bound([getattr(note, "size", "")], [found])
    return str(found) if base is float and not at.reads and not math.isfinite(found) else found


def _asked(base: type, note: Any, found: Any) -> str:
    """Return what a value must be where it, or None in the place of one of another type, is not; else nothing."""
    if isinstance(note, fields.Choice):
        return "" if found in note.texts else f"one of {', '.join(note.texts)}"
    if base in (bool, str):
        return "" if found is not None else "true or false" if base is bool else "a text"
    if base is int:
        least, most = max(0, note.least), min(MOST, note.most)
        return "" if found is not None and least <= found <= most else f"a whole number from {least} to {most}"
    above = f" above {note.above}" if note.above > -math.inf else ""
    fits = found is not None and (math.isfinite(found) or not note.finite) and not found <= note.above > -math.inf
    return "" if fits else ("a finite number" if note.finite else "a number") + above


@maker(1)
def maybe(kind: Kind, found: Any, at: At, *, for_training: bool = False) -> Any:
    """Move a value that may be None, and is where it is of use to training alone and that is left out."""
    return None if found is None or (for_training and not at.training) else kind(found, at)


@maker(1)
def many(kind: Kind, found: Any, at: At, *, made: Any = list, size: str = "", least: int = 0) -> Any:
    """Move a list or tuple of values of one kind."""
    at.must(not at.reads or isinstance(found, list), "must be a list")
    at.must(len(found) >= least, f"has {len(found)} entries, and must have at least {least}")
    at.bound([size], [len(found)])
    moved = [kind(one, at.inside(number).apart()) for number, one in enumerate(found)]
    return made(moved) if at.reads else moved


def either(hints: Mapping[str, Any], which: Callable[[Any], str]) -> Kind:
    """Return the kind of one of several, each with a name in the file; `which` gives the name of a value's kind."""
    kinds = {name: kind_of(hint) for name, hint in hints.items()}

    def move(found: Any, at: At) -> Any:
        name, inner = only(found) if at.reads else (which(found), found)
        must = f"must be one of {', '.join(kinds)}" if at.reads else f"is {name}, which is not kept"
        moved = kinds[name](inner, at.inside(name)) if name in kinds else at.refuse(must)
        return moved if at.reads else {name: moved}

    return move


def by_class(classes: Mapping[str, type]) -> Kind:
    """Return the kind of a value of one of some classes, each with a name in the file."""
    names = {one: name for name, one in classes.items()}
    return either(classes, lambda value: names.get(type(value), f"of the class {type(value).__name__}"))


@maker(2)
def one_of(first: Kind, other: Kind, is_first: Callable[[Any], bool], found: Any, at: At) -> Any:
    """Move a value of one of two kinds, which a look at it, or at its JSON, tells apart."""
    return (first if is_first(found) else other)(found, at)


@dataclass(eq=False)
class Parts:
    """The kind of a value of named parts: `take` gives one of them, and `make` puts them together, or raises
    ValueError. Later parts may rely on the sizes that earlier ones name.
    """

    make: Callable[..., Any]
    parts: Mapping[str, Any]  # their annotations, notes or kinds
    take: Callable[[Any, str], Any] = getattr

    def __post_init__(self) -> None:
        self.parts = {name: kind_of(hint) for name, hint in self.parts.items()}

    def __call__(self, found: Any, at: At, make: Callable[..., Any] | None = None) -> Any:
        """Return the JSON of each part, or the value of all, which another `make` may put together."""
        at = at.apart()
        if not at.reads:
            return {name: kind(self.take(found, name), at.inside(name)) for name, kind in self.parts.items()}
        nodes = exactly(found, [*self.parts], at)
        named = zip(self.parts.items(), nodes, strict=True)
        parts = {name: kind(one, at.inside(name)) for (name, kind), one in named}
        try:
            value = (make or self.make)(**parts)
            must(not (text := broken(value)), text)
        except ValueError as error:
            at.refuse(f"cannot be: {error}")
        return value


def record(made: type, without: Sequence[str] = (), **others: Any) -> Parts:
    """Return how a value of a dataclass is kept: by its fields, but those that are `without`, and by `others`."""
    hints = get_type_hints(made, include_extras=True)
    names = [one.name for one in dataclasses.fields(made) if one.name not in without]
    marks = {name: getattr(hints[name], "__metadata__", ()) for name in names}
    inline = {name: record(get_args(hints[name])[0]) for name in names if fields.INLINE in marks[name]}
    not_kept = [name for name in names if fields.NOT_KEPT in marks[name]]
    parts: dict[str, Any] = {}
    for name in names:
        parts |= inline[name].parts if name in inline else {} if name in not_kept else {name: hints[name]}

    def take(value: Any, name: str) -> Any:
        return getattr(next((getattr(value, one) for one in inline if name in inline[one].parts), value), name)

    def make(**found: Any) -> Any:
        for name, inner in inline.items():
            found[name] = inner.make(**{part: found.pop(part) for part in inner.parts})
        return made(**found, **dict.fromkeys(not_kept))

    return Parts(make, parts | others, take)


@maker(0)
def array(note: fields.Array, found: Any, at: At) -> Any:
    """Move an array of numbers to a member of the archive, or from it; a header is checked before values are read."""
    shape = note.shape.split()

    def match(header: Any) -> None:
        if header.dtype.str[1:] not in note.dtype or len(header.shape) != len(shape):
            must = f"{' or '.join(note.dtype)} of shape ({', '.join(shape)})"
            at.refuse(f"is an array of {header.dtype} of shape {header.shape}, and must be one of {must}")
        at.bound(shape, header.shape)

    if at.reads:
        name, crc = exactly(found, ("npy", "crc32"), at)
        if name != f"{at.place}.npy" or not isinstance(crc, int):
            at.refuse(f"names {shown(name)} as its array, and must name {at.place}.npy with its check sum")
        values = at.store.array(name, crc, match)
    elif isinstance(found, np.ndarray):
        match(values := found)
    else:
        at.refuse(f"is {shown(found)}, and must be an array")
    for holds, text in _of_numbers(note, values, at.sizes):
        at.must(holds, text)
    return values if at.reads else at.store.keep(at.place, values)


def _of_numbers(note: fields.Array, values: Any, sizes: Mapping[str, int]) -> Conditions:
    """Give what must hold of the numbers of an array."""
    if values.dtype.kind == "f" and note.holds != "any":
        yield not np.isnan(values).any(), "holds NaN"
        yield note.holds == "numbers" or np.isfinite(values).all(), "holds infinity"
    if values.size:
        most, low = sizes.get(note.below, 0), values.min()
        less, below = (values.max() < most, f" that are less than {most:,}") if note.below else (True, "")
        yield less and not low < note.least, f"must hold numbers from {note.least} on{below}"
        yield not low <= note.above > -math.inf, f"must hold numbers above {note.above}"
        fits = note.order == "any" or (values[1:] >= values[:-1]).all()
        distinct = note.order != "strictly ascending" or (values[1:] != values[:-1]).all()
        yield fits and distinct, f"must be in {note.order} order"


def is_array(value: Any) -> bool:
    """Return whether a value is a dense array, or JSON that of one."""
    return isinstance(value, np.ndarray) or (isinstance(value, dict) and "npy" in value)


def rows(note: fields.Rows) -> Kind:
    """Return the kind of a table of rows: a dense array, or a CSR matrix in canonical form."""
    parts = {
        "matrix": bool,
        "shape": tuple[Annotated[int, fields.Number(most=2**62)], ...],
        "data": fields.Array("stored", dtype=note.dtype),
        "indices": fields.Array("stored", dtype=fields.INTEGERS),
        "indptr": fields.Array("bounds", dtype=fields.INTEGERS, order="ascending"),
    }
    dense = array(fields.Array(f"{note.rows} d", dtype=note.dtype))
    csr = Parts(_csr, parts, lambda one, part: isinstance(one, sp.spmatrix) if part == "matrix" else getattr(one, part))

    def move(found: Any, at: At) -> Any:
        if is_array(found):
            return dense(found, at)
        value = csr(found, at.inside("csr")) if at.reads else found
        canonical = value.format == "csr" and value.has_canonical_format
        at.must(canonical, f"is a sparse {value.format} matrix, and must be a CSR one in canonical form")
        at.bound((note.rows, "d"), value.shape)
        return value if at.reads else csr(value, at.inside("csr"))

    return move


def _csr(matrix: bool, shape: tuple[int, ...], data: Any, indices: Any, indptr: Any) -> Any:
    """Return a CSR matrix of arrays; ValueError, SciPy's or of here, says that they are those of none."""
    must(len(shape) == 2 and len(indptr) and indptr[-1] == len(data), "its shape and rows are not those of its numbers")
    found = (sp.csr_matrix if matrix else sp.csr_array)((data, indices, indptr), shape=shape)
    found.check_format(full_check=True)
    return found


KINDS_OF_NOTES |= {fields.Array: array, fields.Rows: rows}
