"""The one-class slab support vector machine."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from slabsvm.base import KernelDetector
from slabsvm.dual import Dual, FloatArray, Status, one_class_slab
from slabsvm.gram import Gram

# Planes nearer to each other than this, relative to their offsets, have no slab between them.
NO_WIDTH = 1e-6
# A model of which this much less recall is to be expected than its parameters ask for is warned of.
LOST_RECALL = 0.1


class SlabCollapseWarning(UserWarning):
    """The slab is so narrow, or its training samples so much on its planes, that it will reject many new positives."""


class OneClassSlabSVM(KernelDetector):
    """One-class slab support vector machine: accept what lies between two parallel hyperplanes.

    In the kernel's feature space, the slab rho_lower <= <w, Phi(x)> <= rho_upper holds most of the training samples,
    which are all of the target class; one convex quadratic program finds w and both offsets. A one-class SVM is the
    same model without its upper plane.

    Parameters
    ----------
    kernel : {"rbf", "linear", "intersection", "hellinger", "chi2", "precomputed"} or callable, default="rbf"
        "intersection", "hellinger" and "chi2" are additive, for non-negative features such as histograms; "chi2" is
        sum_j 2 x_j z_j / (x_j + z_j). A callable takes two arrays of rows and returns their block of kernel values; it
        must be positive definite.
    gamma : {"scale", "auto"} or float > 0, default="scale"
        exp(-gamma |x - z|^2) for the RBF kernel; "scale" is 1 / (n_features * variance of X), "auto" 1 / n_features.
        The other kernels ignore it.
    nu_lower : float in (0, 1), default=0.1
        The share of samples that may lie below the lower hyperplane.
    nu_upper : float in (0, 1), default=0.01
        The share of samples that may lie above the upper hyperplane; nu_lower + nu_upper < 1. Ignored at epsilon = 0.
    epsilon : float >= 0, not 1, default=2/3
        The weight of the upper hyperplane. 0 leaves it out: that is the one-class SVM, and nu_lower may then be 1.
    offsets : {"leave-one-out", "training"}, default="leave-one-out"
        Where the hyperplanes are put: at quantiles of closed-form leave-one-out scores, so that the share of *new*
        positives that is accepted is near 1 - nu_lower - nu_upper, or of the training scores, as in the paper.
    solver : {"smo", "interior-point"}, default="smo"
        "interior-point" is the paper's method; it holds an n_samples x n_samples matrix.
    tol : float > 0, default=1e-3
        The duality gap to reach, relative to the objective.
    max_iter : int, default=-1
        Limit on the solver's iterations, -1 for none ("interior-point": 100).
    cache_size : float, default=1000
        Memory for rows of the kernel matrix, in MB; a block of 2,048 samples (16 to 32 MB) is held whatever it says.
    n_jobs : int or None, default=None
        Threads that compute large kernel blocks; None is 1 unless in a `joblib.parallel_config` context, -1 all.
    warm_start : bool, default=False
        Start the next fit from the last one's solution for the samples that are in both: for another nu, gamma or
        epsilon, or for data of which a part is new. The solver "interior-point" has no use for it.

    Attributes
    ----------
    rho_lower_, rho_upper_ : float
        The offsets of the hyperplanes, in the unit of `project`; rho_upper_ is infinite at epsilon = 0.
    offset_ : float
        decision_function = score_samples - offset_: minus half the slab's width (rho_lower_ at epsilon = 0).
    dual_coef_ : (1, n_SV) array of float64
        beta = alpha_lower - alpha_upper of the support vectors.
    support_ : (n_SV,) array of int
        Their rows in X.
    support_vectors_ : (n_SV, n_features) array or CSR matrix
        Empty for a precomputed kernel.
    n_iter_ : int
        The solver's iterations.
    duality_gap_ : float
        The certificate: the objective is within this of the optimum.
    relative_gap_ : float
        The gap relative to the objective; what tol bounds.
    dual_objective_ : float
        1/2 beta'K beta = 1/2 |w|^2.
    status_ : str
        "converged", "degenerate" (w = 0 is optimal), "iteration limit" or "stalled".
    expected_recall_ : float
        1 - n_SV / n_samples: a lower bound, by leave-one-out, of the share of new positives that hyperplanes put by
        offsets="training" would accept.
    loo_scores_ : (n_samples,) array of float64
        What each training sample scores under the model trained without it, in closed form; NaN where its weight is 0.
        Only with offsets="leave-one-out".
    gamma_ : float
        gamma as a number. Only with kernel="rbf".
    n_samples_fit_ : int
        Rows of the training data.
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array of str
        Only when X has feature names that are all strings.

    References
    ----------
    .. [1] V. Fragoso, W. Scheirer, J. Hespanha, M. Turk, "One-class slab support vector machine", ICPR 2016
       (arXiv 1608.01026).
    .. [2] B. Schoelkopf, J. Platt, J. Shawe-Taylor, A. Smola, R. Williamson, "Estimating the support of a
       high-dimensional distribution", Neural Computation 13, 2001.
    .. [3] V. Vapnik, O. Chapelle, "Bounds on error expectation for support vector machines", Neural Computation 12,
       2000: the span, on which offsets="leave-one-out" rests.

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import OneClassSlabSVM
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = OneClassSlabSVM().fit(X)
    >>> model.predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KernelDetector._parameter_constraints,
        "nu_lower": [Interval(Real, 0.0, 1.0, closed="right")],
        "nu_upper": [Interval(Real, 0.0, 1.0, closed="neither")],
        "epsilon": [Interval(Real, 0.0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        gamma: str | float = "scale",
        nu_lower: float = 0.1,
        nu_upper: float = 0.01,
        epsilon: float = 2 / 3,
        offsets: str = "leave-one-out",
        solver: str = "smo",
        tol: float = 1e-3,
        max_iter: int = -1,
        cache_size: float = 1000,
        n_jobs: int | None = None,
        warm_start: bool = False,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.nu_lower = nu_lower
        self.nu_upper = nu_upper
        self.epsilon = epsilon
        self.offsets = offsets
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.n_jobs = n_jobs
        self.warm_start = warm_start

    def score_samples(self, X: Any) -> FloatArray:
        """Return minus the distance of each score from the slab's centre, shape (n_samples,), in the score's unit.

        At epsilon = 0, where there is no upper hyperplane, the score itself.
        """
        scores = self.project(X)
        if np.isinf(self.rho_upper_):
            return scores
        return -np.abs(scores - 0.5 * (self.rho_lower_ + self.rho_upper_))

    def summary(self) -> str:
        """Return what was fitted and how well, in a few lines for a person to read."""
        check_is_fitted(self)
        share = self.dual_coef_.shape[1]
        gamma = f" (gamma {self.gamma_:.4g})" if hasattr(self, "gamma_") else ""
        kernel = self.kernel if isinstance(self.kernel, str) else getattr(self.kernel, "__name__", "callable")
        if np.isinf(self.rho_upper_):
            nus, slab = f"nu {self.nu_lower:g}, epsilon 0 (one-class SVM)", f"{self.rho_lower_:.6g} <= s"
        else:
            nus = f"nu {self.nu_lower:g} below and {self.nu_upper:g} above, epsilon {self.epsilon:.4g}"
            slab = f"{self.rho_lower_:.6g} <= s <= {self.rho_upper_:.6g}"
        lines = [
            f"{type(self).__name__}: {kernel} kernel{gamma}, {nus}",
            f"  hyperplanes      {slab}  ({self.offsets} offsets)",
            f"  support vectors  {share} of {self.n_samples_fit_} samples ({share / self.n_samples_fit_:.1%})",
            f"  recall           {self._nominal_recall():.1%} by the parameters; with training offsets at least "
            f"{self.expected_recall_:.1%}, by leave-one-out",
            f"  certificate      objective {self.dual_objective_:.6g}, duality gap {self.duality_gap_:.2g} "
            f"(relative {self.relative_gap_:.2g}, tol {self.tol:g}), {self.status_} after {self.n_iter_} iterations",
        ]
        return "\n".join(lines)

    def _dual(self, weights: FloatArray, gram: Gram) -> Dual:
        del gram
        self._refuse_impossible_parameters()
        return one_class_slab(weights, self.nu_lower, self.nu_upper, self.epsilon)

    def _refuse_impossible_parameters(self) -> None:
        if self.epsilon == 0:
            return
        if self.nu_lower + self.nu_upper >= 1:
            raise ValueError(
                f"nu_lower + nu_upper must be less than 1, got {self.nu_lower:g} + {self.nu_upper:g}: the lower "
                "hyperplane would be put above the upper one, and nothing would lie between them. Typical values are "
                "nu_lower=0.1 and nu_upper=0.01."
            )
        if self.epsilon == 1:
            raise ValueError(
                "epsilon must not be 1: both hyperplanes would pull equally, and w = 0 would be the solution. The "
                "paper uses 2/3; values above 1 exchange the roles of the hyperplanes."
            )

    def _nominal_recall(self) -> float:
        return 1.0 - self.nu_lower - (0.0 if self.epsilon == 0 else self.nu_upper)

    def _set_planes(self, offsets: FloatArray, rounding: float) -> None:
        self.rho_lower_ = float(offsets[0]) - rounding
        self.rho_upper_ = float(offsets[1]) + rounding if len(offsets) > 1 else np.inf
        self.offset_ = self.rho_lower_ if self.epsilon == 0 else -0.5 * (self.rho_upper_ - self.rho_lower_)
        self._warn_of_collapse(rounding)

    def _warn_of_collapse(self, rounding: float) -> None:
        text = self._trouble(rounding)
        if text:
            warnings.warn(text, SlabCollapseWarning, stacklevel=6)

    def _trouble(self, rounding: float) -> str:
        """Return what is wrong with the slab and what to do, or nothing."""
        if self.status_ == "degenerate":
            return f"The fitted w is zero: {Status.DEGENERATE.value}."
        width = self.rho_upper_ - self.rho_lower_
        largest = max(abs(self.rho_lower_), abs(self.rho_upper_)) if np.isfinite(width) else 0.0
        remedy = "offsets='leave-one-out', a smaller gamma" if self.offsets == "training" else "a smaller gamma"
        if width <= NO_WIDTH * largest + 4 * rounding:
            return (
                f"The slab has no width: its hyperplanes are at {self.rho_lower_:.6g} and {self.rho_upper_:.6g}. "
                "Either all samples are (nearly) the same point of feature space, or the kernel matrix is so close to "
                "the identity that the scores of different samples do not differ by more than rounding. Use "
                f"{remedy}, and check the features for constants."
            )
        nominal = self._nominal_recall()
        if self.offsets == "training" and self.expected_recall_ < nominal - LOST_RECALL:
            return (
                f"{1 - self.expected_recall_:.0%} of the training samples are support vectors. With offsets='training' "
                f"expect as few as {self.expected_recall_:.0%} of new positives to be accepted, where nu asks for "
                f"{nominal:.0%}. Use {remedy}, or more samples."
            )
        return ""
