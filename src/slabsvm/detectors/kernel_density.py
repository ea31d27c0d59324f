"""Kernel density: accept where the positives' Gaussians add up to enough."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from slabsvm.detectors.base import Detector, fit_with_groups, parameters
from slabsvm.fitted import warnings
from slabsvm.fitted.explanation import Explanation, of_distances
from slabsvm.fitted.model import Model, rounding_of
from slabsvm.fitted.training import Training
from slabsvm.fitted.warnings import alike, effective, optimistic_warning
from slabsvm.kernels.bandwidth import feature_variance, normal_reference
from slabsvm.kernels.base import LARGEST_KERNEL_VALUE
from slabsvm.kernels.expansion import Expansion
from slabsvm.kernels.named import RBF
from slabsvm.runtime.arrays import FloatArray, IndexArray, row_sums
from slabsvm.runtime.estimators import FiniteReal, Interval, StrOptions, cached_property


@dataclass(frozen=True)
class Density:
    """A mixture of Gaussians of one width around samples."""

    kernel: RBF  # exp(-|x - z|^2 / (2 bandwidth^2))
    samples: Any  # (n, d)
    log_shares: FloatArray  # (n,): the logarithm of each Gaussian's share
    bandwidth: float

    @cached_property
    def expansion(self) -> Expansion:
        """The sum of the Gaussians, each with its share and of height 1."""
        return Expansion(self.kernel, self.samples, np.exp(self.log_shares))

    def logarithm(self, X: Any, *, apart: tuple[IndexArray, IndexArray] | None = None) -> FloatArray:
        """Return the log density at each row of X, (n_rows,); apart is that of `Expansion.log_mass`."""
        return np.asarray(self.expansion.log_mass(X, apart=apart) - self.log_height)

    def without_own(self, scores: FloatArray) -> FloatArray:
        """Return what the samples, whose log densities these are, would score without themselves."""
        own = self.log_shares - self.log_height
        with np.errstate(divide="ignore"):
            left: FloatArray = scores + np.log(np.maximum(-np.expm1(own - scores), 0.0))
        shares = np.exp(self.log_shares)
        return left - _log_of_the_others(shares, np.zeros_like(shares))

    @property
    def log_height(self) -> float:
        """Minus the logarithm of a Gaussian's density at its middle."""
        return float(self.samples.shape[1] * (np.log(self.bandwidth) + 0.5 * np.log(2 * np.pi)))


@dataclass(frozen=True, kw_only=True)
class DensityModel(Model):
    """A density with its threshold."""

    density: Density
    one_point: bool  # whether all samples are the same
    expected_training_recall: float  # the share of new positives that training thresholds will accept

    def attributes(self) -> dict[str, Any]:
        """Return the public attributes, by their names."""
        return {**super().attributes(), "bandwidth_": self.density.bandwidth}


