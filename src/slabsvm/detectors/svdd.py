"""Support vector data description: the smallest ball around most of the samples."""

from __future__ import annotations

from dataclasses import field, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from slabsvm.detectors.base import parameters, scores_by_folds
from slabsvm.detectors.kernelized import common_squared_length, refuse_remote_cloud
from slabsvm.detectors.support_vectors import SupportVectorDetector
from slabsvm.fitted.explanation import Explanation, TypicalParts
from slabsvm.fitted.model import CalibrationScores, Solved, SupportVectorModel
from slabsvm.fitted.training import Training
from slabsvm.kernels.base import Kernel, WeightVector
from slabsvm.kernels.expansion import Expansion
from slabsvm.runtime.arrays import BoolArray, FloatArray
from slabsvm.runtime.estimators import FiniteReal, Interval
from slabsvm.svm.gram import Gram
from slabsvm.svm.program import DualProblem, Status, hypersphere


@parameters
class SVDD(SupportVectorDetector):
    """Support vector data description: accept what lies in the smallest ball around most of the training samples.

    All training samples are of the target class. In the kernel's feature space, the ball ``|Phi(x) - a| <= R`` holds
    all but a share nu of them. The centre is a = sum_i alpha_i Phi(x_i). The score of a row is minus its squared
    distance from the centre. If k(x, x) is constant, as for the RBF kernel, the model equals the one-class SVM: it has
    the same coefficients, and twice the decision function. The model does not depend on the origin of the features.
    With kernel="linear" dense data are therefore centred first, and `project` uses products of the centred data.

    Parameters
    ----------
    kernel : {"rbf", "linear", "intersection", "hellinger", "chi2", "precomputed"} or callable, default="rbf"
        As for `OneClassSlabSVM`. A precomputed matrix must have a constant diagonal, because it does not hold k(x, x)
        of a new sample. Other matrices are refused.
    nu : float in (0, 1], default=0.1
        The share of samples that may lie outside. Each multiplier is at most 1 / (nu * n_samples).
    C : float > 0 or None, default=None
        The bound of a multiplier, instead of nu, as in [1]_. It is C * w_i for a sample of weight w_i, so the unit of
        weights matters. C must be at least 1 / (sum of weights), which corresponds to nu = 1. At C >= 1 (for weights of
        1) no training sample may lie outside. None uses nu.
    calibration : {"auto", "held-out", "training"}, default="auto"
        Which distances set R^2, as a quantile. "auto" and "held-out" take those of rows that the model has not learned,
        as for `OneClassSlabSVM`: it then accepts a share of *new* positives near 1 - nu. Where k(x, x) differs between
        rows, "auto" takes them from folds, as `KernelPCADetector` does, of any number of rows. "training" takes the
        training samples' distances, as in [1]_.
    gamma, tol, max_iter, cache_size, random_state, n_jobs
        As for `OneClassSlabSVM`, defaults included.

    Attributes
    ----------
    radius_ : float
        R, a distance in feature space: the square root of ``-offset_``, or 0 if that is negative.
    offset_ : float
        -R^2, in the unit of `score_samples` and of the kernel.
    nu_ : float
        nu, or the share that C implies.
    dual_coef_ : (1, n_SV) array of float64
        The multipliers alpha of the support vectors; they sum to 1.
    dual_objective_ : float
        1/2 alpha'K alpha - 1/2 alpha'diag(K).
    calibration_scores_ : (n_samples,) array of float64
        Minus the squared distance of each training row from the centre of a model that has not learned it. Exact scores
        leave out the change of the centre's length, which moves all distances alike. NaN where the weight is 0, and for
        rows that were learned where others set the threshold. Not with calibration="training".
    support_, support_vectors_, n_iter_, duality_gap_, relative_gap_, status_, expected_recall_,
    expected_recall_error_, training_recall_bound_, calibration_decisions_, gamma_, n_samples_fit_, n_features_in_,
    feature_names_in_
        As for `OneClassSlabSVM`.

    References
    ----------
    .. [1] D. Tax, R. Duin, "Support vector data description", Machine Learning 54, 2004.
    .. [2] W.-C. Chang, C.-P. Lee, C.-J. Lin, "A revisit to support vector data description", technical report,
       National Taiwan University, 2013: the values of C that make sense.

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import SVDD
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = SVDD(kernel="linear", nu=0.05).fit(X)
    >>> model.predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """

    nu: float = 0.1
    C: float | None = None

    nu_: float = field(init=False)
    radius_: float = field(init=False)

    _needs_no_origin = True

    @property
    def _by_folds(self) -> bool:
        # k(x, x) differs between rows, and with it what the radius is measured by.
        return self.kernel not in ("rbf", "precomputed")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
        "C": [FiniteReal(0.0, closed="neither"), None],
    }

    def _dual(self, weights: FloatArray, kernel: Kernel | None, gram: Gram) -> DualProblem:
        nu = self._share_outside(float(weights.sum()))
        # Since the multipliers sum to 1, a constant may be taken off the diagonal: where all of it is one, what is left
        # is the one-class SVM's program, and its objective, which is the one to measure a gap by.
        constant = common_squared_length(kernel, gram, type(self).__name__) is not None
        return hypersphere(weights, nu, np.zeros_like(gram.diagonal) if constant else gram.diagonal)

    def _read_off(self, training: Training, learned: Training, out: BoolArray, solved: Solved) -> SupportVectorModel:
        # Around samples of one length a centre at the origin, where w is 0, is as good as any.
        if solved.solution.status is Status.DEGENERATE and solved.dual.linear.any():
            refuse_remote_cloud(2 * abs(solved.solution.objective), solved.gram)
        fit = super()._read_off(training, learned, out, solved)
        taken_off = self._taken_off(solved)
        calibration_scores = (
            None if fit.calibration_scores is None else 2.0 * fit.calibration_scores - taken_off - fit.squared_norm
        )
        nu = self._share_outside(float(training.weights.sum()))
        return replace(
            fit,
            objective=fit.objective - 0.5 * taken_off,
            calibration_scores=calibration_scores,
            boundary={**fit.boundary, "nu_": nu},
        )

    def _of_part(self) -> Self:
        # C is a bound for rows of weight 1, of which a part has fewer.
        part = super()._of_part()
        if self.C is not None:
            part.set_params(nu=self.nu_, C=None)
        return part

    def _new_scores(self, expansion: Expansion | WeightVector, X: Any, solved: Solved) -> FloatArray:
        along = super()._new_scores(expansion, X, solved)
        # A matrix has one length on its diagonal. Learned rows may have one that others do not have.
        if solved.kernel is None:
            return along
        return along - 0.5 * (solved.kernel.diagonal(X) - self._taken_off(solved))

    def _scores_by_folds(self, training: Training, solved: Solved) -> FloatArray:
        # A score is 2 s - taken off - |a|^2, with s the dual problem's.
        nu = self._share_outside(float(training.distinct.weights.sum()))
        ball = clone(self).set_params(calibration="training", nu=nu, C=None)
        found = scores_by_folds(ball, training, check_random_state(self.random_state))
        return 0.5 * (found + self._taken_off(solved) + solved.squared_norm)

    def _taken_off(self, solved: Solved) -> float:
        """Return what `_dual` took off the diagonal of K."""
        return common_squared_length(solved.kernel, solved.gram, type(self).__name__) or 0.0

    def _far_score(self, training: Training, solved: Solved) -> float | None:
        # k(x, x) outgrows s(x) wherever it grows: rows far away are outside.
        return None

    def _added_to_scores(self, solved: Solved) -> float:
        return super()._added_to_scores(solved) + 0.5 * (self._taken_off(solved) + solved.squared_norm)

    def _boundary(
        self, solved: Solved, scored: CalibrationScores, offsets: FloatArray, rounding: float
    ) -> dict[str, float]:
        # |Phi(x) - a|^2 = |a|^2 + taken off - 2 s(x), with s the dual problem's score.
        squared_radius = solved.squared_norm + self._taken_off(solved) - 2.0 * (float(offsets[0]) - rounding)
        return {"offset_": -squared_radius, "radius_": float(np.sqrt(max(squared_radius, 0.0)))}

    def score_along(self, along: FloatArray, X: Any) -> FloatArray:
        """Return minus the squared distance from the centre of validated rows at these positions along w.

        :meta private:
        """
        lengths = self.model_.squared_lengths(X)
        with np.errstate(over="ignore", invalid="ignore"):
            scores: FloatArray = 2 * along - lengths - self.model_.squared_norm
        # What is so long that its square overflows is infinitely far, whatever the product is.
        scores[~np.isfinite(lengths)] = -np.inf
        return scores

    def _by_feature(self, kernel: Kernel, position: Expansion | WeightVector, X: Any) -> FloatArray:
        # |Phi(x) - a|^2 is a sum over features, too.
        with np.errstate(over="ignore", invalid="ignore"):
            return 2.0 * position.by_feature(X) - kernel.diagonal_by_feature(X)

    def _explained_by_parts(self, parts: FloatArray, usual: TypicalParts) -> Explanation:
        return super()._explained_by_parts(parts, usual).less(self.model_.squared_norm)

    def _share_outside(self, total: float) -> float:
        """Return the nu that C stands for where weights sum to total, or nu."""
        if self.C is None:
            return self.nu
        unit = float(getattr(self, "_weight_unit", 1.0))
        with np.errstate(over="ignore"):
            least = float(np.divide(1.0 / total, unit))
            bound = float(np.multiply(float(self.C), unit))
        if not np.isfinite(least):
            raise ValueError(
                f"The sample weights sum to {total * unit:.3g}, which is too little for any C in float64. Multiply "
                "sample_weight by a constant, or give nu instead of C."
            )
        share = 1.0 / (bound * total) if bound > 0 else np.inf
        # But for rounding.
        if share > 1.0 + 1e-12:
            raise ValueError(
                f"C must be at least 1 / (sum of weights) = {least:.4g}, got {self.C:.4g}: the multipliers, each "
                "at most C times its sample's weight, could not sum to 1. C is 1 / (nu * sum of weights); give nu "
                "instead to state the share of samples that may lie outside."
            )
        return min(share, 1.0)

    def _nominal_recall(self) -> float:
        return 1.0 - self.nu_

    def _statement(self) -> tuple[str, str]:
        bound = f"nu {self.nu:g}" if self.C is None else f"C {self.C:g} (nu {self.nu_:.4g})"
        return bound, f"ball             |Phi(x) - a| <= {self.radius_:.6g}"

    def _diagnosis(self) -> str:
        if self.status_ == "degenerate":
            return (
                "The ball's radius is lost in rounding: all samples are (nearly) the same point of feature space. "
                "Check the features for constants."
            )
        return self._equal_scores_warning() or self._planes_warning()
