"""What the fields of fitted values hold, beside their types: notes in annotations, which model files are checked by.

    rows: Annotated[IndexArray, Places("n_SV", below="rows")]

Sizes have names, such as "rows" and "d", and agree within an estimator. What a type says by itself needs no note:
float is finite, int is no less than 0, and another dataclass has fields of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

FLOATS = ("f8", "f4")
INTEGERS = ("i8", "i4")
NUMBERS = (*FLOATS, *INTEGERS, "i2", "i1", "u8", "u4", "u2", "u1", "b1")


@dataclass(frozen=True)
class Array:
    """An array of numbers."""

    shape: str  # the names of its sizes, with spaces between them
    dtype: tuple[str, ...] = field(default=("f8",), kw_only=True)  # those that it may have
    holds: str = field(default="finite", kw_only=True)  # or "numbers", which may be infinite, or "any", with NaN
    least: float = field(default=-math.inf, kw_only=True)
    above: float = field(default=-math.inf, kw_only=True)
    below: str = field(default="", kw_only=True)  # a size that all are less than, or ""
    order: str = field(default="any", kw_only=True)  # or "ascending", where some may be equal, or "strictly ascending"


def Places(shape: str, *, below: str) -> Array:  # noqa: N802, since it is used as a class is
    """Return the note of places among so many things, counted from 0."""
    return Array(shape, dtype=("i8",), least=0, below=below)


@dataclass(frozen=True)
class Rows:
    """A dense array of numbers, (rows, columns), or a CSR matrix in canonical form."""

    rows: str
    columns: str = "d"
    dtype: tuple[str, ...] = field(default=FLOATS, kw_only=True)


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number, float or int, from `least` to `most` and larger than `above`."""

    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf
    finite: bool = True
    size: str = ""  # the size that the number is, or ""


@dataclass(frozen=True)
class Choice:
    """A text that is one of these."""

    texts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Many:
    """A list or tuple, of a length that may have a name."""

    size: str = ""
    least: int = 0


@dataclass(frozen=True)
class FittedEstimator:
    """A fitted estimator: of these public names, or of any; of features whose number has a name; with this method."""

    names: tuple[str, ...] = ()
    features: str = field(default="d", kw_only=True)
    answers: str = field(default="", kw_only=True)


@dataclass(frozen=True)
class Mark:
    """What becomes of a field as a whole."""

    text: str


FOR_TRAINING = Mark("prediction does not need it, and a file may leave it out: it is None then")
LATER = Mark("files of earlier versions lack it: it is None then")
NOT_KEPT = Mark("no file has it: it is None in a model that was read")
INLINE = Mark("its own fields stand beside those of what it is in")
