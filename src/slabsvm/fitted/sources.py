"""How an estimator reads rows that need not fit into memory: where they are, if they can be read there."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import validate_data

from slabsvm.data.checks import canonical, is_plain, reading, without_unit
from slabsvm.data.passes import STRETCH_BYTES, Local, Source
from slabsvm.fitted.weighting import checked_weights
from slabsvm.runtime.arrays import FloatArray


def source_of(
    estimator: BaseEstimator, X: Any, sample_weight: Any, *, n_jobs: int | None, stretch_bytes: int = STRETCH_BYTES
) -> Source:
    """Return the rows to learn from, of which the estimator takes the number and names of features.

    A Dask array stays on its workers. Whether values are finite is for the first pass to see.
    """
    if is_dask(X):
        from slabsvm.data.passes import DaskBlocks

        source = DaskBlocks(X, sample_weight, stretch_bytes)
        if source.weights is not None:
            source.weights = _without_unit(source.weights, source.weights)
        estimator.__dict__.pop("feature_names_in_", None)
        estimator.n_features_in_ = source.n_features
        return source
    X = rows_in_place(estimator, X, reset=True)
    return Local(X, _without_unit(sample_weight, X), effective_n_jobs(n_jobs), stretch_bytes)


def rows_in_place(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Return X as it is, if it is an array or CSR matrix of floats, whose values are checked when they are read."""
    with reading(X):
        X = _read(estimator, X, reset=reset)
    return canonical(X) if sp.issparse(X) else X


def rows_in_memory(estimator: BaseEstimator, X: Any) -> Any:
    """Return rows to explain, which are finite and in memory."""
    if is_dask(X):
        raise ValueError("explain needs rows in memory: pass X.compute(), with the rows to explain.")
    X = rows_in_place(estimator, X, reset=False)
    refuse_what_is_not_finite(X)
    return X


def refuse_what_is_not_finite(rows: Any) -> None:
    """Raise ValueError where rows hold NaN or infinity."""
    if is_plain(rows):
        return
    with reading(rows), np.errstate(invalid="ignore"):
        assert_all_finite(rows, input_name="X")


def is_dask(X: Any) -> bool:
    """Return whether X is one of Dask's collections."""
    return type(X).__module__.partition(".")[0] == "dask"


def _without_unit(sample_weight: Any, X: Any) -> FloatArray | None:
    """Return weights of which only the ratios count, or None."""
    weights = checked_weights(sample_weight, X)
    return None if weights is None else without_unit(weights)[0]


def _read(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    plain = type(X) in (np.ndarray, np.memmap) or (sp.issparse(X) and X.format == "csr")
    least = 2 if reset else 1
    if plain and X.ndim == 2 and X.dtype in (np.float32, np.float64) and X.shape[0] >= least and X.shape[1] >= 1:
        return validate_data(estimator, X, reset=reset, skip_check_array=True)
    return validate_data(
        estimator, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=least
    )
