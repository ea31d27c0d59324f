"""Objects: methods that change all or nothing, properties that are computed once, and notes of what fields hold.

Notes stand in annotations, beside the types of the fields of fitted values, and model files are checked by them:

    rows: Annotated[IndexArray, Places("n_SV", below="rows")]

Sizes have names, such as "rows" and "d", and agree within an estimator. What a type says by itself needs no note:
float is finite, int is no less than 0, and another dataclass has fields of its own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import numpy as np
from sklearn import get_config, set_config
from sklearn.utils import check_random_state

Method = TypeVar("Method", bound=Callable[..., Any])
Value_co = TypeVar("Value_co", covariant=True)
FLOATS = ("f8", "f4")
INTEGERS = ("i8", "i4")


def atomic(method: Method) -> Method:
    """Return a method that changes its object once, when it has succeeded.

    The method works on a copy, whose attributes are taken over by one assignment: an exception at any moment leaves the
    object unchanged, and a thread that uses it meanwhile sees the old attributes. scikit-learn's configuration is as
    before, too: interrupted inside of its `config_context`, it would go on without validation of parameters in this
    thread.
    """

    @functools.wraps(method)
    def whole(self: Any, *args: Any, **kwargs: Any) -> Any:
        successor = object.__new__(type(self))
        successor.__dict__.update(self.__dict__)
        configuration = get_config()
        try:
            answer = method(successor, *args, **kwargs)
        except BaseException:
            set_config(**configuration)
            raise
        self.__dict__ = dict(successor.__dict__)
        return self if answer is successor else answer

    return cast(Method, whole)


def seed_of(random_state: Any) -> int:
    """Return a seed drawn from a random_state of scikit-learn's: an int, a RandomState or None."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


class cached_property(functools.cached_property[Value_co]):  # noqa: N801 - as that of functools
    """`functools.cached_property` as it is from Python 3.12 on, without a lock, on which threads and forked processes
    wait.
    """

    def __init__(self, compute: Callable[[Any], Value_co]) -> None:
        super().__init__(compute)
        self.lock = nullcontext()


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
    """A dense array of numbers, (rows, d), or a CSR matrix in canonical form."""

    rows: str
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
    """A list or tuple."""

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
NOT_KEPT = Mark("no file has it: it is None in a model that was read")
INLINE = Mark("its own fields stand beside those of what it is in")
