"""One-class slab support vector machines: learn from positive examples alone, with a certificate on every fit.

This folder holds what users import by name; everything else lives in the folders below, of which each imports only
from those before it: runtime, data, kernels, svm, fitted, detectors, conformal, ensemble, openset, monitor,
tables, display, files, command. The folder core holds C++, of which the module slabsvm.core is built.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slabsvm.conformal.detector import ConformalDetector
    from slabsvm.detectors.answers import explain, p_values
    from slabsvm.detectors.kernel_density import KernelDensityDetector
    from slabsvm.detectors.kernel_pca import KernelPCADetector
    from slabsvm.detectors.one_class_svm import OneClassSVM
    from slabsvm.detectors.slab import OneClassSlabSVM
    from slabsvm.detectors.svdd import SVDD
    from slabsvm.ensemble.auto import AutoDetector
    from slabsvm.ensemble.neighbours import NeighboursDetector
    from slabsvm.ensemble.ranks import NormalScores
    from slabsvm.ensemble.trimmed import TrimmedDetector
    from slabsvm.fitted.warnings import FitWarning
    from slabsvm.monitor import DriftMonitor
    from slabsvm.openset.classifier import OpenSetClassifier
    from slabsvm.runtime.caller import ExtraMissingError
    from slabsvm.tables.encoder import TableEncoder

__all__ = [
    "SVDD",
    "AutoDetector",
    "ConformalDetector",
    "DriftMonitor",
    "ExtraMissingError",
    "FitWarning",
    "KernelDensityDetector",
    "KernelPCADetector",
    "NeighboursDetector",
    "NormalScores",
    "OneClassSVM",
    "OneClassSlabSVM",
    "OpenSetClassifier",
    "TableEncoder",
    "TrimmedDetector",
    "__version__",
    "explain",
    "p_values",
]

__version__ = "0.3.0"

# Fetched on first use, so that `slabsvm --help` does not wait for scikit-learn.
HOMES = {
    "SVDD": "detectors.svdd",
    "AutoDetector": "ensemble.auto",
    "ConformalDetector": "conformal.detector",
    "DriftMonitor": "monitor",
    "ExtraMissingError": "runtime.caller",
    "FitWarning": "fitted.warnings",
    "KernelDensityDetector": "detectors.kernel_density",
    "KernelPCADetector": "detectors.kernel_pca",
    "NeighboursDetector": "ensemble.neighbours",
    "NormalScores": "ensemble.ranks",
    "OneClassSVM": "detectors.one_class_svm",
    "OneClassSlabSVM": "detectors.slab",
    "OpenSetClassifier": "openset.classifier",
    "TableEncoder": "tables.encoder",
    "TrimmedDetector": "ensemble.trimmed",
    "explain": "detectors.answers",
    "p_values": "detectors.answers",
}


def __getattr__(name: str) -> Any:
    if name in HOMES:
        return getattr(importlib.import_module(f"slabsvm.{HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
