"""The abstract support vector detector: one Dual, one Gram, one solver.

A subclass states its Dual, and how offsets and scores become a decision. Fitting is four lines: gram, dual, solve, and
read off the planes and the support.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from slabsvm.data.distinct import Distinct
from slabsvm.detectors.base import LOST_RECALL, by_row, parameters, rounding_of
from slabsvm.detectors.kernelized import KernelDetector
from slabsvm.dual.leave_one_out import leave_one_out
from slabsvm.dual.program import Dual, FloatArray, Solution
from slabsvm.gram.base import Gram
from slabsvm.kernels.expansion import Expansion
from slabsvm.kernels.tables import Projection


@dataclass(frozen=True)
class _Last:
    """What a warm start needs of the last fit."""

    keys: npt.NDArray[np.uint64]
    dual: Dual
    solution: Solution


@parameters
class SupportVectorDetector(KernelDetector):
    """A detector whose scores are made of s(x) = sum_i beta_i k(x_i, x), with beta from a Dual."""

    solver: str = "smo"
    tol: float = 1e-3
    max_iter: int = -1
    cache_size: float = 1000
    prediction_tol: float = 1e-6
    warm_start: bool = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KernelDetector._parameter_constraints,
        "solver": [StrOptions({"smo", "interior-point"})],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "max_iter": [Interval(Integral, -1, None, closed="left")],
        "cache_size": [Interval(Real, 0.0, None, closed="neither")],
        "prediction_tol": [Interval(Real, 0.0, 1.0, closed="left")],
        "warm_start": ["boolean"],
    }

    @abstractmethod
    def _dual(self, weights: FloatArray, gram: Gram) -> Dual:
        """Return the program to solve for samples of these weights."""

    @abstractmethod
    def _set_planes(self, offsets: FloatArray) -> None:
        """Store the offsets of the Dual's planes, moved outwards by _rounding, and what follows from them."""

    @abstractmethod
    def _statement(self) -> tuple[str, str]:
        """Return, for a summary, the parameters of the model and where its boundary lies."""

    @property
    def support_vectors_(self) -> Any:
        """The support vectors, shape (n_SV, n_features), a row for each of support_; empty for a precomputed kernel.

        With a linear or an additive kernel the model needs and keeps none of them: X[model.support_] are they.
        """
        check_is_fitted(self)
        if self._kernel is None:
            return np.empty((0, 0))
        if not isinstance(self._expansion, Expansion):
            raise AttributeError(
                f"A model with kernel={self.kernel!r} does not keep its support vectors: it predicts from a weight "
                "vector, or from a table for each feature. They are X[model.support_], with X the training data."
            )
        return self._expansion.samples[self._row_of_support]

    def project(self, X: Any) -> FloatArray:
        """Return s(x) = sum_i beta_i k(x_i, x) of each row, shape (n_samples,): its position along w.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            With kernel="precomputed" the kernel values between these rows and all training rows, of shape
            (n_samples, n_training_samples).

        Returns
        -------
        scores : (n_samples,) array of float64
            In the unit of the kernel.
        """
        check_is_fitted(self)
        return self._expansion(self._checked(X, reset=False))

    def summary(self) -> str:
        """Return what was fitted and how well, in a few lines for a person to read."""
        check_is_fitted(self)
        share = self.dual_coef_.shape[1]
        gamma = f" (gamma {self.gamma_:.4g})" if hasattr(self, "gamma_") else ""
        kernel = self.kernel if isinstance(self.kernel, str) else getattr(self.kernel, "__name__", "callable")
        parameters, boundary = self._statement()
        lines = [
            f"{type(self).__name__}: {kernel} kernel{gamma}, {parameters}",
            f"  {boundary}  ({self.offsets} offsets)",
            f"  support vectors  {share} of {self.n_samples_fit_} samples ({share / self.n_samples_fit_:.1%})",
            f"  recall           {self._nominal_recall():.1%} by the parameters; with training offsets at least "
            f"{self.expected_recall_:.1%}, by leave-one-out",
            f"  certificate      objective {self.dual_objective_:.6g}, duality gap {self.duality_gap_:.2g} "
            f"(relative {self.relative_gap_:.2g}, tol {self.tol:g}), {self.status_} after {self.n_iter_} iterations",
        ]
        return "\n".join(lines)

    def _learn(self, X: Any, weights: FloatArray, distinct: Distinct) -> None:
        gram = self._gram(X, distinct)
        dual = self._dual(distinct.weights, gram)
        solution = self._solve(dual, gram, self._carried_over(distinct, dual))
        self._last = _Last(distinct.keys, dual, solution) if self.warm_start else None
        self._read_off(X, weights, distinct, dual=dual, solution=solution)
        self._put_planes(distinct, dual=dual, gram=gram, solution=solution)

    def _carried_over(self, distinct: Distinct, dual: Dual) -> FloatArray | None:
        """Return the last fit's multipliers for the samples that are in both, as shares of their caps, or None."""
        last: _Last | None = getattr(self, "_last", None)
        if not self.warm_start or last is None or last.dual.n_planes != dual.n_planes:
            return None
        place = np.minimum(np.searchsorted(last.keys, distinct.keys), len(last.keys) - 1)
        known = last.keys[place] == distinct.keys
        if not known.any():
            return None
        shares = np.where(known, (last.solution.multipliers / last.dual.caps)[:, place], 0.0)
        scores = np.where(known, last.solution.scores[place], np.median(last.solution.scores))
        return dual.refill(shares * dual.caps, scores)

    def _solve(self, dual: Dual, gram: Gram, start: FloatArray | None) -> Solution:
        solution = _solver(self.solver)(
            dual, gram, tol=self.tol, max_iter=self.max_iter, cache_bytes=self.cache_size * 1e6, start=start
        )
        if not solution.converged:
            warnings.warn(
                f"{type(self).__name__} stopped at a relative duality gap of {solution.relative_gap:.2g}, "
                f"where tol asks for {self.tol:.2g}, after {solution.iterations} iterations: {solution.status.value}.",
                ConvergenceWarning,
                stacklevel=5,
            )
        return solution

    def _read_off(self, X: Any, weights: FloatArray, distinct: Distinct, *, dual: Dual, solution: Solution) -> None:
        beta = dual.beta(solution.multipliers)
        held = (solution.multipliers > 0).any(axis=0)
        support = np.flatnonzero(held)
        rows = distinct.spread(solution.multipliers, weights)
        self.support_ = np.flatnonzero((rows > 0).any(axis=0))
        self.dual_coef_ = (dual.signs @ rows[:, self.support_])[None, :]
        samples = self._samples_of(X, distinct.representatives[support])
        self._expansion: Expansion | Projection = Expansion(self._kernel, samples, beta[support])
        if self._kernel is not None:
            allowed = self.prediction_tol * float(np.ptp(solution.scores))
            self._expansion = self._kernel.projection(samples, beta[support], allowed) or self._expansion
        place = np.cumsum(held) - 1
        self._row_of_support = place[distinct.group[self.support_]]
        self._squared_norm = float(beta @ (solution.scores - dual.linear))
        self.n_iter_ = solution.iterations
        self.duality_gap_ = solution.gap
        self.relative_gap_ = solution.relative_gap
        self.dual_objective_ = solution.objective
        self.status_ = solution.status.name.lower().replace("_", " ")
        self.expected_recall_ = 1.0 - float(weights[self.support_].sum() / weights.sum())

    def _put_planes(self, distinct: Distinct, *, dual: Dual, gram: Gram, solution: Solution) -> None:
        offsets = solution.offsets
        # What a score's rounding is measured by: the sum's largest terms, where training samples lie on the planes and
        # a new score must meet theirs; with leave-one-out planes, which may lie far below those terms, the sizes of the
        # planes and of the training scores that they were subtracted from.
        size = float(np.abs(dual.beta(solution.multipliers)).sum()) * float(gram.diagonal.max(initial=0.0))
        if self.offsets == "leave-one-out":
            loo = leave_one_out(dual, gram, solution)
            offsets = dual.offsets(loo.scores)
            self.loo_scores_ = by_row(distinct, loo.scores)
            size = float(np.abs(offsets).max() + np.abs(solution.scores).max())
        # A table's error moves scores as rounding does.
        self._rounding = rounding_of(size + float(np.abs(dual.linear).max())) + self._expansion.error
        self._set_planes(offsets)

    def _lost_recall(self) -> str:
        """Return a warning where training offsets will reject far more new positives than asked for, or nothing."""
        nominal = self._nominal_recall()
        if self.offsets == "training" and self.expected_recall_ < nominal - LOST_RECALL:
            return (
                f"{1 - self.expected_recall_:.0%} of the training samples are support vectors. With offsets='training' "
                f"expect as few as {self.expected_recall_:.0%} of new positives to be accepted, where nu asks for "
                f"{nominal:.0%}. Use {self._remedy()}, or more samples."
            )
        return ""

    def _cause(self) -> str:
        """Return what is so where the scores of all samples are the same."""
        return "the kernel matrix is so close to the identity"

    def _remedy(self) -> str:
        """Return what makes fewer samples support vectors, or makes it harmless that they are."""
        return f"offsets='leave-one-out', {self._smoother()}" if self.offsets == "training" else self._smoother()


def _solver(name: str) -> Callable[..., Solution]:
    from slabsvm.solvers import interior, smo

    return {"smo": smo.solve, "interior-point": interior.solve}[name]
