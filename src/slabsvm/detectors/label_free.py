"""A scorer for scikit-learn's searches that needs no outliers: good rows that a detector has not learned judge it."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from slabsvm.detectors.answers import final_detector
from slabsvm.runtime.estimators import _safe_indexing


def label_free_score(estimator: Any, X: Any, y: Any = None) -> float:
    """Return how well a fitted detector fits held-out good rows: a scorer for `GridSearchCV` and `cross_val_score`.

    With r the recall that the detector promises, n the number of rows of X, and a the accepted share of 1,000 synthetic
    outliers (rows whose features come each from another row of X, drawn independently):

        least = r - sqrt(r (1 - r) / n)     the promised recall less one standard error
        score = 1 - a                       from 0 to 1, if the accepted share of X is at least this
        score = share - least               below 0, if it is less

    So a detector that keeps its recall always scores more than one that does not.

    The promised recall is 1 - nu, or of a slab about 1 - nu_lower - nu_upper; `recall` of `AutoDetector`; 1 - alpha of
    `ConformalDetector`; of `TrimmedDetector` that of its estimator. Do not search over these parameters: a detector
    that promises less is tighter, and scores more. The draws are seeded, so that all candidates meet the same synthetic
    outliers. Features that are independent of each other say nothing, as synthetic outliers are then good rows.

    Parameters
    ----------
    estimator : fitted detector of this package, or a pipeline or search that ends in one
    X : array-like, frame or sparse matrix of shape (n_samples, n_features)
        Good rows that the estimator has not learned: at least 2, of at least 2 features.
    y : ignored

    Returns
    -------
    score : float, the larger the better

    Raises
    ------
    ValueError
        If the estimator promises no recall, as detectors of other libraries (`ConformalDetector` gives them one), or
        takes kernel values; if X has fewer than 2 rows or features. scikit-learn's searches make a warning and a score
        of NaN of it, unless error_score="raise".

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from slabsvm import OneClassSVM
    >>> from slabsvm.metrics import label_free_score
    >>> generator = np.random.default_rng(0)
    >>> X = generator.normal(size=(300, 1)) + 0.1 * generator.normal(size=(300, 3))
    >>> bool(cross_val_score(OneClassSVM(), X, scoring=label_free_score).mean() > 0.5)
    True
    """
    del y  # a part of every scorer's signature
    check_is_fitted(estimator)
    promised = promised_recall(estimator)
    if get_tags(estimator).input_tags.pairwise:
        raise ValueError(
            "label_free_score makes synthetic outliers of features, and a precomputed kernel matrix has none. Pass the "
            "kernel as a function, kernel=..., and search over the features."
        )
    shape = X.shape if hasattr(X, "shape") else np.shape(X)
    if len(shape) != 2 or min(shape) < 2:
        raise ValueError(
            f"label_free_score combines the features of different rows, and X has the shape {tuple(shape)}, where at "
            "least 2 rows and 2 features are needed. Use fewer folds; for a single feature use the default parameters."
        )
    recall = _accepted(estimator, X)
    least = promised - np.sqrt(promised * (1.0 - promised) / shape[0])
    if recall < least:
        return float(recall - least)
    return 1.0 - _accepted(estimator, _marginals(X, np.random.default_rng(0)))


def promised_recall(estimator: Any) -> float:
    """Return the share of new good rows that a fitted detector's parameters ask to be accepted, or refuse it."""
    final = final_detector(estimator)
    if not hasattr(final, "_nominal_recall"):
        raise ValueError(
            f"{type(final).__name__} promises no recall of new good rows, so label_free_score cannot tell whether it "
            "keeps one. Use a detector of slabsvm, or ConformalDetector(detector, alpha=0.1) around it."
        )
    return float(final._nominal_recall())


def _accepted(estimator: Any, X: Any) -> float:
    return float(np.mean(np.asarray(estimator.predict(X)) == 1))


def _marginals(X: Any, generator: np.random.Generator) -> Any:
    """Return 1,000 rows whose features come each from any row of X, and of its kind (Breiman, Cutler 2003)."""
    (n, d), n_synthetic = X.shape if hasattr(X, "shape") else np.shape(X), 1000
    if sp.issparse(X):
        table, parts = sp.csc_array(X), []
        for feature in range(d):
            values = table.data[table.indptr[feature] : table.indptr[feature + 1]]
            drawn = generator.integers(n, size=n_synthetic)
            rows = np.flatnonzero(drawn < len(values))  # the others have drawn a zero that is not stored
            parts.append((values[drawn[rows]], rows, np.full(len(rows), feature)))
        entries, *places = (np.concatenate(part) for part in zip(*parts, strict=True))
        return sp.csr_array((entries, tuple(places)), shape=(n_synthetic, d))
    rows = generator.integers(n, size=(n_synthetic, d))
    if not hasattr(X, "columns"):
        return np.take_along_axis(np.asarray(X), rows, axis=0)
    columns = [np.asarray(_safe_indexing(X, place, axis=1))[some] for place, some in enumerate(rows.T)]
    return type(X)(dict(zip(X.columns, columns, strict=True)))
