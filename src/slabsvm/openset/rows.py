"""The training rows of each class, and which of them each fold of a calibration learns and holds out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from slabsvm.conformal.detector import ConformalDetector
from slabsvm.detectors.weighting import checked_weights
from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.runtime.sklearn_private import _check_method_params, _num_samples, _safe_indexing


@dataclass(frozen=True, eq=False)
class ClassRows:
    """The training rows of one class."""

    X: Any  # table of n rows
    weights: FloatArray | None  # (n,), or None where all weigh alike
    # The rows that each fold holds out. A class that is too small to hold any out has no fold.
    held_out: Sequence[IndexArray]

    def of(self, fold: int) -> IndexArray:
        """Return which rows a fold holds out; none, where other classes have more folds."""
        return self.held_out[fold] if fold < len(self.held_out) else np.empty(0, dtype=np.intp)

    def besides(self, fold: int) -> IndexArray:
        """Return which rows a fold learns."""
        return np.setdiff1d(np.arange(_num_samples(self.X)), self.of(fold))


def kept_of_classes(models: Sequence[Any], given: Sequence[tuple[Any, Mapping[str, Any]]]) -> list[ClassRows]:
    """Return the rows that models were given, with parameters of fit, a class each."""
    return [kept_of(model, X, parameters) for model, (X, parameters) in zip(models, given, strict=True)]


def kept_of(model: ConformalDetector, X: Any, parameters: Mapping[str, Any]) -> ClassRows:
    """Return the rows of a class that its calibrated model has been given, with these parameters of fit.

    A class too small to hold rows out has learned those that calibrate its model.
    """
    weights = checked_weights(parameters.get("sample_weight"), X)
    return ClassRows(X, weights, [] if model.method == "prefit" else model._held_out)


@dataclass(frozen=True, eq=False)
class Stack:
    """Rows of several classes, one class after the other."""

    X: Any  # table of n rows
    place: IndexArray  # (n,): the place of each row's class
    weights: FloatArray | None  # (n,), or None where all weigh alike

    @property
    def counts(self) -> FloatArray:
        """How many rows each stands for."""
        return np.ones(len(self.place)) if self.weights is None else self.weights


def stacked(rows: Sequence[ClassRows], chosen: Sequence[IndexArray]) -> Stack:
    """Return the chosen rows of each class in one table."""
    some = [place for place, own in enumerate(chosen) if len(own)]
    weighted = any(one.weights is not None for one in rows)
    weights = [np.ones(_num_samples(one.X)) if one.weights is None else one.weights for one in rows]
    return Stack(
        _one_below_the_other([_safe_indexing(rows[place].X, chosen[place]) for place in some]),
        np.repeat(np.arange(len(rows)), [len(own) for own in chosen]),
        np.concatenate([weights[place][chosen[place]] for place in some]) if weighted else None,
    )


def _one_below_the_other(tables: Sequence[Any]) -> Any:
    if any(sp.issparse(table) for table in tables):
        return sp.csr_array(sp.vstack([sp.csr_array(table) for table in tables]))
    if hasattr(tables[0], "columns"):
        # A frame comes with its library: pandas or polars, whose tables are put together alike.
        frames: Any = import_module(type(tables[0]).__module__.partition(".")[0])
        return frames.concat(tables)
    return np.concatenate([np.asarray(table) for table in tables])


def without_weightless(
    X: Any, y: npt.NDArray[Any], fit_params: dict[str, Any]
) -> tuple[Any, npt.NDArray[Any], dict[str, Any]]:
    """Return the samples that have a weight, their labels, and their share of the parameters of fit."""
    weight = checked_weights(fit_params.get("sample_weight"), X)
    if weight is None:
        return X, y, fit_params
    kept = np.flatnonzero(weight)
    return (
        _safe_indexing(X, kept),
        y[kept],
        _check_method_params(X, {**fit_params, "sample_weight": weight}, indices=kept),
    )
