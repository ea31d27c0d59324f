"""The abstract support vector detector: a program, access to K, a solver, and what is read off the solution.

A subclass states its Dual, where the solution's offsets put its boundary, and how a row's position along w becomes a
score.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import field, replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from slabsvm.data.distinct import Groups
from slabsvm.detectors.base import fit_with_groups, parameters
from slabsvm.detectors.kernelized import GramFactory, KernelDetector, samples_of, soft_neighbours_of
from slabsvm.dual.active_set import polished
from slabsvm.dual.leave_one_group_out import leave_one_group_out
from slabsvm.dual.leave_one_out import errors_of, largest_error, leave_one_out
from slabsvm.dual.program import Dual
from slabsvm.dual.solution import Solution
from slabsvm.fitted import diagnosis, recall
from slabsvm.fitted.diagnosis import unresolved
from slabsvm.fitted.explanation import Explanation, Usual, of_distances, of_parts, summed
from slabsvm.fitted.model import Model, Solved, Support, SupportVectorModel, Unseen, rounding_of
from slabsvm.fitted.planes import beside_repeats
from slabsvm.fitted.training import Training
from slabsvm.gram.base import MEDIUM, SMALL, Gram
from slabsvm.gram.computed import gram_of
from slabsvm.kernels.base import Kernel, WeightVector
from slabsvm.kernels.expansion import Expansion, SoftNeighbours
from slabsvm.kernels.rbf import RBF
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.runtime.caller import counted, warn
from slabsvm.runtime.sklearn_private import FiniteReal, Interval


@parameters
class SupportVectorDetector(KernelDetector):
    """A detector whose scores are made of s(x) = sum_i beta_i k(x_i, x), with beta from a Dual."""

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
    expected_recall_: float = field(init=False)
    expected_recall_error_: float = field(init=False)
    training_recall_bound_: float = field(init=False)
    loo_error_: float = field(init=False)
    gamma_: float = field(init=False)
    model_: SupportVectorModel = field(init=False)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "tol": [FiniteReal(0.0, closed="neither")],
        "max_iter": [Interval(Integral, -1, None, closed="left")],
        "cache_size": [FiniteReal(0.0, closed="neither")],
    }

    fit = fit_with_groups

    @abstractmethod
    def _dual(self, weights: FloatArray, kernel: Kernel | None, gram: Gram) -> Dual:
        """Return the program to solve for samples of these weights."""

    @abstractmethod
    def _boundary(self, solved: Solved, unseen: Unseen, offsets: FloatArray, rounding: float) -> dict[str, Any]:
        """Return the attributes, offset_ among them, that planes at these offsets make, moved by rounding.

        unseen says where positives lie along w.
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
        del kernel
        return position.by_feature(X)

    def parts(self, X: Any) -> FloatArray:
        """Return what each feature of rows adds to their position along w, (n, d), by an additive kernel.

        :meta private:
        """
        kernel, position = self.model_.kernel, self.model_.expansion
        assert kernel is not None
        return self._by_feature(kernel, position, self._checked(X, reset=False))

    def _explained_by_parts(self, parts: FloatArray, usual: Usual) -> Explanation:
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
        share = self.dual_coef_.shape[1]
        gamma = f" (gamma {self.gamma_:.4g})" if hasattr(self, "gamma_") else ""
        kernel = self.kernel if isinstance(self.kernel, str) else getattr(self.kernel, "__name__", "callable")
        parameters, boundary = self._statement()
        ended = f"{self.status_} after {counted(self.n_iter_, 'iteration')}"
        error = getattr(self, "loo_error_", 0.0)
        how_nearly = f"to about {error:.2g}" if np.isfinite(error) else "with an unknown error"
        estimated = f", estimated {how_nearly}" if error else ""
        lines = [
            f"{type(self).__name__}: {kernel} kernel{gamma}, {parameters}",
            f"  {boundary}  ({self.offsets} offsets{estimated})",
            f"  support vectors  {share} of {self.n_samples_fit_} samples ({share / self.n_samples_fit_:.1%})",
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
        if self.offsets == "training":
            return f"at least {self.expected_recall_:.1%} of new positives expected, {asked}"
        return (
            f"{self.expected_recall_:.1%} of new positives expected, {asked} (of offsets='training', at least "
            f"{self.training_recall_bound_:.1%})"
        )

    def _learn(self, training: Training, *, gram_of: GramFactory = gram_of) -> SupportVectorModel:
        kernel, gram = self._known(training, gram_of)
        # The solver, leave-one-out scores and warnings then read the same values.
        gram = gram.held() if gram.n_samples <= SMALL else gram
        dual = self._dual(training.distinct.weights, kernel, gram)
        solution = self._solve(dual, gram)
        held = gram
        # Where all samples are free, as of a slab that collapsed, a path has no bounds to make detours at.
        bounded = not ((solution.multipliers > 0) & (solution.multipliers < dual.caps)).any(axis=0).all()
        if self.offsets == "leave-one-out" and bounded and self.max_iter < 0 and solution.converged:
            held = gram.held() if gram.n_samples <= MEDIUM else gram
            solution = polished(dual, held, solution)
        return self._read_off(training, Solved(kernel, held, dual, solution))

    def fit_training(
        self, training: Training, *, part: bool = False, gram_of: GramFactory = gram_of
    ) -> SupportVectorModel:
        """Learn with access to K made by gram_of.

        :meta private:
        """
        with ONE_BLAS_THREAD:
            fitted = self._learn(training, gram_of=gram_of)
        self._publish(training, fitted, part=part)
        return fitted

    def _take(self, training: Training, fitted: Model) -> None:
        super()._take(training, fitted)
        if self.offsets == "leave-one-out":
            rows, weights = training.counted
            self.expected_recall_ = recall.foretold(self._within_planes()[:, rows], weights, training.groups)[0]

    def _solve(self, dual: Dual, gram: Gram) -> Solution:
        from slabsvm.solvers import loop

        solution = loop.solve(
            dual, gram, tol=float(self.tol), max_iter=self.max_iter, cache_bytes=float(self.cache_size) * 1e6
        )
        if not solution.converged:
            warn(
                f"{type(self).__name__} stopped at a relative duality gap of {solution.relative_gap:.2g}, "
                f"where tol asks for {self.tol:.2g}, after {counted(solution.iterations, 'iteration')}: "
                f"{solution.status.value}.",
                ConvergenceWarning,
            )
        elif text := unresolved(dual, gram, solution, model=type(self).__name__, tol=self.tol, kernel=self.kernel):
            warn(text, ConvergenceWarning)
        return solution

    def _read_off(self, training: Training, solved: Solved) -> SupportVectorModel:
        """Return what follows from a solution."""
        gram, dual, solution = solved.gram, solved.dual, solved.solution
        support, expansion = self._held(training, solved)
        unseen, offsets = Unseen(solution.scores, training.distinct.weights, None), solution.offsets
        left_out, loo_errors = None, np.zeros((2, dual.n_planes))
        # What a score's rounding is measured by: the sum's largest terms, where training samples lie on the planes and
        # a new score must meet theirs; with leave-one-out planes, which may lie far below those terms, the sizes of the
        # planes and of the training scores that they were subtracted from.
        size = float(np.abs(solved.beta).sum()) * float(gram.diagonal.max(initial=0.0))
        if self.offsets == "leave-one-out":
            unseen, loo_errors = self._left_out(training, solved)
            left_out = unseen.scores
            offsets = (dual if unseen.groups is None else dual.over(unseen.weights)).offsets(left_out)
            size = float(np.abs(offsets).max() + np.abs(solution.scores).max())
        rounding = rounding_of(size + self._added_to_scores(solved))
        positions = unseen.scores
        if left_out is not None and unseen.groups is None:
            positions, offsets = beside_repeats(dual, solution.scores, left_out, offsets, rounding)
        infinity_warning, offsets = diagnosis.planes_outside(
            solved,
            unseen,
            offsets,
            rounding,
            far_score=partial(self._far_score, training, solved),
            kernel=self.kernel,
            remedy=self._smoother(),
        )
        boundary = self._boundary(solved, replace(unseen, scores=positions), offsets, rounding)
        learned = dual.accepts(solution.scores, offsets, rounding)
        within = None if left_out is None else dual.distances(left_out, offsets) + rounding
        return SupportVectorModel(
            kernel=solved.kernel,
            expansion=expansion,
            support=support,
            boundary=boundary,
            offset=boundary["offset_"],
            rounding=rounding,
            loo_scores=None if left_out is None else training.by_row(left_out),
            loo_error=None if left_out is None else largest_error(loo_errors),
            loo_log_mass=_log_mass_without_groups(training, unseen.groups, support, expansion),
            recall_error=None if within is None else recall.foretold(within, unseen.weights, unseen.groups)[1],
            inexact_warning=None
            if within is None
            else recall.inexact(loo_errors, within, unseen.weights, unseen.groups),
            infinity_warning=infinity_warning,
            squared_norm=solved.squared_norm,
            length=float(gram.diagonal[0]),
            recall_of_learned=solved.recall_of_learned(training.distinct, learned),
            recall_of_repeats=solved.recall_of_repeats(training.distinct, learned),
            objective=solution.objective,
            gap=solution.gap,
            relative_gap=solution.relative_gap,
            iterations=solution.iterations,
            status=solution.status.name.lower().replace("_", " "),
            usual=self._usual(training, solved, expansion),
        )

    def _left_out(self, training: Training, solved: Solved) -> tuple[Unseen, FloatArray]:
        """Return what positives score without themselves, or their groups, and how far each plane can be off."""
        dual, gram, solution, groups = solved.dual, solved.gram, solved.solution, training.groups
        if groups is not None:
            found, off = leave_one_group_out(dual, gram, solution, groups)
            scores = np.concatenate(found)
            doubtful = np.repeat(off, [len(each) for each in found])
            errors = errors_of(dual.over(groups.weights), scores, np.flatnonzero(doubtful), doubtful[doubtful > 0])
            return Unseen(scores, groups.weights, groups), errors
        alone = leave_one_out(dual, gram, solution, cache_bytes=float(self.cache_size) * 1e6)
        errors = np.broadcast_to(alone.errors, (2, dual.n_planes))
        return Unseen(alone.scores, training.distinct.weights, None), errors

    def _usual(self, training: Training, solved: Solved, position: Expansion | WeightVector) -> Usual | None:
        """Return what each feature adds to training rows, where features add up."""
        kernel = solved.kernel
        if kernel is None or not kernel.additive:
            return None
        parts = partial(self._by_feature, kernel, position)
        return Usual.of(parts, training.samples, training.distinct.weights)

    def _far_score(self, training: Training, solved: Solved) -> float | None:
        """Return the limit of s(x) as all features of x grow alike; None where it is unknown, or decides nothing."""
        if solved.kernel is None:
            return None
        held = np.flatnonzero(solved.beta)
        return solved.kernel.far_score(samples_of(solved.kernel, training, held), solved.beta[held])

    def _added_to_scores(self, solved: Solved) -> float:
        """Return the size of what a prediction adds to s(x), in its unit."""
        return float(np.abs(solved.dual.linear).max())

    def _held(self, training: Training, solved: Solved) -> tuple[Support, Expansion | WeightVector]:
        """Return the rows that hold the planes, and the function of position along w that they make."""
        distinct, weights = training.distinct, training.weights
        kernel, dual, solution = solved.kernel, solved.dual, solved.solution
        held = solved.held
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
        return support, kernel.weight_vector(vectors, solved.beta[held]) or expansion

    def _misplaced(self) -> str:
        """Return what is wrong with where the planes are, and what to do, or nothing."""
        texts = [self.model_.infinity_warning, self.model_.inexact_warning]
        if self.offsets == "training":
            fit, nominal = self.model_, self._nominal_recall()
            texts.append(recall.bounded(fit.training_recall_bound, fit.recall_of_repeats, nominal, self._remedy()))
        return " ".join(text for text in texts if text)

    def _remedy(self) -> str:
        """Return what makes fewer samples support vectors, or makes it harmless that they are."""
        return f"offsets='leave-one-out', {self._smoother()}" if self.offsets == "training" else self._smoother()


def _log_mass_without_groups(
    training: Training, groups: Groups | None, support: Support, expansion: Expansion | WeightVector
) -> FloatArray | None:
    """Return the log kernel mass of each row, (n_samples,), without its group; None where there is none."""
    if groups is None or not isinstance(expansion, Expansion) or not isinstance(expansion.kernel, RBF):
        return None
    of_samples = np.empty(len(expansion.coefficients), dtype=np.intp)
    of_samples[support.samples] = groups.of_samples[training.distinct.group[support.rows]]
    rows = training.X[groups.representatives]
    return training.by_row(expansion.log_mass(rows, apart=(groups.numbers, of_samples)))
