"""The line outside of this package that a warning points to, or that it is not given."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# Frames of these packages lie between a caller and a warning: scikit-learn's are its wrappers of fit, joblib's run it.
INNER = frozenset({"slabsvm", "sklearn", "joblib"})

_SILENCED: ContextVar[tuple[type[Warning], ...]] = ContextVar("_SILENCED", default=())


def warn(text: str, category: type[Warning]) -> None:
    """Warn at the first line outside, unless it is `silenced`."""
    if not issubclass(category, _SILENCED.get()):
        warnings.warn(text, category, stacklevel=callers_level())


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


def callers_level() -> int:
    """Return the stacklevel by which `warnings.warn`, called where this is called, names the first line outside."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in INNER:
        level, frame = level + 1, frame.f_back
    return level
