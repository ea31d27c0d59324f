"""Where in a model a value is, for what is said of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from slabsvm.files.models.archive import ModelFileError


@dataclass(frozen=True)
class At:
    """Where in a model a value is, and what is known of its estimator.

    Attributes
    ----------
    place : str
        The names that lead there, joined by points: the name of an array's member.
    store : Outgoing or Incoming
    classes : mapping
        From the name of a class in files to how it is kept.
    training : bool
        Whether what prediction does not need is kept too.
    sizes : dict
        The sizes that have names.
    depth : int
        How many estimators this is inside of.
    """

    place: str
    store: Any
    classes: Mapping[str, Any]
    training: bool
    sizes: dict[str, int]
    depth: int = 0

    def inside(self, name: str | int) -> At:
        """Return the place of a part."""
        return replace(self, place=f"{self.place}.{name}")

    def apart(self, name: str | int) -> At:
        """Return the place of a part whose further sizes are its own."""
        return replace(self, place=f"{self.place}.{name}", sizes=dict(self.sizes))

    def estimator(self) -> At:
        """Return the same place for what is in an estimator that is there: its sizes are its own."""
        return replace(self, sizes={}, depth=self.depth + 1)

    def refuse(self, text: str) -> NoReturn:
        """Raise the error that says what is wrong with the value."""
        raise ModelFileError(f"{self.place} {text}")

    def bound(self, size: str, value: int) -> None:
        """Give a size its value, or refuse another one."""
        known = self.sizes.setdefault(size, value)
        if known != value:
            self.refuse(f"is of size {value:,}, where {known:,} ({size}) are expected")


def exactly(node: Any, names: tuple[str, ...], at: At) -> tuple[Any, ...]:
    """Return the values of an object that has these names, and no other."""
    if not isinstance(node, dict):
        at.refuse(f"is {shown(node)}, and must have the parts {', '.join(names)}")
    if set(node) != set(names):
        strange, lacking = sorted(set(node) - set(names)), sorted(set(names) - set(node))
        at.refuse(f"has the parts {strange} too many and {lacking} too few")
    return tuple(node[name] for name in names)


def shown(value: Any) -> str:
    """Return a value for a message."""
    text = repr(value) if isinstance(value, str | int | float | bool | None) else f"of type {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:60]}..."
