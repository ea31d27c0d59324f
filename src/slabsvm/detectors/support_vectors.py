"""The abstract support vector detector: its program, its access to K, the solver, and what the solution gives.

A subclass states its dual problem, where the solution's offsets put its boundary, and how a row's position along w
becomes a score.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import field
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from slabsvm.detectors.base import fit_with_groups, parameters
from slabsvm.detectors.kernelized import KernelDetector, samples_of, soft_neighbours_of
from slabsvm.fitted import warnings
from slabsvm.fitted.explanation import Explanation, TypicalParts, of_distances, of_parts, summed
from slabsvm.fitted.model import CalibrationScores, Solved, Support, SupportVectorModel, rounding_of
from slabsvm.fitted.training import Training
from slabsvm.kernels.base import Kernel, WeightVector
from slabsvm.kernels.expansion import Expansion, SoftNeighbours
from slabsvm.kernels.named import RBF
from slabsvm.runtime.arrays import BoolArray, FloatArray
from slabsvm.runtime.caller import counted, warn
from slabsvm.runtime.estimators import FiniteReal, Interval
from slabsvm.svm import loop
from slabsvm.svm.gram import SMALL, Gram
from slabsvm.svm.program import DualProblem, GapScale, Solution
from slabsvm.svm.small import MOST_EXACT, Leaving, LeftOutScores, solve_small


@parameters
class SupportVectorDetector(KernelDetector):
    """A detector whose scores are made of s(x) = sum_i beta_i k(x_i, x), with beta from a dual problem."""

    tol: float = 1e-3
    max_iter: int = -1
    cache_size: float = 1000

    support_: npt.NDArray[np.intp] = field(init=False)
    dual_coef_: FloatArray = field(init=False)
    n_iter_: int = field(init=False)
    duality_gap_: float = field(init=False)
    relative_gap_: float = field(init=False)
    dual_objective_: float = field(init=False)
    status_: str = field(init=False)
    training_recall_bound_: float = field(init=False)
    gamma_: float = field(init=False)
    model_: SupportVectorModel = field(init=False)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "tol": [FiniteReal(0.0, closed="neither")],
        "max_iter": [Interval(Integral, -1, None, closed="left")],
        "cache_size": [FiniteReal(0.0, closed="neither")],
    }

    fit = fit_with_groups

    @abstractmethod
    def _dual(self, weights: FloatArray, kernel: Kernel | None, gram: Gram) -> DualProblem:
        """Return the program to solve for samples of these weights."""

    @abstractmethod
    def _boundary(
        self, solved: Solved, scored: CalibrationScores, offsets: FloatArray, rounding: float
    ) -> dict[str, Any]:
        """Return the attributes, offset_ among them, that planes at these offsets make, moved by rounding.

        scored has the positions along w that set the planes.
        """

    @abstractmethod
    def score_along(self, along: FloatArray, X: Any) -> FloatArray:
        """Return the scores of validated rows at these positions along w, shape (n_rows,).

        :meta private:
        """

    @abstractmethod
    def _statement(self) -> tuple[str, str]:
        """Return, for a summary, the parameters of the model and where its boundary lies."""

    @property
    def _by_folds(self) -> bool:
        """Whether folds give the scores that set the threshold, since leaving rows out may not say what it needs."""
        return False

    @property
    def support_vectors_(self) -> Any:
        """The support vectors, shape (n_SV, n_features), a row for each of `support_`; empty for a precomputed kernel.

        With a linear or a Hellinger kernel the model keeps none of them. Use ``X[model.support_]``.
        """
        check_is_fitted(self)
        if self.model_.kernel is None:
            return np.empty((0, 0))
        if isinstance(self.model_.expansion, WeightVector):
            raise AttributeError(
                f"A model with kernel={self.kernel!r} does not keep its support vectors: it predicts from a weight "
                "vector. They are X[model.support_], with X the training data."
            )
        return self.model_.expansion.samples[self.model_.support.samples]

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
        return self.model_.expansion(self._checked(X, reset=False))

    def score_samples(self, X: Any) -> FloatArray:
        """Return how normal each row is, shape (n_samples,). Larger is more normal; the class says what is measured."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        return self.score_along(self.model_.expansion(X), X)

    def _explanation(self, X: Any) -> Explanation:
        X, fit = self._checked(X, reset=False), self.model_
        if fit.usual is not None:
            assert fit.kernel is not None
            return self._explained_by_parts(self._by_feature(fit.kernel, fit.expansion, X), fit.usual)
        assert isinstance(fit.expansion, Expansion)
        return self._explained_by_distances(soft_neighbours_of(self, fit.expansion), X)

    def _by_feature(self, kernel: Kernel, position: Expansion | WeightVector, X: Any) -> FloatArray:
        """Return what each feature of rows adds to what the score is made of, (n, d), by an additive kernel."""
        return position.by_feature(X)

    def parts(self, X: Any) -> FloatArray:
        """Return what each feature of rows adds to their position along w, (n, d), by an additive kernel.

        :meta private:
        """
        kernel, position = self.model_.kernel, self.model_.expansion
        assert kernel is not None
        return self._by_feature(kernel, position, self._checked(X, reset=False))

    def _explained_by_parts(self, parts: FloatArray, usual: TypicalParts) -> Explanation:
        """Return the explanation of rows of these parts: of a decision that is their sum and a constant."""
        decisions = summed(parts) - self.offset_
        return of_parts(parts, usual, decisions, reference=float(usual.means.sum()) - self.offset_)

    def _explained_by_distances(self, neighbours: SoftNeighbours, X: Any) -> Explanation:
        """Return the explanation of validated rows under the RBF kernel."""
        near = neighbours.distances(X)
        decisions = self.score_along(near.sums, X) - self.offset_
        return of_distances(near.distances, neighbours.typical, decisions, reference=self._typical_decision())

    def summary(self) -> str:
        """Return what was fitted and how well, in a few lines."""
        check_is_fitted(self)
        share, n_learned = self.dual_coef_.shape[1], self.model_.n_learned
        gamma = f" (gamma {self.gamma_:.4g})" if hasattr(self, "gamma_") else ""
        kernel = self.kernel if isinstance(self.kernel, str) else getattr(self.kernel, "__name__", "callable")
        parameters, boundary = self._statement()
        ended = f"{self.status_} after {counted(self.n_iter_, 'iteration')}"
        lines = [
            f"{type(self).__name__}: {kernel} kernel{gamma}, {parameters}",
            f"  {boundary}  (calibration: {self.calibration})",
            f"  support vectors  {share} of {n_learned} learned rows ({share / n_learned:.1%})",
            f"  recall           {self._recall_statement()}",
            f"  certificate      objective {self.dual_objective_:.6g}, duality gap {self.duality_gap_:.2g} "
            f"(relative {self.relative_gap_:.2g}, tol {self.tol:g}), {ended}",
        ]
        return "\n".join(lines)

    def _recall_statement(self) -> str:
        """Return, for a summary, what is expected of this model, and what of planes put elsewhere."""
        known = hasattr(self, "expected_recall_error_")
        error = f", +- {self.expected_recall_error_:.1%}" if known else ""
        asked = f"by left-out scores{error}, where nu asks for {self._nominal_recall():.1%}"
        if self.calibration == "training":
            return f"at least {self.expected_recall_:.1%} of new positives expected, {asked}"
        return (
            f"{self.expected_recall_:.1%} of new positives expected, {asked} (of calibration='training', at least "
            f"{self.training_recall_bound_:.1%})"
        )

    def _learn(self, training: Training) -> SupportVectorModel:
        learned, out = self._learned(training, np.inf if self._by_folds else MOST_EXACT)
        kernel, gram = self._kernel_and_gram(learned)
        # The solver, left-out scores and warnings then read the same values.
        gram = gram.held() if gram.n_samples <= MOST_EXACT else gram
        # C bounds multipliers by weights: those of all rows, of which some were held out.
        share = training.weights.sum() / learned.weights.sum()
        dual = self._dual(learned.distinct.weights * share, kernel, gram)
        exact = self.calibration == "auto" and gram.n_samples <= MOST_EXACT and not dual.linear.any()
        solution, left_out = self._solve(dual, gram, self._leaving(learned) if exact else None)
        return self._read_off(training, learned, out, Solved(kernel, gram, dual, solution, left_out))

    def _leaving(self, learned: Training) -> Leaving:
        """Return what is left out: a row of each sample, or the groups."""
        return Leaving(learned.stays) if learned.groups is None else Leaving(groups=list(learned.groups))

    def _solve(self, dual: DualProblem, gram: Gram, leaving: Leaving | None) -> tuple[Solution, LeftOutScores | None]:
        """Return the solution, and scores without what leaves, of no more than MOST_EXACT samples."""
        left_out, tol = None, float(self.tol)
        if gram.n_samples <= MOST_EXACT:
            optimum = leaving is not None or gram.n_samples <= SMALL
            solution, left_out = solve_small(
                dual, gram, tol=tol, max_iter=self.max_iter, optimum=optimum, leaving=leaving
            )
        else:
            solution = loop.solve(dual, gram, tol=tol, max_iter=self.max_iter, cache_bytes=float(self.cache_size) * 1e6)
        if not solution.converged:
            warn(
                f"{type(self).__name__} stopped at a relative duality gap of {solution.relative_gap:.2g}, "
                f"where tol asks for {self.tol:.2g}, after {counted(solution.iterations, 'iteration')}: "
                f"{solution.status.value}.",
                ConvergenceWarning,
            )
            return solution, left_out
        model = type(self).__name__
        text = warnings.unresolved_warning(dual, gram, solution, model=model, tol=self.tol, kernel=self.kernel)
        if text:
            warn(text, ConvergenceWarning)
        return solution, left_out

    def _read_off(self, training: Training, learned: Training, out: BoolArray, solved: Solved) -> SupportVectorModel:
        """Return what follows from a solution: learned is what was learned of training, and out which rows were not."""
        gram, dual, solution = solved.gram, solved.dual, solved.solution
        support, expansion = self._support(learned, solved)
        trained = self.calibration == "training"
        scored = self._scores_for_planes(training, learned, out, solved, expansion)
        largest = float(np.abs(solution.scores).max())
        offsets = solution.offsets if trained else scored.offsets(dual, rounding_of(largest))
        rounding = rounding_of(self._size_of_scores(solved, offsets) + self._added_to_scores(solved))
        infinity_warning, offsets = warnings.planes_outside(
            solved,
            scored,
            offsets,
            rounding,
            others=partial(solved.scores_of_others, scored, learned),
            far_score=partial(self._far_score, learned, solved),
            kernel=self.kernel,
            remedy=self._smoother(),
        )
        boundary = self._boundary(solved, scored, offsets, rounding)
        accepted = dual.accepts(solution.scores, offsets, rounding)
        return SupportVectorModel(
            kernel=solved.kernel,
            expansion=expansion,
            support=support,
            boundary=boundary,
            offset=boundary["offset_"],
            rounding=rounding,
            **self._calibrated(
                training, scored.by_row(training.n_rows), scored.calibration, scored.distances(dual, offsets) + rounding
            ),
            calibration_log_mass=None if trained else _log_mass_unseen(training, learned, out, support, expansion),
            infinity_warning=infinity_warning,
            n_learned=int(np.count_nonzero(learned.weights)),
            squared_norm=solved.squared_norm,
            squared_length=float(gram.diagonal[0]),
            recall_of_learned=solved.recall_of_learned(learned.distinct, accepted),
            recall_of_repeats=solved.recall_of_repeats(learned.distinct, accepted),
            objective=solution.objective,
            gap=solution.gap + GapScale.of(dual, float(gram.diagonal.mean())).rounding,
            relative_gap=solution.relative_gap,
            iterations=solution.iterations,
            status=solution.status.name.lower().replace("_", " "),
            usual=self._usual(learned, solved, expansion),
        )

    def _scores_for_planes(
        self,
        training: Training,
        learned: Training,
        out: BoolArray,
        solved: Solved,
        expansion: Expansion | WeightVector,
    ) -> CalibrationScores:
        """Return where rows lie along w that were not learned, or were left out exactly; or training rows."""
        dual, gram, solution = solved.dual, solved.gram, solved.solution
        if self.calibration == "training":
            scores = np.where(learned.distinct.inverse >= 0, solution.scores[learned.distinct.inverse], np.nan)
            return CalibrationScores.of(learned, scores, scores)
        scores, outer = np.full(training.n_rows, np.nan), np.full(training.n_rows, np.nan)
        if self._left_out(out) and (dual.linear.any() or gram.n_samples > MOST_EXACT):
            scores = self._scores_by_folds(training, solved)
            return CalibrationScores.of(training, scores, scores)
        if solved.left_out is not None:
            left = whole = solved.left_out.scores
            if learned.groups is None:
                # A new row that repeats a learned one scores what the whole model gives it.
                larger = dual.side * np.maximum(dual.side * solution.scores, dual.side * left)
                whole = np.where(learned.n_copies > 1, larger, left)
            scores, outer = learned.by_row(left), learned.by_row(whole)
        if out.any():
            scores[out] = outer[out] = self._new_scores(expansion, training.X[out], solved)
        return CalibrationScores.of(training, scores, outer, held_out=bool(out.any()))

    def _size_of_scores(self, solved: Solved, offsets: FloatArray) -> float:
        """Return what a score's rounding is measured by.

        That is the sum's largest terms, where training samples lie on the planes and a new score must meet theirs; with
        planes by scores of rows that were not learned, which may lie far below those terms, the sizes of the planes and
        of the training scores that they were subtracted from.
        """
        if self.calibration == "training":
            return float(np.abs(solved.beta).sum()) * float(solved.gram.diagonal.max(initial=0.0))
        return float(np.abs(offsets).max() + np.abs(solved.solution.scores).max())

    def _new_scores(self, expansion: Expansion | WeightVector, X: Any, solved: Solved) -> FloatArray:
        """Return the scores of new rows in the dual problem's unit, (n,)."""
        return expansion(X)

    def _scores_by_folds(self, training: Training, solved: Solved) -> FloatArray:
        """Return the scores of all rows in the dual problem's unit, (n_samples,), where it has a linear term."""
        raise NotImplementedError

    def _usual(self, training: Training, solved: Solved, position: Expansion | WeightVector) -> TypicalParts | None:
        """Return what each feature adds to training rows, where features add up."""
        kernel = solved.kernel
        if kernel is None or not kernel.additive:
            return None
        parts = partial(self._by_feature, kernel, position)
        return TypicalParts.of(parts, training.samples, training.distinct.weights)

    def _far_score(self, training: Training, solved: Solved) -> float | None:
        """Return the limit of s(x) as all features of x grow alike; None where it is unknown, or decides nothing."""
        if solved.kernel is None:
            return None
        held = np.flatnonzero(solved.beta)
        return solved.kernel.far_score(samples_of(solved.kernel, training, held), solved.beta[held])

    def _added_to_scores(self, solved: Solved) -> float:
        """Return the size of what a prediction adds to s(x), in its unit."""
        return float(np.abs(solved.dual.linear).max())

    def _support(self, training: Training, solved: Solved) -> tuple[Support, Expansion | WeightVector]:
        """Return the rows that hold the planes, and the function of position along w that they make."""
        distinct, weights = training.distinct, training.weights
        kernel, dual, solution = solved.kernel, solved.dual, solved.solution
        held = solved.is_support
        of_rows = distinct.spread(solution.multipliers, weights)
        rows = np.flatnonzero((of_rows > 0).any(axis=0))
        place = np.cumsum(held) - 1
        support = Support(
            rows=rows,
            coefficients=dual.signs @ of_rows[:, rows],
            samples=place[distinct.inverse[rows]],
            share=float(weights[rows].sum() / weights.sum()),
        )
        vectors = samples_of(kernel, training, np.flatnonzero(held))
        expansion = Expansion(kernel, vectors, solved.beta[held])
        if kernel is None:
            return support, expansion
        return support, kernel.weight_vector(vectors, solved.beta[held]) or expansion

    def _planes_warning(self) -> str:
        """Return what is wrong with where the planes are, and what to do, or nothing."""
        texts = [self.model_.infinity_warning]
        if self.calibration == "training":
            least, repeating = self.model_.training_recall_bound, self.model_.recall_of_repeats
            nominal, remedy = self._nominal_recall(), self._remedy()
            texts.append(warnings.training_planes_warning(least, repeating, nominal, remedy))
        return " ".join(text for text in texts if text)

    def _remedy(self) -> str:
        """Return what makes fewer samples support vectors, or makes it harmless that they are."""
        return f"calibration='auto', {self._smoother()}" if self.calibration == "training" else self._smoother()


def _log_mass_unseen(
    training: Training, learned: Training, out: BoolArray, support: Support, expansion: Expansion | WeightVector
) -> FloatArray | None:
    """Return the log kernel mass of rows, (n_samples,), held out or without their groups; None where none is needed."""
    groups = learned.groups
    if not isinstance(expansion, Expansion) or not isinstance(expansion.kernel, RBF):
        return None
    if groups is None and not out.any():
        return None
    mass = np.full(training.n_rows, np.nan)
    if groups is not None and len(learned.distinct.weights) <= MOST_EXACT:
        of_samples = np.empty(len(expansion.coefficients), dtype=np.intp)
        of_samples[support.samples] = groups.of_samples[learned.distinct.inverse[support.rows]]
        rows = training.X[groups.representatives]
        mass = learned.by_row(expansion.log_mass(rows, apart=(groups.numbers, of_samples)))
    mass[out] = expansion.log_mass(training.X[out])
    return mass
