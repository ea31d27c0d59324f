"""The libraries of optional extras: what is said where one is not installed."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Self


class ExtraMissingError(ImportError):
    """A library of an optional extra is not installed, or does not load. The text says what to install.

    Attributes
    ----------
    name : str
        The library.
    """

    @classmethod
    def of(cls, purpose: str, library: str, extra: str, why: str = "") -> Self:
        """Return the error that says what for, and which extra brings the library.

        Parameters
        ----------
        purpose : str
            What needs the library, a subject in the singular: "A figure".
        library : str
        extra : str
            As pip takes it: "slabsvm[plots]".
        why : str, default=""
            Why a library that is installed does not load.
        """
        lack = f"is installed and does not load ({why})" if why else "is not installed"
        return cls(f"{purpose} needs {library}, which {lack}. Install it with: pip install '{extra}'", name=library)


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
