"""The one-class SVM: accept what lies beyond one plane."""

from __future__ import annotations

from dataclasses import field
from numbers import Real
from typing import Any, ClassVar

from slabsvm.detectors.base import parameters
from slabsvm.detectors.support_vectors import SupportVectorDetector
from slabsvm.fitted.model import CalibrationScores, Solved
from slabsvm.kernels.base import Kernel
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.estimators import Interval
from slabsvm.svm.gram import Gram
from slabsvm.svm.program import DualProblem, one_class


@parameters
class OneClassSVM(SupportVectorDetector):
    """One-class support vector machine: accept what lies beyond a plane, seen from the origin.

    All training samples are of the target class. In the kernel's feature space, the plane <w, Phi(x)> = rho is as far
    from the origin as possible with all but a share nu of them beyond it. The model is the one-class slab SVM without
    its upper plane (epsilon = 0). It adds to scikit-learn's `OneClassSVM` additive kernels, weights that mean
    repetition, a certificate, and an offset that holds for new samples. The score of a row is <w, Phi(x)> = sum_i
    alpha_i k(x_i, x), in the kernel's unit.

    Parameters
    ----------
    nu : float in (0, 1], default=0.1
        The share of samples that may lie on the wrong side of the plane.
    calibration : {"auto", "held-out", "training"}, default="auto"
        Which scores set the plane, as for `OneClassSlabSVM`: with "auto" and "held-out" the nu-quantile of scores of
        rows that the model has not learned (`calibration_scores_`), so that it accepts a share of *new* positives near
        1 - nu; with "training" that of the training scores, as in [1]_ and scikit-learn.
    kernel, gamma, tol, max_iter, cache_size, random_state, n_jobs
        As for `OneClassSlabSVM`, defaults included.

    Attributes
    ----------
    rho_, offset_ : float
        The plane's offset, in the unit of `score_samples`; two names for one number.
    dual_coef_ : (1, n_SV) array of float64
        The multipliers alpha of the support vectors; they sum to 1. (scikit-learn's sum to nu * n_samples.)
    support_, support_vectors_, n_iter_, duality_gap_, relative_gap_, dual_objective_, status_, expected_recall_,
    expected_recall_error_, training_recall_bound_, calibration_decisions_, calibration_scores_, gamma_, n_samples_fit_,
    n_features_in_, feature_names_in_
        As for `OneClassSlabSVM`.

    References
    ----------
    .. [1] B. Schoelkopf, J. Platt, J. Shawe-Taylor, A. Smola, R. Williamson, "Estimating the support of a
       high-dimensional distribution", Neural Computation 13, 2001, eqs. (3.10)-(3.13).

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import OneClassSVM
    >>> X = np.random.default_rng(0).dirichlet([9.0, 9.0, 9.0], size=200)
    >>> model = OneClassSVM(kernel="intersection", nu=0.05).fit(X)
    >>> model.predict([[0.3, 0.3, 0.4], [0.0, 0.0, 1.0]])
    array([ 1, -1])
    """

    nu: float = 0.1

    rho_: float = field(init=False)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
    }

    def _dual(self, weights: FloatArray, kernel: Kernel | None, gram: Gram) -> DualProblem:
        return one_class(weights, self.nu)

    def _boundary(
        self, solved: Solved, scored: CalibrationScores, offsets: FloatArray, rounding: float
    ) -> dict[str, float]:
        rho = float(offsets[0]) - rounding
        return {"rho_": rho, "offset_": rho}

    def score_along(self, along: FloatArray, X: Any) -> FloatArray:
        """Return the positions themselves.

        :meta private:
        """
        return along

    def _nominal_recall(self) -> float:
        return 1.0 - self.nu

    def _statement(self) -> tuple[str, str]:
        return f"nu {self.nu:g}", f"plane            {self.rho_:.6g} <= s"

    def _diagnosis(self) -> str:
        if self.status_ == "degenerate":
            return (
                "The fitted w is zero to within rounding: the origin of feature space lies within the cloud of "
                "samples, and no plane separates it from them. Use kernel='rbf', a larger nu, or SVDD, which needs "
                "no origin."
            )
        return self._equal_scores_warning() or self._planes_warning()
