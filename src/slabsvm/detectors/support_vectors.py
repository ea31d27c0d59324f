"""The abstract support vector detector: a program, access to K, a solver, and what is read off the solution.

A subclass states its Dual, where the solution's offsets put its boundary, and how a row's position along w becomes a
score.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from slabsvm.data.distinct import Distinct
from slabsvm.data.pieces import pieces
from slabsvm.detectors import infinity
from slabsvm.detectors.base import LOST_RECALL, Fitted, Training, accepted_share, parameters, rounding_of
from slabsvm.detectors.constraints import FiniteReal
from slabsvm.detectors.kernelized import GramFactory, KernelDetector, samples_of
from slabsvm.dual.leave_one_out import leave_one_out
from slabsvm.dual.program import Dual
from slabsvm.dual.solution import Solution, Status
from slabsvm.gram.base import Gram
from slabsvm.gram.products import gram_of
from slabsvm.kernels.base import Kernel
from slabsvm.kernels.expansion import BLOCK_BYTES, Expansion
from slabsvm.kernels.rbf import RBF
from slabsvm.kernels.tables import Projection
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.runtime.caller import warn
from slabsvm.runtime.counting import counted
from slabsvm.runtime.sklearn_private import Interval, StrOptions

# So many samples, in their random order, are asked whether any other reaches them.
CHECKED = 1000

# A gap of more than this share of what the samples' differences can do to an objective has told none of them apart.
UNRESOLVED = 0.1
# What a tolerance is advised to be, relative to that.
RESOLVED = 1e-3
# So many samples tell how much their kernel values differ.
LOOKED_AT = 300


@dataclass(frozen=True)
class Start:
    """What a warm start needs of an earlier fit.

    Attributes
    ----------
    keys : (k,) array of uint64
        The hashes of its distinct samples, in ascending order.
    dual : Dual
    solution : Solution
    """

    keys: npt.NDArray[np.uint64]
    dual: Dual
    solution: Solution

    def multipliers(self, distinct: Distinct, dual: Dual) -> FloatArray | None:
        """Return feasible multipliers of another program, (P, m), from the samples that are in both; None for none."""
        if self.dual.n_planes != dual.n_planes:
            return None
        place = np.minimum(np.searchsorted(self.keys, distinct.keys), len(self.keys) - 1)
        known = self.keys[place] == distinct.keys
        if not known.any():
            return None
        shares = np.where(known, (self.solution.multipliers / self.dual.caps)[:, place], 0.0)
        scores = np.where(known, self.solution.scores[place], np.median(self.solution.scores))
        return dual.adjust_sums(shares * dual.caps, scores)


@dataclass(frozen=True)
class Solved:
    """A program over a kernel matrix, and its solution; kernel is None for a precomputed one."""

    kernel: Kernel | None
    gram: Gram
    dual: Dual
    solution: Solution

    @cached_property
    def beta(self) -> FloatArray:
        """The coefficient of each distinct sample."""
        return self.dual.beta(self.solution.multipliers)

    @property
    def squared_norm(self) -> float:
        """|w|^2."""
        return float(self.beta @ (self.solution.scores - self.dual.linear))


@dataclass(frozen=True)
class Support:
    """The training rows that hold the planes.

    Attributes
    ----------
    rows : (n_SV,) array of intp
    coefficients : (n_SV,) array of float64
        beta of each row.
    samples : (n_SV,) array of intp
        Which sample of the expansion each row is equal to.
    share : float
        Their share of all rows, by weight.
    """

    rows: npt.NDArray[np.intp]
    coefficients: FloatArray
    samples: npt.NDArray[np.intp]
    share: float


@dataclass(frozen=True, kw_only=True)
class SupportVectorFit(Fitted):
    """What a support vector detector is once it is fitted.

    Attributes
    ----------
    kernel : Kernel or None
        None for a precomputed one.
    expansion : Expansion or Projection
        s(x), the position of rows along w.
    support : Support
    boundary : dict of str to float
        The public attributes that say where the boundary is.
    squared_norm : float
        |w|^2.
    length : float
        k(x, x) of the first sample, which is that of all where the kernel is precomputed and the model needs it.
    recall_of_repeats : float
        Of training planes: the share of new rows that are accepted at least, where these repeat training rows as often
        as training rows do each other.
    objective, gap, relative_gap : float
    iterations : int
    status : str
    start : Start or None
    """

    kernel: Kernel | None
    expansion: Expansion | Projection
    support: Support
    boundary: dict[str, float]
    squared_norm: float
    length: float
    recall_of_repeats: float
    objective: float
    gap: float
    relative_gap: float
    iterations: int
    status: str
    start: Start | None

    @property
    def training_recall_bound(self) -> float:
        """The share of rows that hold no plane: a lower bound, by leave-one-out, of what training planes accept."""
        return 1.0 - self.support.share

    def attributes(self) -> dict[str, Any]:
        """Return the public attributes, by their names."""
        gamma = {"gamma_": self.kernel.gamma} if isinstance(self.kernel, RBF) else {}
        return {
            **super().attributes(),
            **self.boundary,
            **gamma,
            "support_": self.support.rows,
            "dual_coef_": self.support.coefficients[None, :],
            "n_iter_": self.iterations,
            "duality_gap_": self.gap,
            "relative_gap_": self.relative_gap,
            "dual_objective_": self.objective,
            "status_": self.status,
            "expected_recall_": self.training_recall_bound,
            "training_recall_bound_": self.training_recall_bound,
        }


@parameters
class SupportVectorDetector(KernelDetector):
    """A detector whose scores are made of s(x) = sum_i beta_i k(x_i, x), with beta from a Dual."""

    solver: str = "smo"
    tol: float = 1e-3
    max_iter: int = -1
    cache_size: float = 1000
    prediction_tol: float = 1e-6
    warm_start: bool = False

    support_: npt.NDArray[np.intp] = field(init=False)
    dual_coef_: FloatArray = field(init=False)
    n_iter_: int = field(init=False)
    duality_gap_: float = field(init=False)
    relative_gap_: float = field(init=False)
    dual_objective_: float = field(init=False)
    status_: str = field(init=False)
    expected_recall_: float = field(init=False)
    training_recall_bound_: float = field(init=False)
    gamma_: float = field(init=False)
    _fitted: SupportVectorFit = field(init=False)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KernelDetector._parameter_constraints,
        "solver": [StrOptions({"smo", "interior-point"})],
        "tol": [FiniteReal(0.0, closed="neither")],
        "max_iter": [Interval(Integral, -1, None, closed="left")],
        "cache_size": [FiniteReal(0.0, closed="neither")],
        "prediction_tol": [Interval(Real, 0.0, 1.0, closed="left")],
        "warm_start": ["boolean"],
    }

    @abstractmethod
    def _dual(self, weights: FloatArray, kernel: Kernel | None, gram: Gram) -> Dual:
        """Return the program to solve for samples of these weights."""

    @abstractmethod
    def _boundary(self, solved: Solved, offsets: FloatArray, rounding: float) -> dict[str, float]:
        """Return the public attributes, offset_ among them, that planes at these offsets make, moved by rounding."""

    @abstractmethod
    def _score(self, along: FloatArray, squared_lengths: Callable[[], FloatArray]) -> FloatArray:
        """Return what `score_samples` gives rows that lie there along w, and have these k(x, x)."""

    @abstractmethod
    def _statement(self) -> tuple[str, str]:
        """Return, for a summary, the parameters of the model and where its boundary lies."""

    @property
    def support_vectors_(self) -> Any:
        """The support vectors, shape (n_SV, n_features), a row for each of support_; empty for a precomputed kernel.

        With a linear or an additive kernel the model needs and keeps none of them: X[model.support_] are they.
        """
        check_is_fitted(self)
        if self._fitted.kernel is None:
            return np.empty((0, 0))
        if not isinstance(self._fitted.expansion, Expansion):
            raise AttributeError(
                f"A model with kernel={self.kernel!r} does not keep its support vectors: it predicts from a weight "
                "vector, or from a table for each feature. They are X[model.support_], with X the training data."
            )
        return self._fitted.expansion.samples[self._fitted.support.samples]

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
        return self._fitted.expansion(self._checked(X, reset=False))

    def score_samples(self, X: Any) -> FloatArray:
        """Return how normal each row is, shape (n_samples,): the larger the more normal."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        return self._score(self._fitted.expansion(X), partial(self._squared_lengths, X))

    def summary(self) -> str:
        """Return what was fitted and how well, in a few lines for a person to read."""
        check_is_fitted(self)
        share = self.dual_coef_.shape[1]
        gamma = f" (gamma {self.gamma_:.4g})" if hasattr(self, "gamma_") else ""
        kernel = self.kernel if isinstance(self.kernel, str) else getattr(self.kernel, "__name__", "callable")
        parameters, boundary = self._statement()
        ended = f"{self.status_} after {counted(self.n_iter_, 'iteration')}"
        lines = [
            f"{type(self).__name__}: {kernel} kernel{gamma}, {parameters}",
            f"  {boundary}  ({self.offsets} offsets)",
            f"  support vectors  {share} of {self.n_samples_fit_} samples ({share / self.n_samples_fit_:.1%})",
            f"  recall           {self._recall_statement()}",
            f"  certificate      objective {self.dual_objective_:.6g}, duality gap {self.duality_gap_:.2g} "
            f"(relative {self.relative_gap_:.2g}, tol {self.tol:g}), {ended}",
        ]
        return "\n".join(lines)

    def _recall_statement(self) -> str:
        """Return, for a summary, what is expected of this model, and what of planes put elsewhere."""
        asked = f"by leave-one-out, where nu asks for {self._nominal_recall():.1%}"
        if self.offsets == "training":
            return f"at least {self.expected_recall_:.1%} of new positives expected, {asked}"
        return (
            f"{self.expected_recall_:.1%} of new positives expected, {asked} (of offsets='training', at least "
            f"{self.training_recall_bound_:.1%})"
        )

    def _learn(
        self, training: Training, *, gram_of: GramFactory = gram_of, start: Start | None = None
    ) -> SupportVectorFit:
        if start is None and self.warm_start and hasattr(self, "_fitted"):
            start = self._fitted.start
        kernel, gram = self._known(training, gram_of)
        dual = self._dual(training.distinct.weights, kernel, gram)
        solution = self._solve(dual, gram, start.multipliers(training.distinct, dual) if start else None)
        return self._read_off(training, Solved(kernel, gram, dual, solution))

    def _fit_from(self, X: Any, sample_weight: Any, *, gram_of: GramFactory, start: Start | None) -> Start | None:
        """Fit with access to K made by gram_of, from an earlier fit's solution; return what the next may start from."""
        training = self._training(X, sample_weight)
        with ONE_BLAS_THREAD:
            fitted = self._learn(training, gram_of=gram_of, start=start)
        self._publish(training, fitted)
        return fitted.start

    def _take(self, training: Training, fitted: Fitted) -> None:
        super()._take(training, fitted)
        if self.offsets == "leave-one-out":
            decisions = self.loo_decisions_[training.distinct.representatives]
            self.expected_recall_ = accepted_share(decisions, training.distinct.weights, 0.0)
        if not self.warm_start:
            self._fitted = replace(self._fitted, start=None)

    def _solve(self, dual: Dual, gram: Gram, start: FloatArray | None) -> Solution:
        solution = _solver(self.solver)(
            dual,
            gram,
            tol=float(self.tol),
            max_iter=self.max_iter,
            cache_bytes=float(self.cache_size) * 1e6,
            start=start,
        )
        if not solution.converged:
            warn(
                f"{type(self).__name__} stopped at a relative duality gap of {solution.relative_gap:.2g}, "
                f"where tol asks for {self.tol:.2g}, after {counted(solution.iterations, 'iteration')}: "
                f"{solution.status.value}.",
                ConvergenceWarning,
            )
        elif text := self._told_nothing_apart(dual, gram, solution):
            warn(text, ConvergenceWarning)
        return solution

    def _told_nothing_apart(self, dual: Dual, gram: Gram, solution: Solution) -> str:
        """Return a warning where nearly any multipliers meet tol, since all kernel values are nearly equal, or nothing.

        As sums of multipliers are fixed, a constant may be taken off K: what decides is what is left, the cloud's
        variance in feature space.
        """
        if solution.status is not Status.CONVERGED:
            return ""
        some = np.unique(np.linspace(0, gram.n_samples - 1, LOOKED_AT).astype(np.intp))
        size = float(gram.diagonal[some].mean())
        variance = size - float(gram.block(some, some).mean())
        if variance <= 4 * rounding_of(size):
            # Of equal samples nothing is lost.
            return ""
        differences = variance * float(dual.totals.sum()) ** 2
        if solution.gap <= UNRESOLVED * differences:
            return ""
        cause = "a larger gamma" if self.kernel == "rbf" else "centred features (StandardScaler)"
        wanted = RESOLVED * differences / dual.scale(solution.objective, size)
        return (
            f"{type(self).__name__} met tol={self.tol:g}, but all kernel values are nearly the same (they differ by "
            f"{variance / size:.1g} of their size), and nearly any solution meets it: the duality gap, "
            f"{solution.gap:.2g}, is {solution.gap / differences:.0%} of what the samples' differences can do to the "
            f"objective. Use tol={wanted:.0e}, or {cause}."
        )

    def _read_off(self, training: Training, solved: Solved) -> SupportVectorFit:
        """Return what follows from a solution."""
        gram, dual, solution = solved.gram, solved.dual, solved.solution
        support, expansion = self._held(training, solved)
        scores, offsets, left_out = solution.scores, solution.offsets, None
        # What a score's rounding is measured by: the sum's largest terms, where training samples lie on the planes and
        # a new score must meet theirs; with leave-one-out planes, which may lie far below those terms, the sizes of the
        # planes and of the training scores that they were subtracted from.
        size = float(np.abs(solved.beta).sum()) * float(gram.diagonal.max(initial=0.0))
        if self.offsets == "leave-one-out":
            left_out = leave_one_out(dual, gram, solution).scores
            offsets = dual.offsets(left_out)
            size = float(np.abs(offsets).max() + np.abs(solution.scores).max())
            scores = left_out
        # A table's error moves scores as rounding does.
        rounding = rounding_of(size + self._added_to_scores(solved)) + expansion.error
        stranger, offsets = self._kept_outside(training, solved, scores, offsets, rounding)
        boundary = self._boundary(solved, offsets, rounding)
        return SupportVectorFit(
            kernel=solved.kernel,
            expansion=expansion,
            support=support,
            boundary=boundary,
            offset=boundary["offset_"],
            rounding=rounding,
            loo_scores=None if left_out is None else training.by_row(left_out),
            stranger=stranger,
            squared_norm=solved.squared_norm,
            length=float(gram.diagonal[0]),
            recall_of_repeats=_recall_of_repeats(training, solved, offsets, rounding),
            objective=solution.objective,
            gap=solution.gap,
            relative_gap=solution.relative_gap,
            iterations=solution.iterations,
            status=solution.status.name.lower().replace("_", " "),
            start=Start(training.distinct.keys, dual, solution),
        )

    def _kept_outside(
        self, training: Training, solved: Solved, scores: FloatArray, offsets: FloatArray, rounding: float
    ) -> tuple[str, FloatArray]:
        """Return what is wrong where a row infinitely far away would be accepted, or nothing, and the planes to set.

        A local kernel's rows far from all samples score 0, which is kept outside. Other planes are left where they are.
        scores are those that the offsets are quantiles of.
        """
        dual, weights = solved.dual, training.distinct.weights
        shares = weights / weights.sum()
        if solved.kernel is None or not solved.kernel.local:
            alone = float(shares @ (dual.side * scores <= rounding))
            return self._accepted_at_infinity(training, solved, offsets, rounding, alone), offsets
        kept = dual.outside_zero(offsets, 2 * rounding)
        if (kept == offsets).all():
            return "", kept
        some = np.arange(min(CHECKED, dual.n_samples))
        reached = dual.side * _of_others(solved, some) > rounding
        within = dual.accepts(dual.outside_zero(scores[some], 2 * rounding), kept, rounding)
        told = infinity.unreached(
            alone=float(np.average(~reached, weights=shares[some])),
            expected=float(np.average(reached & within, weights=shares[some])),
            nominal=1.0 - float(dual.nus.sum()),
            remedy=self._smoother(),
        )
        return told, kept

    def _accepted_at_infinity(
        self, training: Training, solved: Solved, offsets: FloatArray, rounding: float, alone: float
    ) -> str:
        """Return what is wrong where the planes, left where they are, accept a row infinitely far away, or nothing.

        alone is the share of samples that score without themselves what a row unlike all of them does.
        """

        def accepted(score: float) -> bool:
            return bool(solved.dual.accepts(np.array([score]), offsets, rounding)[0])

        if not solved.dual.linear.any() and accepted(0.0):
            return infinity.unlike_all(alone)
        held = np.flatnonzero(solved.beta)
        far = self._far_score(solved.kernel, samples_of(solved.kernel, training, held), solved.beta[held])
        # Among rows of one length none is far from the others.
        if far is None or infinity.of_one_length(solved.gram.diagonal):
            return ""
        return infinity.beyond_all(far, self.kernel) if accepted(far) else ""

    def _far_score(self, kernel: Kernel | None, vectors: Any, coefficients: FloatArray) -> float | None:
        """Return the limit of s(x) as all features of x grow alike; None where it is unknown, or decides nothing."""
        return None if kernel is None else kernel.far_score(vectors, coefficients)

    def _added_to_scores(self, solved: Solved) -> float:
        """Return the size of what a prediction adds to s(x), in its unit."""
        return float(np.abs(solved.dual.linear).max())

    def _held(self, training: Training, solved: Solved) -> tuple[Support, Expansion | Projection]:
        """Return the rows that hold the planes, and the function of position along w that they make."""
        distinct, weights = training.distinct, training.weights
        kernel, dual, solution = solved.kernel, solved.dual, solved.solution
        held = (solution.multipliers > 0).any(axis=0)
        of_rows = distinct.spread(solution.multipliers, weights)
        rows = np.flatnonzero((of_rows > 0).any(axis=0))
        place = np.cumsum(held) - 1
        support = Support(
            rows=rows,
            coefficients=dual.signs @ of_rows[:, rows],
            samples=place[distinct.group[rows]],
            share=float(weights[rows].sum() / weights.sum()),
        )
        vectors = samples_of(kernel, training, np.flatnonzero(held))
        expansion = Expansion(kernel, vectors, solved.beta[held])
        if kernel is None:
            return support, expansion
        allowed = self.prediction_tol * float(np.ptp(solution.scores))
        return support, kernel.projection(vectors, solved.beta[held], allowed) or expansion

    def _squared_lengths(self, X: Any) -> FloatArray:
        """Return k(x, x) of each validated row, shape (n_samples,)."""
        kernel = self._fitted.kernel
        return np.full(X.shape[0], self._fitted.length) if kernel is None else kernel.diagonal(X)

    def _lost_recall(self) -> str:
        """Return a warning where training offsets will reject far more new positives than asked for, or nothing."""
        nominal, expected = self._nominal_recall(), self._fitted.training_recall_bound
        if self.offsets == "training" and expected < nominal - LOST_RECALL:
            repeating = self._fitted.recall_of_repeats
            if_they_repeat = ""
            if repeating > expected + LOST_RECALL:
                if_they_repeat = f" ({repeating:.0%} if they repeat training rows as often as these do each other)"
            return (
                f"{1 - expected:.0%} of the training samples are support vectors. With offsets='training' "
                f"expect as few as {expected:.0%} of new positives to be accepted{if_they_repeat}, where nu asks for "
                f"{nominal:.0%}. Use {self._remedy()}, or more samples."
            )
        return ""

    def _said(self) -> str:
        """Return what is wrong with thresholds that tell samples apart, and what to do, or nothing."""
        return " ".join(text for text in (self._fitted.stranger, self._lost_recall()) if text)

    def _remedy(self) -> str:
        """Return what makes fewer samples support vectors, or makes it harmless that they are."""
        return f"offsets='leave-one-out', {self._smoother()}" if self.offsets == "training" else self._smoother()


