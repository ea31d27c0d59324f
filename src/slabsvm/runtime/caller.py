"""Messages to callers: counted nouns, text for a terminal, warnings at the caller's line, missing extras."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from inspect import currentframe
from typing import Self


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, "1 row" or "2,000 rows"; the plural is noun + s unless it is given."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def escaped(text: str) -> str:
    """Return a text in one line, in which nothing means anything to a terminal: somebody else may have written it."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def shown_progress(done: int, total: int, seconds: float) -> None:
    """Show on the standard error how many of all steps are done, in a line that the next one replaces."""
    end = "\n" if done >= total else ""
    sys.stderr.write(f"\r{done:,} of {counted(total, 'step')} done, {seconds:.0f} s left  {end}")
    sys.stderr.flush()


class ExtraMissingError(ImportError):
    """A library of an optional extra, `name`, is not installed, or does not load. The text says what to install."""

    @classmethod
    def of(cls, purpose: str, library: str, extra: str, why: str = "") -> Self:
        """Return the error for a purpose, such as "A figure", a library, its extra, and why it does not load if so."""
        lack = f"is installed and does not load ({why})" if why else "is not installed"
        # The package is in no index: there its name might be taken by somebody else.
        install = f"pip install '{extra.replace('slabsvm', '.')}', in your clone of slabsvm"
        return cls(f"{purpose} needs {library}, which {lack}. Install it with: {install}", name=library)


def require(purpose: str, library: str, extra: str) -> None:
    """Raise ExtraMissingError where a library is not installed. It is looked for, not loaded, which takes no time."""
    if find_spec(library) is None:
        raise ExtraMissingError.of(purpose, library, extra)


def load(purpose: str, library: str, extra: str) -> None:
    """Import a library; raise ExtraMissingError where it is not installed, or is of a version that does not load."""
    require(purpose, library, extra)
    try:
        importlib.import_module(library)
    except ImportError as error:
        raise ExtraMissingError.of(purpose, library, extra, str(error)) from error


# A warning as it was given: its text and category.
Warned = tuple[str, type[Warning]]

_SILENCED: ContextVar[tuple[type[Warning], ...]] = ContextVar("_SILENCED", default=())
_GATHERED: ContextVar[list[Warned] | None] = ContextVar("_GATHERED", default=None)


def warn(text: str, category: type[Warning]) -> None:
    """Warn at the first line outside slabsvm, scikit-learn and joblib, unless it is `silenced` or `gathered`."""
    if issubclass(category, _SILENCED.get()):
        return
    others = _GATHERED.get()
    if others is not None:
        others.append((text, category))
        return
    # scikit-learn's frames between a caller and a warning are its wrappers of fit, and joblib's run it.
    level, frame, inner = 1, currentframe(), ("slabsvm", "sklearn", "joblib")
    while frame and frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in inner:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


@contextmanager
def silenced(category: type[Warning]) -> Iterator[None]:
    """Give no warning of a category by `warn` in this thread; the filters of `warnings` are the whole process's."""
    token = _SILENCED.set((*_SILENCED.get(), category))
    try:
        yield
    finally:
        _SILENCED.reset(token)


@contextmanager
def gathered() -> Iterator[list[Warned]]:
    """Gather what `warn` is given in this thread, so that the caller can name the part that it is about."""
    warned: list[Warned] = []
    token = _GATHERED.set(warned)
    try:
        yield warned
    finally:
        _GATHERED.reset(token)
