"""Model files: what is read must be refused, or decide."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

MODULES = ("slabsvm.files.models", "skops.io._audit", "skops.io._general", "skops.io._numpy", "skops.io._scipy")
# Rows of more features are not made for a model that claims to take them.
MOST_FEATURES = 100


def prepare(folder: Path) -> tuple[Callable[[bytes], object], tuple[type[BaseException], ...]]:
    """Prepare `load`, and decisions of what it returns."""
    import numpy as np
    import skops.io  # noqa: F401 - it imports all of scikit-learn, parts of which unpickle their own tables

    from slabsvm import DriftMonitor
    from slabsvm.files import ModelFileError, load

    file = folder / "model.skops"
    rows = np.random.default_rng(1).gamma(2.0, size=(3, MOST_FEATURES))

    def decide(model: Any) -> None:
        if isinstance(model, DriftMonitor):
            model.update(rows[:, :2])
            model.summary()
        n_features = getattr(model, "n_features_in_", 0)
        if 0 < n_features <= MOST_FEATURES:
            for method in ("decision_function", "transform"):
                if hasattr(model, method):
                    getattr(model, method)(rows[:, :n_features])

    def read(content: bytes) -> None:
        file.write_bytes(content)
        model = load(file)
        # Values are not checked: what is read may be another model, or none that can decide.
        errors = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError)
        with warnings.catch_warnings(), suppress(*errors):
            warnings.simplefilter("ignore")
            decide(model)

    return read, (ModelFileError,)


def seeds(folder: Path) -> list[bytes]:
    from slabsvm.files import save

    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for model in _fitted():
            save(model, folder / "seed.skops")
            found.append((folder / "seed.skops").read_bytes())
    return found


def _fitted() -> Iterator[Any]:
    import numpy as np
    import scipy.sparse as sp
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, QuantileTransformer, RobustScaler, StandardScaler
    from sklearn.svm import SVC

    import slabsvm

    X = np.random.default_rng(0).gamma(2.0, size=(12, 2))
    y = np.arange(12) % 2
    table = np.array([[one, "red" if one > 2 else "blue"] for one, _ in X], dtype=object)
    slab = slabsvm.OneClassSlabSVM
    yield slab()
    for kernel in ("rbf", "linear", "intersection", "hellinger", "chi2"):
        yield slab(kernel=kernel).fit(X)
    yield slab(kernel="linear", calibration="training").fit(sp.csr_array(np.round(X)))
    yield slab().fit(sp.csr_matrix(np.round(X)))
    for model in (slabsvm.OneClassSVM(), slabsvm.SVDD(), slabsvm.KernelPCADetector(), slabsvm.KernelDensityDetector()):
        yield model.fit(X)
    yield slabsvm.AutoDetector().fit(X)
    yield slabsvm.TrimmedDetector(slab()).fit(X)
    calibrated = slabsvm.ConformalDetector(make_pipeline(StandardScaler(), slab(kernel="linear"))).fit(X)
    yield calibrated
    yield slabsvm.OpenSetClassifier().fit(X, y)
    yield slabsvm.OpenSetClassifier(classifier=SVC()).fit(X, y)
    yield slabsvm.DriftMonitor(calibrated).fit()
    watched = slabsvm.DriftMonitor(slab().fit(X)).fit(X + 0.5)
    watched.update(X)
    yield watched
    yield make_pipeline(SimpleImputer(add_indicator=True), MinMaxScaler(), slab(kernel="linear")).fit(X)
    yield make_pipeline(ColumnTransformer([("some", StandardScaler(), [0])], remainder=MinMaxScaler()), slab()).fit(X)
    yield make_pipeline(RobustScaler(), QuantileTransformer(n_quantiles=4), slabsvm.SVDD()).fit(X)
    yield make_pipeline(OneHotEncoder(drop="if_binary"), slab(kernel="linear")).fit(table[:, 1:])
    yield make_pipeline(slabsvm.TableEncoder(), slabsvm.OneClassSVM()).fit(table)
