"""Faults to plant into the library, one for each law of `tests/laws/`: small, and of the kind that the law is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp

import slabsvm.files
from slabsvm import core
from slabsvm.conformal.p_values import Ranking
from slabsvm.data import distinct
from slabsvm.detectors import base, kernelized, one_class_svm
from slabsvm.detectors.base import Detector
from slabsvm.detectors.support_vectors import SupportVectorDetector
from slabsvm.fitted.threshold import Calibration
from slabsvm.kernels.named import Linear
from slabsvm.svm.gram import Gram
from slabsvm.svm.program import DualProblem, Point, one_class


def after(owner: Any, name: str, change: Callable[..., Any]) -> AbstractContextManager[Any]:
    """Return the patch by which a function's result is changed, given the result and the arguments."""
    original = getattr(owner, name)
    return patch.object(owner, name, lambda *given, **named: change(original(*given, **named), *given))


@contextmanager
def gaps_too_small() -> Iterator[None]:
    """Report gaps half as large as they are, of solutions that are left as a descent finds them."""
    original, fit = Point.gap.func, core.fit
    rough = patch.object(core, "fit", lambda *given, **named: fit(*given, **{**named, "optimum": False}))
    with rough, patch.object(Point, "gap", property(lambda point: 0.5 * original(point))):
        yield


def quantiles_too_far_in() -> AbstractContextManager[Any]:
    return after(Calibration, "quantile", lambda found, _, scores, *__: found + 0.01 * float(np.ptp(scores)))


def not_to_the_end() -> AbstractContextManager[Any]:
    """Have scores without a sample move by a thousandth less than they should."""
    original = core.fit

    def lagging(*given: Any, groups: Any = None, **named: Any) -> Any:
        found = original(*given, groups=groups, **named)
        scores, without = found[1], found[5]
        if without.size:
            without += 1e-3 * ((scores if groups is None else scores[groups[1]]) - without)
        return found

    return patch.object(core, "fit", lagging)


def as_it_lies(model: Any, X: Any, checked: Any = base.validate_data, **named: Any) -> Any:
    """Read a table as it lies in memory, whatever its strides."""
    return checked(model, np.ravel(np.asarray(X), order="K").reshape(np.shape(X)), **named)


def offset_moved(model: Any, *_: Any) -> Any:
    """Move a model's offset in its last bit."""
    model.offset_ = float(np.nextafter(model.offset_, np.inf))
    return model


def counting(more: float) -> AbstractContextManager[Any]:
    """Have p-values count so many more scores than there are."""
    return after(Ranking, "p_values", lambda p, ranking, *_: p + more / (ranking.count + 1))


# By the laws' sentences what plants a fault.
FAULTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "a slabs gap is that of its multipliers and within tol": gaps_too_small,
    "every way to the optimum ends at the same scores with a true gap": gaps_too_small,
    "a slab of any scale is certified or refused in words": gaps_too_small,
    "a score is the sum over support vectors": lambda: after(
        SupportVectorDetector, "project", lambda scores, *_: scores * (1 + 1e-9)
    ),
    "nu bounds the rows outside and the rows that hold a plane": lambda: after(
        DualProblem, "offsets", lambda offsets, dual, scores: offsets + 0.01 * dual.signs * float(np.ptp(scores))
    ),
    "left out planes are quantiles of left out scores": quantiles_too_far_in,
    "a rivals threshold is a quantile of left out scores": quantiles_too_far_in,
    "what is left out scores what a refit gives it to within the gaps": not_to_the_end,
    "rows that are held out score as new rows and set the threshold and p values": lambda: after(
        SupportVectorDetector, "_new_scores", lambda scores, *_: scores * (1 + 1e-6)
    ),
    "a decision is the score less the offset and a prediction its sign": lambda: patch.object(
        Detector, "predict", lambda self, X: np.where(self.decision_function(X) >= 1e-3, 1, -1)
    ),
    "a model from a file answers what the one did that was saved": lambda: after(slabsvm.files, "load", offset_moved),
    "a p value counts the calibration scores that are no larger": partial(counting, -1.0),
    "of exchangeable scores no more have a small p value than it says": partial(counting, -1.0),
    "the p values of a calibrated detector count its calibration scores": partial(counting, 1.0),
    "the order of rows changes no bit": lambda: patch.object(
        distinct, "_row_hashes", lambda X, *_: np.arange(X.shape[0], dtype=np.uint64)
    ),
    "rows given twice at half their weights teach the same to the last bit": lambda: patch.object(
        distinct, "_exact_sums", lambda weights, firsts: np.add.reduceat(weights.astype(np.float32), firsts) * 1.0
    ),
    "a weight of three is three rows to the last bit": lambda: after(
        distinct,
        "_exact_sums",
        lambda sums, weights, firsts: sums * np.where(np.diff(firsts, append=len(weights)) > 1, 1 + 1e-15, 1.0),
    ),
    "a kernel matrix times a power of four gives scores times it to the last bit": lambda: after(
        kernelized, "_symmetric", lambda K, *_: K + 1e-12
    ),
    "a kernel matrix times a number gives scores times it": lambda: after(
        kernelized, "_symmetric", lambda K, *_: K + 0.1 * np.eye(len(K))
    ),
    "the unit of features is that of the kernel or of the root of gamma": lambda: after(
        Linear, "prepare", lambda rows, *_: rows + 0.1
    ),
    "the order of features does not matter": lambda: after(
        Detector, "_checked", lambda X, *_: X * (1 + 0.01 * np.arange(X.shape[1]))
    ),
    "where the origin is does not matter to the rbf kernel": lambda: after(
        Detector, "_checked", lambda X, *_: X * (1 + np.abs(X) / np.abs(X).max(initial=1e-300))
    ),
    "without an upper plane the slab is the one class svm to the last bit": lambda: patch.object(
        one_class_svm, "one_class", lambda weights, nu: one_class(weights, nu * (1 - 1e-15))
    ),
    "no layout of a dense table changes a bit": lambda: patch.object(base, "validate_data", as_it_lies),
    "no format of a sparse table changes a bit": lambda: patch.object(base, "canonical", lambda X: X),
    "numbers of another type are the same numbers": lambda: after(
        Detector, "_checked", lambda found, _, X: found if getattr(X, "dtype", 0) == np.float64 else found * (1 + 1e-15)
    ),
    "sparse rows are the dense ones as far as their products say": lambda: after(
        Detector, "_checked", lambda found, *_: found * 1.01 if sp.issparse(found) else found
    ),
    "every detector of any scale decides in numbers or refuses in words": lambda: after(
        Detector, "decision_function", lambda found, *_: np.where(np.abs(found) > 1e100, np.nan, found)
    ),
    "an indefinite matrix is refused or its certificate is true": lambda: patch.object(Gram, "check", lambda _: None),
}
