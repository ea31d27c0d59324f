"""Models of every kind, and the digest of all that a fit of each leads to: what doing many at once must not change."""

import hashlib
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

import slabsvm
from slabsvm import (
    SVDD,
    AutoSlabSVM,
    ConformalDetector,
    KernelDensityDetector,
    KernelPCADetector,
    LabelFreeSearchCV,
    LinearOneClassSlabSVM,
    OneClassSlabSVM,
    OneClassSVM,
    OpenSetClassifier,
    TrimmedDetector,
    WindowedDetector,
)
from slabsvm.files import load, save

# The smallest model of each solver, kernel and wrapper.
MODELS: dict[str, Callable[[], Any]] = {
    "slab": OneClassSlabSVM,
    "slab, training planes": partial(OneClassSlabSVM, gamma="scale", offsets="training"),
    "slab, interior point": partial(OneClassSlabSVM, solver="interior-point"),
    "slab, linear": partial(OneClassSlabSVM, kernel="linear"),
    "slab, linear, interior point": partial(OneClassSlabSVM, kernel="linear", solver="interior-point"),
    "slab, intersection": partial(OneClassSlabSVM, kernel="intersection"),
    "slab, Hellinger": partial(OneClassSlabSVM, kernel="hellinger"),
    "slab, chi2": partial(OneClassSlabSVM, kernel="chi2"),
    "one-class SVM": OneClassSVM,
    "SVDD": SVDD,
    "kernel PCA": KernelPCADetector,
    "kernel density": KernelDensityDetector,
    "linear slab": partial(LinearOneClassSlabSVM, epsilon=0.2),
    "linear slab, Nystroem": partial(LinearOneClassSlabSVM, feature_map="nystroem", n_components=20),
    "average": partial(AutoSlabSVM, recall=0.8),
    "calibrated": partial(ConformalDetector, alpha=0.1),
    "calibrated, cross": partial(ConformalDetector, alpha=0.1, method="cross"),
    "open set": partial(OpenSetClassifier, alpha=0.1),
    "trimmed": TrimmedDetector,
    "window": WindowedDetector,
    "search": lambda: LabelFreeSearchCV(OneClassSVM(), {"nu": [0.1, 0.2]}, cv=3, criterion="volume"),
}
# No file keeps these.
UNKEPT = ("search", "trimmed", "window")
N_SAMPLES = 60


def rows(seed: int, n: int = N_SAMPLES, d: int = 4) -> np.ndarray:
    """Return rows around four places, none of them negative."""
    random = np.random.default_rng(seed)
    return np.abs(random.normal(2.0, 1.0, (4, d))[random.integers(4, size=n)] + random.normal(0.0, 0.5, (n, d)))


def fitted(model: Any, X: np.ndarray) -> Any:
    """Return the model, fitted; a classifier knows two classes. What fits warn of is no concern here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(model, X)


def fit(model: Any, X: np.ndarray) -> Any:
    """Fit as the model asks for."""
    return model.fit(X, np.arange(len(X)) % 2) if isinstance(model, OpenSetClassifier) else model.fit(X)


def answered(model: Any, seed: int) -> str:
    """Return the digest of a fitted model's answers to new rows, and of its file."""
    new = rows(seed + 1, 50)
    parts = [np.asarray(model.decision_function(new)).tobytes(), np.asarray(model.predict(new)).tobytes()]
    if isinstance(model, tuple(type(MODELS[name]()) for name in UNKEPT)):
        return digest(*parts)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.slab"
        save(model, path)
        parts += [path.read_bytes(), np.asarray(load(path).decision_function(new)).tobytes()]
    return digest(*parts)


def outcome(name: str, seed: int) -> str:
    """Return the digest of all that comes of a new model of this name."""
    return answered(fit(clone(MODELS[name]()), rows(seed)), seed)


def digest(*parts: bytes) -> str:
    """Return a hash of bytes."""
    return hashlib.sha256(b"|".join(parts)).hexdigest()


def outcomes(names: list[str], seed: int) -> dict[str, str]:
    """Return the digests of several models, by their names, in a process that ignores what they warn of."""
    warnings.simplefilter("ignore")
    return {name: outcome(name, seed) for name in names}


@contextmanager
def interrupted_after(seconds: float) -> Iterator[Callable[[], float]]:
    """Raise KeyboardInterrupt, as Ctrl-C does, after so many seconds; what is given says how long ago that was due."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    due = time.perf_counter() + seconds
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield lambda: time.perf_counter() - due
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def is_here() -> bool:
    """Return whether the package is the one beside these tests."""
    return Path(slabsvm.__file__).parents[2] == Path(__file__).parents[2]