def _recall_of_repeats(training: Training, solved: Solved, offsets: FloatArray, rounding: float) -> float:
    """Return the share of new rows that training planes accept at least, if they repeat training rows as these do.

    The share of rows that have an equal one estimates how many will (Good 1953). A new row that repeats one scores as
    it does; of the others, those are counted as accepted that hold no plane.
    """
    distinct = training.distinct
    repeats = np.bincount(distinct.group[distinct.group >= 0]) > 1
    accepted = solved.dual.accepts(solved.solution.scores, offsets, rounding)
    held = (solved.solution.multipliers > 0).any(axis=0)
    return float(distinct.weights @ np.where(repeats, accepted, ~held) / distinct.weights.sum())


def _of_others(solved: Solved, samples: npt.NDArray[np.intp]) -> FloatArray:
    """Return sum_j beta_j k(x_j, x_i) over j != i for some samples i, shape (s,), without subtracting.

    Where no other sample is near, a left-out score is the rounding of what it was subtracted from, and this is 0.
    """
    sums = np.empty(len(samples))
    for rows in pieces(len(samples), 8 * len(solved.beta), BLOCK_BYTES):
        some = samples[rows]
        block = np.array(solved.gram.block(some, None), dtype=np.float64)
        block[np.arange(len(some)), some] = 0.0
        sums[rows] = block @ solved.beta
    return sums


def _solver(name: str) -> Callable[..., Solution]:
    from slabsvm.solvers import interior, smo

    return {"smo": smo.solve, "interior-point": interior.solve}[name]
