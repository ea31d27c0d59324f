"""What is said to callers: numbers with their nouns, what a terminal may show, and warnings at the line outside."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import currentframe


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, "1 row" or "2,000 rows"; the plural is noun + s unless it is given."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def escaped(text: str) -> str:
    """Return a text in one line, in which nothing means anything to a terminal.

    Whoever has named a file or a column may be another than who reads of it.
    """
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


# Frames of these packages lie between a caller and a warning: scikit-learn's are its wrappers of fit, joblib's run it.
INNER = frozenset({"slabsvm", "sklearn", "joblib"})

# A warning as it was given: its text and category.
Warned = tuple[str, type[Warning]]

_SILENCED: ContextVar[tuple[type[Warning], ...]] = ContextVar("_SILENCED", default=())
_GATHERED: ContextVar[list[Warned] | None] = ContextVar("_GATHERED", default=None)


def warn(text: str, category: type[Warning]) -> None:
    """Warn at the first line outside, unless it is `silenced` or `gathered`."""
    if issubclass(category, _SILENCED.get()):
        return
    others = _GATHERED.get()
    if others is None:
        warnings.warn(text, category, stacklevel=callers_level())
    else:
        others.append((text, category))


@contextmanager
def silenced(category: type[Warning]) -> Iterator[None]:
    """Give no warning of a category by `warn`, for what another object says in its place.

    This holds in this thread alone. The filters of `warnings` are the whole process's: threads that change them for a
    while restore each other's, and may leave them changed.
    """
    token = _SILENCED.set((*_SILENCED.get(), category))
    try:
        yield
    finally:
        _SILENCED.reset(token)


@contextmanager
def gathered() -> Iterator[list[Warned]]:
    """Gather what `warn` is given in this thread, for another object that says of which part it is true."""
    warned: list[Warned] = []
    token = _GATHERED.set(warned)
    try:
        yield warned
    finally:
        _GATHERED.reset(token)


def callers_level() -> int:
    """Return the stacklevel by which `warnings.warn`, called where this is called, names the first line outside."""
    level, frame = 0, currentframe()
    while (
        frame is not None
        and frame.f_back is not None
        and frame.f_globals.get("__name__", "").partition(".")[0] in INNER
    ):
        level, frame = level + 1, frame.f_back
    return level
