"""One-class slab support vector machines: learn from positive examples alone, with a certificate on every fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slabsvm.svm import OneClassSlabSVM, SlabCollapseWarning

__all__ = ["OneClassSlabSVM", "SlabCollapseWarning", "__version__"]

__version__ = "0.1.0.dev0"


def __getattr__(name: str) -> Any:
    # Fetched on first use, so that `slabsvm --help` does not wait for scikit-learn.
    if name in __all__:
        from slabsvm import svm

        return getattr(svm, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
