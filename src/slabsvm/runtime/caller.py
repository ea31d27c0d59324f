"""The line outside of this package that a warning points to."""

from __future__ import annotations

import sys

# Frames of these packages lie between a caller and a warning: scikit-learn's are its wrappers of fit.
INNER = frozenset({"slabsvm", "sklearn"})


def callers_level() -> int:
    """Return the stacklevel by which `warnings.warn`, called where this is called, names the first line outside."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in INNER:
        level, frame = level + 1, frame.f_back
    return level
