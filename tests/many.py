"""Models of every kind, and the digest of all that a fit of each leads to: what doing many at once must not change."""

import hashlib
import pickle
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from slabsvm import (
    SVDD,
    AutoDetector,
    ConformalDetector,
    FitWarning,
    KernelDensityDetector,
    KernelPCADetector,
    OneClassSlabSVM,
    OneClassSVM,
    OpenSetClassifier,
    TrimmedDetector,
)
from slabsvm.files import load, save

SLABS = ("linear", "intersection", "Hellinger", "chi2")
# The smallest model of each kind, kernel and wrapper.
MODELS: dict[str, Callable[[], Any]] = {
    "slab": OneClassSlabSVM,
    "slab, training planes": partial(OneClassSlabSVM, gamma="scale", calibration="training"),
    **{f"slab, {name}": partial(OneClassSlabSVM, kernel=name.lower()) for name in SLABS},
    "one-class SVM": OneClassSVM,
    "SVDD": SVDD,
    "kernel PCA": KernelPCADetector,
    "kernel density": KernelDensityDetector,
    "average": partial(AutoDetector, recall=0.8),
    "calibrated": partial(ConformalDetector, alpha=0.1),
    "open set": partial(OpenSetClassifier, alpha=0.1),
    "trimmed": TrimmedDetector,
}
# One of each kind of code, for quick tests; slow ones take all.
FEW = ("slab, training planes", "slab, linear", "slab, chi2", "kernel PCA", "calibrated", "open set")
N_SAMPLES = 60


def rows(seed: int, n: int = N_SAMPLES, d: int = 4) -> np.ndarray:
    """Return rows around four places, none of them negative."""
    random = np.random.default_rng(seed)
    return np.abs(random.normal(2.0, 1.0, (4, d))[random.integers(4, size=n)] + random.normal(0.0, 0.5, (n, d)))


def fitted(model: Any, X: np.ndarray) -> Any:
    """Return the model, fitted; a classifier knows two classes. What fits warn of is no concern here."""
    with warnings.catch_warnings(action="ignore"):
        return fit(model, X)


def fit(model: Any, X: Any) -> Any:
    """Fit as the model asks for."""
    return model.fit(X, np.arange(np.shape(X)[0]) % 2) if isinstance(model, OpenSetClassifier) else model.fit(X)


def kinds(X: np.ndarray, folder: Path) -> dict[str, Callable[[], Any]]:
    """Return the same rows in all that holds rows; numbers that float32 does not hold are rounded in some."""
    np.save(folder / "rows.npy", X)
    return {
        "float32": lambda: X.astype(np.float32),
        "fortran": lambda: np.asfortranarray(X),
        "csr": lambda: sp.csr_array(X),
        "csr32": lambda: sp.csr_matrix(X.astype(np.float32)),
        "csc": lambda: sp.csc_array(X),
        "memmap": lambda: np.load(folder / "rows.npy", mmap_mode="r"),
        "list": X.tolist,
        "frame": lambda: pd.DataFrame(X, columns=list("abcdefgh")[: X.shape[1]]),
        "int": lambda: X.astype(np.int64),
    }


def answered(model: Any, seed: int) -> str:
    """Return the digest of a fitted model's answers to new rows, of its state, and of the answers of its file."""
    new = rows(seed + 1, 50)
    parts = [np.asarray(model.decision_function(new)).tobytes(), np.asarray(model.predict(new)).tobytes()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.skops"
        save(model, path)
        parts += [joblib.hash(model).encode(), np.asarray(load(path).decision_function(new)).tobytes()]
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


# The package's own categories, and the one of scikit-learn's that its fits give themselves.
OWN = (FitWarning, ConvergenceWarning)
USUAL = rows(0)
# Usual rows, and odd ones.
ODD: dict[str, Callable[[], Any]] = {
    "usual": lambda: USUAL,
    "float32": lambda: USUAL.astype(np.float32),
    "integers": lambda: np.round(USUAL).astype(np.int8),
    "booleans": lambda: USUAL > 2.0,
    "a list": USUAL.tolist,
    "a frame": lambda: pd.DataFrame(USUAL, columns=list("abcd")),
    "a frame whose rows repeat": lambda: pd.DataFrame(USUAL > 2.0, columns=list("abcd")),
    "sparse, with zeros that are kept": lambda: sp.csr_array(
        (USUAL.ravel() * (USUAL.ravel() > 1), np.tile(np.arange(4), len(USUAL)), np.arange(0, USUAL.size + 1, 4)),
        shape=USUAL.shape,
    ),
    "read-only and strided": lambda: rows(0, 120)[::2],
    "constant feature": lambda: np.c_[USUAL, np.ones(len(USUAL))],
    "equal rows": lambda: np.ones((20, 3)),
    "two rows": lambda: USUAL[:2],
    "one row": lambda: USUAL[:1],
    "duplicates": lambda: np.repeat(USUAL[:10], 6, axis=0),
    "zeros": lambda: np.zeros((10, 3)),
    "tiny": lambda: 1e-150 * USUAL,
    "huge": lambda: 1e150 * USUAL,
    "too huge": lambda: 1e307 * USUAL,
    "subnormal": lambda: 1e-310 * USUAL,
    "one far away": lambda: np.r_[USUAL, [[1e12] * 4]],
    "one feature": lambda: USUAL[:, :1],
    "more features than rows": lambda: rows(0, 20, 60),
    "negative": lambda: USUAL - 3.0,
    "not finite": lambda: np.where(USUAL > 3, np.nan, USUAL),
}
ANSWERS = ("predict", "decision_function", "score_samples", "project", "p_values", "explain")


def escaped(name: str, kinds: Iterable[str]) -> tuple[int, list[str]]:
    """Make every public call of a model on rows of these kinds; return how many were answered, and what escaped.

    What escapes is a warning of no category of the package's own.
    """
    n_answered, found = 0, []
    with warnings.catch_warnings(action="error"):
        for category in OWN:
            warnings.simplefilter("ignore", category)
        for kind in kinds:
            given = ODD[kind]()
            width = np.shape(given)[1]
            # Rows without names are asked of a model that has learned none.
            of_kind = partial(pd.DataFrame, columns=given.columns) if hasattr(given, "columns") else np.asarray
            new = (of_kind(np.full((3, width), 1e100)), of_kind(np.zeros((2, width))))
            model = clone(MODELS[name]())
            fits = [partial(fit, model, given)]
            fits += [partial(model.fit_predict, given)] if hasattr(model, "fit_predict") else []
            for call in (*fits, *(partial(_asked, model, some) for some in (given, *new))):
                try:
                    call()
                    n_answered += 1
                except (ValueError, TypeError):
                    # Refused, with words; what is asked here is that nothing else is said.
                    break
                except Warning as warning:
                    found.append(f"{kind}: {type(warning).__name__}: {warning}")
    return n_answered, found


def _asked(model: Any, given: Any) -> None:
    """Ask all that can be asked of a fitted model."""
    for name in ANSWERS:
        if hasattr(model, name):
            with suppress(ValueError, AttributeError):
                getattr(model, name)(given)
    repr(model)
    model._repr_html_()
    if hasattr(model, "summary"):
        model.summary()
    with tempfile.TemporaryDirectory() as folder, suppress(ValueError):
        save(model, Path(folder) / "model")
        load(Path(folder) / "model")


def pickled(anything):
    """Return what comes of a pickle of something, as another process gets it."""
    return pickle.loads(pickle.dumps(anything))  # bytes that this line made
