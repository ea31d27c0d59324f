"""The kinds of values that a model is made of: what each is in a file, and what is accepted for it when it is read.

A kind is stated once and serves both ways. What has been saved can be read, since both ways check it alike: a type, a
range, a dtype, and a shape whose sizes have names, such as ("n", "d"), and must agree within an estimator.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from slabsvm.files.models.archive import At, exactly, shown

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
    """A value that JSON has."""

    def write(self, value: Any, at: At) -> Any:
        """Return the value itself."""
        return self.read(value, at)

    def read(self, node: Any, at: At) -> Any:
        """Return the value itself."""
        if not self.holds(node):
            at.refuse(f"is {shown(node)}, and must be {self}")
        return node

    @abstractmethod
    def holds(self, value: Any) -> bool:
        """Return whether a value is of this kind."""

    @abstractmethod
    def __str__(self) -> str:
        """Return the kind in words."""


class Flag(_Plain):
    """True or false."""

    def write(self, value: Any, at: At) -> Any:
        """Return the value as Python's."""
        return super().write(bool(value) if isinstance(value, np.bool_) else value, at)

    def holds(self, value: Any) -> bool:
        """Return whether it is."""
        return isinstance(value, bool)

    def __str__(self) -> str:
        return "true or false"


class Text(_Plain):
    """A text, or one of some.

    Parameters
    ----------
    *choices : str
        None: any.
    """

    def __init__(self, *choices: str) -> None:
        self.choices = choices

    def holds(self, value: Any) -> bool:
        """Return whether it is."""
        return isinstance(value, str) and (not self.choices or value in self.choices)

    def __str__(self) -> str:
        return "a text" if not self.choices else f"one of {', '.join(self.choices)}"


class Whole(_Plain):
    """A whole number.

    Parameters
    ----------
    least, most : int, default=0, 2^63 - 1
    names : str, default=""
        The size that it is.
    """

    def __init__(self, least: int = 0, most: int = 2**63 - 1, *, names: str = "") -> None:
        self.least = least
        self.most = most
        self.names = names

    def write(self, value: Any, at: At) -> Any:
        """Return the number as Python's."""
        return super().write(int(value) if isinstance(value, np.integer) else value, at)

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


class Number(Kind):
    """A float of 64 bits; one that is not finite is a word in the file.

    Parameters
    ----------
    above : float, default=-inf
        The number is larger.
    finite : bool, default=True
    """

    def __init__(self, *, above: float = -math.inf, finite: bool = True) -> None:
        self.above = above
        self.finite = finite

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


class Maybe(Kind):
    """A value that may be None.

    Parameters
    ----------
    kind : Kind
    """

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

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
    """A part of an estimator that files of earlier versions lack, which is None then."""


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


class Many(Kind):
    """A list of values of one kind.

    Parameters
    ----------
    kind : Kind
    names : str, default=""
        The name of its length.
    least : int, default=0
    """

    def __init__(self, kind: Kind, *, names: str = "", least: int = 0) -> None:
        self.kind = kind
        self.names = names
        self.least = least

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


class Record(Kind):
    """A value of named parts, each of a kind.

    Parameters
    ----------
    make : callable
        It takes the parts by their names and returns the value. ValueError from it means that they do not belong
        together.
    parts : mapping from names to Kind
        Later parts may rely on the sizes that earlier ones name.
    take : callable, default=getattr
        It takes the value and a name and returns the part.
    apart : bool, default=False
        Whether the sizes that the parts name are their own.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        parts: Mapping[str, Kind],
        *,
        take: Callable[[Any, str], Any] = getattr,
        apart: bool = False,
    ) -> None:
        self.make = make
        self.parts = parts
        self.take = take
        self.apart = apart

    def write(self, value: Any, at: At) -> Any:
        """Return the JSON of its parts."""
        inner = self._inner(at)
        return {name: kind.write(self.take(value, name), inner.inside(name)) for name, kind in self.parts.items()}

    def read(self, node: Any, at: At) -> Any:
        """Return the value."""
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


class Either(Kind):
    """A value of one of some kinds, each with a name in the file.

    Parameters
    ----------
    kinds : mapping from names to Kind
    which : callable
        It takes a value and returns its kind's name, or a name that there is not for a value that is not kept.
    """

    def __init__(self, kinds: Mapping[str, Kind], which: Callable[[Any], str]) -> None:
        self.kinds = kinds
        self.which = which

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
    """A value that files of earlier schemas hold in other parts.

    Parameters
    ----------
    now : Kind
        What is written, and read where no part says otherwise.
    **before : Kind
        The kind of a value that has a part of this name.
    """

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
