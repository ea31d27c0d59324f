"""The one-class slab support vector machine: accept what lies between two parallel planes."""

from __future__ import annotations

from dataclasses import field
from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from slabsvm.detectors.base import parameters
from slabsvm.detectors.support_vectors import SupportVectorDetector
from slabsvm.fitted import warnings
from slabsvm.fitted.explanation import Explanation, TypicalParts, summed
from slabsvm.fitted.model import CalibrationScores, Solved
from slabsvm.fitted.planes import SlabPlanes, planes_at, refuse_impossible
from slabsvm.kernels.base import Kernel
from slabsvm.kernels.expansion import Expansion, SoftNeighbours
from slabsvm.runtime.arrays import BoolArray, FloatArray
from slabsvm.runtime.estimators import FiniteReal, Interval, StrOptions
from slabsvm.svm.gram import Gram
from slabsvm.svm.program import DualProblem, one_class_slab


@parameters
class OneClassSlabSVM(SupportVectorDetector):
    """One-class slab support vector machine: accept what lies between two parallel planes.

    All training samples are of the target class. In the kernel's feature space, most of them lie in the slab rho_lower
    <= <w, Phi(x)> <= rho_upper. One convex quadratic program finds w and both offsets. A one-class SVM is the same
    model without the upper plane.

    Parameters
    ----------
    kernel : {"rbf", "linear", "intersection", "hellinger", "chi2", "precomputed"} or callable, default="rbf"
        "intersection", "hellinger" and "chi2" are additive, for non-negative features such as histograms; "chi2" is
        sum_j 2 x_j z_j / (x_j + z_j). A callable takes two arrays of rows and returns their block of kernel values; it
        must be positive definite.
    gamma : {"neighbours", "scale", "auto"} or float > 0, default="neighbours"
        The RBF kernel is ``exp(-gamma |x - z|^2)``. "scale" is 1 / (n_features * variance of X), and "auto" is 1 /
        n_features. "neighbours" is 16 times "scale", or less if neighbours would not reach each other
        (`slabsvm.bandwidth.neighbours`). The other kernels ignore gamma.
    nu_lower : float in (0, 1), default=0.1
        The share of samples that may lie below the lower plane.
    nu_upper : float in (0, 1), default=0.01
        The share of samples that may lie above the upper plane; nu_lower + nu_upper < 1. Ignored at epsilon = 0.
    epsilon : float >= 0, not 1, default=2/3
        The weight of the upper plane. At 0 there is no upper plane: the model is the one-class SVM, and nu_lower may be
        1.
    ranking : {"two-sided", "centre"}, default="two-sided"
        How `score_samples` and `decision_function` rank rows. The planes do not depend on it. "two-sided" is 1 at the
        most normal position, 0 on both planes and negative beyond them, each side on its own scale. It still separates
        outliers by distance where kernel values have vanished. "centre" is the distance to the nearer plane, as in the
        paper. At epsilon = 0 both are the position along w.
    calibration : {"auto", "held-out", "training"}, default="auto"
        Which scores set the planes. "auto" takes quantiles of scores of rows that the model has not learned
        (`calibration_scores_`): it then accepts a share of *new* positives near 1 - nu_lower - nu_upper. Up to 2,000
        distinct rows each is left out, by itself or with its group. Of up to 3,000 rows 2,000 are learned. Of more,
        1,000 are held out, or a tenth if that is more. "held-out" holds as many out of any number of rows, but half at
        most. "training" takes quantiles of the training scores, as in the paper.
    tol : float > 0, default=1e-3
        The duality gap to reach, relative to the objective.
    max_iter : int, default=-1
        Limit on the solver's iterations. -1 derives it from the number of samples.
    cache_size : float, default=1000
        Memory for parts of the kernel matrix while fitting, in MB. A block of 2,048 samples (16 to 32 MB) is held in
        any case.
    random_state : int, RandomState or None, default=0
        Which rows are held out, and set the planes.
    n_jobs : int or None, default=None
        Threads that compute large kernel blocks. None is 1 unless in a `joblib.parallel_config` context; -1 is all.

    Attributes
    ----------
    rho_lower_, rho_upper_ : float
        The offsets of the planes, in the unit of `project`; `rho_upper_` is infinite at epsilon = 0.
    offset_ : float
        ``decision_function = score_samples - offset_``: 0; with ranking="centre" minus half the slab's width; at
        epsilon = 0 `rho_lower_`.
    planes_ : SlabPlanes
        Both planes, moved outwards by the rounding error. It also scores positions along w.
    model_ : SupportVectorModel
        All that the fit found, as one frozen value. Predictions, model files and displays read it.
    dual_coef_ : (1, n_SV) array of float64
        beta = alpha_lower - alpha_upper of the support vectors.
    support_ : (n_SV,) array of int
        Their rows in X.
    support_vectors_ : (n_SV, n_features) array or CSR matrix
        Empty for a precomputed kernel. Missing for linear and Hellinger kernels, which predict without training rows;
        use X[support_].
    n_iter_ : int
        The solver's iterations.
    duality_gap_ : float
        The certificate: the objective is within this of the optimum. Its own rounding, 1.8e-15 of K's diagonal times
        (1 + epsilon)^2, is added.
    relative_gap_ : float
        The gap, without that rounding, relative to the objective. tol bounds it.
    dual_objective_ : float
        ``1/2 beta'K beta = 1/2 |w|^2``, up to the rounding of K. The rounding is about 1e-7 if blocks of K were float32
        (RBF, more than 500 rows, unless tol asks for more). It may exceed the gap.
    status_ : str
        "converged", "degenerate" (w = 0 is optimal), "iteration limit", "slow", "cache limit" or "stalled".
    expected_recall_ : float
        The share of new positives that this model is expected to accept. It counts which of the m rows that set the
        planes the model accepts without having learned them, and where the planes lie in the m + 1 gaps between their
        scores (docs/results/thresholds.md). With groups it is the share for new groups. With calibration="training" it
        is `training_recall_bound_`.
    expected_recall_error_ : float
        Its standard error: sqrt(r (1 - r) / (m + 2)) for a recall of r. With groups it follows from how much groups
        differ. Not with calibration="training".
    training_recall_bound_ : float
        1 - n_SV / n_samples: a lower bound, by leave-one-out, of the share of new positives that planes with
        calibration="training" accept. It does not depend on this model's offsets.
    calibration_decisions_ : (n_samples,) array of float64
        The decision that follows from each of `calibration_scores_`: negative for the outliers among the training rows,
        NaN where the score is. Not with calibration="training".
    calibration_scores_ : (n_samples,) array of float64
        The position along w of each training row under a model without it, or without its group; copies of it stay.
        NaN where its weight is 0. With calibration="auto" and up to 2,000 distinct rows all are exact: those of refits,
        to within the duality gap. Rows that were held out have their scores under the model, and learned rows NaN. (Of
        more than 2,000 rows, up to 3,000, 2,000 are learned, and have exact scores besides.) Not with
        calibration="training".
    gamma_ : float
        gamma as a number. Only with kernel="rbf".
    n_samples_fit_ : int
        Rows of the training data.
    n_features_in_ : int
    feature_names_in_ : (n_features,) array of str
        Only when X has feature names that are all strings.

    References
    ----------
    .. [1] V. Fragoso, W. Scheirer, J. Hespanha, M. Turk, "One-class slab support vector machine", ICPR 2016
       (arXiv 1608.01026).
    .. [2] B. Schoelkopf, J. Platt, J. Shawe-Taylor, A. Smola, R. Williamson, "Estimating the support of a
       high-dimensional distribution", Neural Computation 13, 2001.
    .. [3] G. Cauwenberghs, T. Poggio, "Incremental and decremental support vector machine learning", NIPS 13, 2001: how
       rows are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import OneClassSlabSVM
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = OneClassSlabSVM().fit(X)
    >>> model.predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """

    nu_lower: float = 0.1
    nu_upper: float = 0.01
    epsilon: float = 2 / 3
    ranking: str = "two-sided"

    rho_lower_: float = field(init=False)
    rho_upper_: float = field(init=False)
    planes_: SlabPlanes = field(init=False)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "nu_lower": [Interval(Real, 0.0, 1.0, closed="right")],
        "nu_upper": [Interval(Real, 0.0, 1.0, closed="neither")],
        "epsilon": [FiniteReal(0.0, closed="left")],
        "ranking": [StrOptions({"two-sided", "centre"})],
    }

    def _dual(self, weights: FloatArray, kernel: Kernel | None, gram: Gram) -> DualProblem:
        refuse_impossible(self.nu_lower, self.nu_upper, self.epsilon)
        return one_class_slab(weights, self.nu_lower, self.nu_upper, float(self.epsilon))

    def score_along(self, along: FloatArray, X: Any) -> FloatArray:
        """Return how normal validated rows at these positions along w are, by `ranking`.

        :meta private:
        """
        return self.planes_.score(along, partial(self._log_mass, X))

    def _log_mass(self, X: Any, some: BoolArray) -> FloatArray:
        """Return the log kernel mass of some rows, given by a mask, under a local kernel."""
        expansion = self.model_.expansion
        assert isinstance(expansion, Expansion)
        return expansion.log_mass(X[some])

    def _explained_by_parts(self, parts: FloatArray, usual: TypicalParts) -> Explanation:
        return self.planes_.explained_along(summed(parts), parts, usual)

    def _explained_by_distances(self, neighbours: SoftNeighbours, X: Any) -> Explanation:
        if np.isinf(self.rho_upper_):
            return super()._explained_by_distances(neighbours, X)
        return self.planes_.explained_around(neighbours, X, self.epsilon)

    def _boundary(
        self, solved: Solved, scored: CalibrationScores, offsets: FloatArray, rounding: float
    ) -> dict[str, Any]:
        local = solved.kernel is not None and solved.kernel.local
        masses = scored.calibration.masses
        return planes_at(offsets, rounding, self, scores=scored.outer, weights=masses, local=local).attributes

    def _decisions(self, scores: FloatArray) -> FloatArray:
        if self.planes_.two_sided is not None:
            return self.planes_.two_sided(scores, self.model_.log_mass_of_others)
        return np.asarray(np.minimum(scores - self.rho_lower_, self.rho_upper_ - scores))

    def _nominal_recall(self) -> float:
        return 1.0 - self.nu_lower - (0.0 if self.epsilon == 0 else self.nu_upper)

    def _statement(self) -> tuple[str, str]:
        return self.planes_.statement(self.nu_lower, self.nu_upper, self.epsilon)

    def _diagnosis(self) -> str:
        fit = self.model_
        collapsed = self.planes_.without_width(
            self.status_, fit.rounding, remedy=self._remedy(), spread=fit.calibration_spread
        )
        if collapsed or self.calibration == "training":
            return collapsed or self._planes_warning()
        expected, nominal = self.expected_recall_, self._nominal_recall()
        rejected = warnings.learned_rejected_warning(fit.recall_of_learned, expected, nominal, self._smoother())
        return " ".join(text for text in (self._planes_warning(), rejected) if text)