@parameters
class KernelDensityDetector(Detector):
    """Kernel density detector: accept where the training samples lie densely.

    All training samples are of the target class. The density is the mean of Gaussians of one bandwidth around them. The
    score of a sample is the logarithm of the density.

    Parameters
    ----------
    bandwidth : {"scott", "silverman"} or float > 0, default="scott"
        The Gaussians' standard deviation h, in the unit of the features. "scott" is sigma n^(-1/(d+4)) [2]_,
        "silverman" sigma (4/((d+2) n))^(1/(d+4)) [1]_, with d features, sigma^2 the mean of their variances, and n the
        number of distinct samples ((sum w)^2 / sum w^2 where they weigh differently). For features of mean variance 1,
        and samples that differ, these are scikit-learn's rules. Both suit one bell-shaped cloud. Several clusters need
        a smaller bandwidth.
    nu : float in (0, 1], default=0.1
        The share of samples that may be rejected.
    calibration : {"auto", "held-out", "training"}, default="auto"
        Which scores set the threshold, at their nu-quantile. "auto" takes each training row's log density without its
        own Gaussian; those of its copies stay. The model then accepts a share of *new* positives near 1 - nu.
        "held-out" does not learn 1,000 of the rows, a tenth if that is more, half if that is fewer, and takes their log
        densities. "training" includes the own Gaussian.
    random_state : int, RandomState or None, default=0
        Which rows are held out.

    Attributes
    ----------
    bandwidth_ : float
        h.
    offset_ : float
        The least log density that is accepted.
    expected_recall_, expected_recall_error_ : float
        As for `OneClassSlabSVM`. Not with calibration="training".
    calibration_scores_ : (n_samples,) array of float64
        The log density at each training row, computed from the other rows. NaN where the weight is 0, and for learned
        rows where others were held out. Not with
        calibration="training".
    n_samples_fit_ : int
    n_features_in_ : int
    feature_names_in_ : (n_features,) array of str

    References
    ----------
    .. [1] B. W. Silverman, "Density estimation for statistics and data analysis", 1986, section 4.3.2, eq. (4.14) and
       table 4.1, with the single scale parameter that it proposes.
    .. [2] D. W. Scott, "Multivariate density estimation", 1992, eq. (6.42), with the same scale.

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import KernelDensityDetector
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> KernelDensityDetector().fit(X).predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """

    bandwidth: str | float = "scott"
    nu: float = 0.1

    bandwidth_: float = field(init=False)
    model_: DensityModel = field(init=False)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "bandwidth": [StrOptions({"scott", "silverman"}), FiniteReal(0.0, closed="neither")],
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
    }

    fit = fit_with_groups

    def score_samples(self, X: Any) -> FloatArray:
        """Return the logarithm of the density at each row, shape (n_samples,); -inf where it underflows even so."""
        check_is_fitted(self)
        return self.model_.density.logarithm(self._checked(X, reset=False))

    def _explanation(self, X: Any) -> Explanation:
        density = self.model_.density
        neighbours = density.expansion.soft_neighbours
        assert neighbours is not None
        near = neighbours.distances(self._checked(X, reset=False))
        decisions = near.log_mass - density.log_height - self.offset_
        return of_distances(near.distances, neighbours.typical, decisions, reference=self._typical_decision())

    def _learn(self, training: Training) -> DensityModel:
        learned, out = self._learned(training)
        shares = learned.distinct.weights / learned.distinct.weights.sum()
        scale = _mean_deviation(learned.samples, shares)
        density = _density(learned.samples, shares, self._bandwidth(scale, shares, training.X.shape[1]))
        of_rows = np.full(training.n_rows, np.nan)
        if out.any():
            of_rows[out] = density.logarithm(training.X[out])
        elif self._left_out(out) and len(shares) > 1:
            of_rows = training.by_row(_left_out(density, training))
        else:
            of_rows = training.by_row(density.logarithm(training.X[training.counted[0]]))
        calibration = training.calibration(~np.isnan(of_rows), held_out=bool(out.any()))
        scores, counts = of_rows[calibration.rows], calibration.masses
        offset = self._threshold(calibration, scores, self.nu)
        infinity_warning = ""
        # A row infinitely far away has no density, -inf: samples that have none without themselves are outside too.
        least = -0.5 * float(np.finfo(np.float64).max)
        if offset < least:
            offset = least
            alone = float(np.average(scores < offset, weights=counts))
            infinity_warning = warnings.out_of_reach_warning(
                alone, 1.0 - alone, self._nominal_recall(), "a larger bandwidth"
            )
        rounding = rounding_of(1.0 + abs(offset))
        expected = 1.0
        if self.calibration == "training" and len(shares) > 1:
            expected = float(shares @ (density.without_own(density.logarithm(learned.samples)) >= offset - rounding))
        return DensityModel(
            offset=offset - rounding,
            rounding=rounding,
            **self._calibrated(training, of_rows, calibration, (scores - offset + rounding)[None]),
            infinity_warning=infinity_warning,
            density=density,
            one_point=scale == 0,
            expected_training_recall=expected,
        )

    def _bandwidth(self, scale: float, shares: FloatArray, n_features: int) -> float:
        if not isinstance(self.bandwidth, str):
            return float(self.bandwidth)
        return (scale if scale > 0 else 1.0) * normal_reference(self.bandwidth, effective(shares), n_features)

    @property
    def _takes_scale(self) -> bool:
        return isinstance(self.bandwidth, str)

    def _nominal_recall(self) -> float:
        return 1.0 - self.nu

    def _diagnosis(self) -> str:
        if self.model_.one_point:
            return (
                "All samples are the same point, so there is no scale to derive a bandwidth from. Check the features "
                "for constants."
            )
        return self.model_.infinity_warning or optimistic_warning(
            self.model_.expected_training_recall, self._nominal_recall()
        )


def _density(samples: Any, shares: FloatArray, bandwidth: float) -> Density:
    """Return the density around samples of these shares; refuse a bandwidth in whose unit distances overflow."""
    kernel = RBF.at(0.5 / bandwidth / bandwidth, samples, shares)
    with np.errstate(over="ignore"):
        norms = row_sums(kernel.prepare(samples))
    if not np.isfinite(norms).all():
        raise ValueError(
            f"The bandwidth {bandwidth:.4g} is too small for values as large as these: squared distances in its unit "
            "overflow float64. Scale the features, for example with StandardScaler, or raise bandwidth."
        )
    return Density(kernel, samples, np.log(shares), bandwidth)


def _left_out(density: Density, training: Training) -> FloatArray:
    """Return the log densities at samples without themselves, or their groups, (p,)."""
    groups, shares = training.groups, np.exp(density.log_shares)
    if groups is None:
        every, own = np.arange(len(shares)), density.log_shares
        scores = density.logarithm(training.samples, apart=(every, every))
        # A copy of a row stays, at no distance.
        stays = training.stays
        with np.errstate(divide="ignore"):
            scores = np.logaddexp(scores, own + np.log(stays) - density.log_height)
        # Where each row counts once, those without one are as many; and a new row ties with one that repeats the same.
        each = training.rows_each is not None or alike(training.weights)
        others = 0.0 if each else _log_of_the_others(shares, stays)
        return scores - others
    scores = density.logarithm(training.X[groups.representatives], apart=(groups.numbers, groups.of_samples))
    remaining = np.array([1.0 - shares[leaving].sum() for _, leaving in groups])
    return np.asarray(scores - np.log(remaining)[groups.numbers])


def _log_of_the_others(shares: FloatArray, stays: FloatArray) -> FloatArray:
    """Return the logarithm of what shares, which sum to 1, leave as one leaves but for the part of it that stays."""
    others = 1.0 - shares
    largest = int(shares.argmax())
    others[largest] = np.delete(shares, largest).sum()
    return np.asarray(np.log(others + stays * shares))


def _mean_deviation(X: Any, shares: FloatArray) -> float:
    """Return the root of the mean of the features' variances."""
    variance = feature_variance(X, shares)
    if not variance <= LARGEST_KERNEL_VALUE:
        raise ValueError(
            "Squared distances between samples as large as these would overflow float64. Scale the features, for "
            "example with StandardScaler."
        )
    return float(np.sqrt(variance))
