"""Kernel PCA: accept what the leading principal components of the positives reconstruct.

The principal subspace is that of a weighted cloud in feature space, known by its kernel matrix alone. With shares p_i
that sum to 1, mean mu = sum p_i Phi_i, centred vectors f_i = Phi_i - mu and K~ their kernel matrix, the cloud's
covariance sum p_i f_i f_i' has the nonzero eigenvalues of P^(1/2) K~ P^(1/2). With u an eigenvector of that matrix and
v its eigenvalue, sum_i a_i f_i is a unit vector along the component, for a = P^(1/2) u / v^(1/2).

Reconstruction error of x: |Phi(x) - mu|^2 less its squared projections on the first q components (Hoffmann 2007).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from slabsvm.detectors.base import parameters, scores_by_folds
from slabsvm.detectors.kernelized import (
    KernelDetector,
    common_squared_length,
    refuse_remote_cloud,
    samples_of,
    soft_neighbours_of,
)
from slabsvm.fitted import warnings
from slabsvm.fitted.explanation import Explanation, TypicalParts, of_parts, summed
from slabsvm.fitted.model import KernelModel, rounding_of
from slabsvm.fitted.threshold import error_of
from slabsvm.fitted.training import Training
from slabsvm.fitted.warnings import optimistic_warning
from slabsvm.kernels.base import Kernel
from slabsvm.kernels.expansion import Expansion
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.blas import ONE_BLAS_THREAD, in_own_thread
from slabsvm.runtime.caller import silenced
from slabsvm.runtime.estimators import Interval, cached_property
from slabsvm.svm.gram import Gram


@dataclass(frozen=True, kw_only=True)
class Subspace(KernelModel):
    """The subspace that the leading components span through the mean mu."""

    expansion: Expansion  # x -> <Phi(x), the components' coefficients> in the first columns, <Phi(x), mu> in the last
    # (q,) each: what centring takes off the projections, and the sums of the components' coefficients
    shift: FloatArray
    sums: FloatArray
    squared_mean: float  # |mu|^2
    explained: FloatArray  # (q,): each component's share of the variance
    without_error: bool  # whether the components reconstruct all that the threshold is a quantile of
    expected_training_recall: float = 1.0  # the share of new positives that training thresholds will accept at most

    def scores(self, X: Any, sums: FloatArray) -> FloatArray:
        """Return minus the reconstruction error of each row, (n,), from what the expansion is there."""
        # Rows so far out that squares overflow are infinitely far: what is left of those that cancel is rounding.
        with np.errstate(over="ignore", invalid="ignore"):
            # f(x) = Phi(x) - mu has |f|^2 = k(x, x) - 2 <Phi(x), mu> + |mu|^2.
            lengths = self.squared_lengths(X) - 2 * sums[:, -1] + self.squared_mean
            return np.nan_to_num(-errors(lengths, self.projections(sums)), nan=-np.inf, neginf=-np.inf)

    def projections(self, sums: FloatArray) -> FloatArray:
        """Return where rows lie along the components, (n, q), from what the expansion is there."""
        return sums[:, :-1] - self.shift - np.outer(sums[:, -1] - self.squared_mean, self.sums)

    def slopes(self, sums: FloatArray) -> FloatArray:
        """Return the derivatives of the score by what the expansion is, (n, q + 1), at rows where it is sums."""
        along = 2.0 * self.projections(sums)
        return np.column_stack([along, 2.0 - along @ self.sums])

    def errors_by_feature(self, X: Any) -> FloatArray:
        """Return what each feature adds to the reconstruction error of each row, (n, d), under an additive kernel.

        The features' images lie in spaces of their own, orthogonal to each other, and so do the parts of what is left
        of Phi(x): the error is the sum of their squared lengths. A row costs n d operations, of a kernel without an
        explicit feature map n^2 d.
        """
        assert self.kernel is not None
        shares, components = self.expansion.coefficients[:, -1], self.expansion.coefficients[:, :-1]
        found = np.empty(X.shape)
        reconstructions = np.empty((X.shape[0], len(shares)))
        with ONE_BLAS_THREAD, np.errstate(over="ignore", invalid="ignore"):
            # A row at a time: what a product is rounded to depends on its shape.
            for row in range(X.shape[0]):
                along = components @ self.projections(self.expansion(X[row : row + 1]))[0]
                reconstructions[row] = along + shares * (1.0 - along.sum())
            left_over = self._images_left_over if self.kernel.explicit else self._lengths_left_over
            found = left_over(self.kernel, X, reconstructions)
        return np.asarray(np.nan_to_num(found, nan=np.inf))

    def _images_left_over(self, kernel: Kernel, X: Any, reconstructions: FloatArray) -> FloatArray:
        samples = self.expansion.prepared(kernel)
        images = kernel.prepare(X)
        images = images.toarray() if sp.issparse(images) else images
        found = [image - part @ samples for image, part in zip(images, reconstructions, strict=True)]
        return np.asarray(np.square(np.stack(found)), dtype=np.float64)

    def _lengths_left_over(self, kernel: Kernel, X: Any, reconstructions: FloatArray) -> FloatArray:
        found = kernel.diagonal_by_feature(X)
        for j in range(X.shape[1]):
            own, samples = kernel.prepare(X[:, [j]]), kernel.prepare(self.expansion.samples[:, [j]])
            among = kernel.block(samples, samples)
            for row, part in enumerate(reconstructions):
                found[row, j] += part @ (among @ part - 2.0 * kernel.block(own[row : row + 1], samples)[0])
        return np.maximum(found, 0.0)

    @cached_property
    def usual(self) -> TypicalParts:
        """What each feature adds to the errors of samples, of which 64 are asked."""
        return TypicalParts.none(self.errors_by_feature(self.expansion.samples[:64]).mean(axis=0))

    def attributes(self) -> dict[str, Any]:
        """Return the public attributes, by their names."""
        ratios = {"n_components_": len(self.explained), "explained_variance_ratio_": self.explained}
        return {**super().attributes(), **ratios}


@parameters
class KernelPCADetector(KernelDetector):
    """Kernel PCA detector: accept what the leading principal components reconstruct.

    All training samples are of the target class. In the kernel's feature space, they lie near a subspace: it goes
    through their mean, and their leading principal components span it. The score of a sample is minus its squared
    distance from the subspace.

    Parameters
    ----------
    kernel : {"rbf", "linear", "intersection", "hellinger", "chi2", "precomputed"} or callable, default="rbf"
        As for `OneClassSlabSVM`. A precomputed matrix must have a constant diagonal, because it does not hold k(x, x)
        of a new sample. Other matrices are refused.
    gamma : {"neighbours", "scale", "auto"} or float > 0, default="scale"
        As for `OneClassSlabSVM`.
    n_components : int >= 1 or float in (0, 1), default=0.9
        The dimension of the subspace. A float takes as many components as explain this share of the variance in feature
        space. An int above the rank of the centred kernel matrix is refused.
    nu : float in (0, 1], default=0.1
        The share of samples that may be rejected.
    calibration : {"auto", "held-out", "training"}, default="auto"
        Which scores set the threshold, at their nu-quantile. "auto" takes what each training row scores under a model
        of the other folds: the model then accepts a share of *new* positives near 1 - nu. There are ten folds, twenty
        of up to 500 distinct rows, and of up to 50 each row is left out alone. Copies are dealt to different folds.
        "held-out" does not learn 1,000 of the rows, a tenth if that is more, half if that is fewer, and takes their
        scores. "training" takes the training scores, which are too high, because the components were chosen to
        reconstruct the training samples. The error grows with the number of components. A fit of half of the samples
        tells how many of the others it rejects, and whether to warn.
    random_state : int, RandomState or None, default=0
        Which rows are in which fold, or held out.
    n_jobs : int or None, default=None
        Threads that compute large kernel blocks. None is 1 unless in a `joblib.parallel_config` context; -1 is all.

    Attributes
    ----------
    n_components_ : int
        The dimension of the subspace.
    explained_variance_ratio_ : (n_components,) array of float64
        Each component's share of the variance in feature space.
    offset_ : float
        Minus the largest squared distance that is accepted.
    expected_recall_, expected_recall_error_ : float
        As for `OneClassSlabSVM`. Not with calibration="training".
    calibration_scores_ : (n_samples,) array of float64
        What each training row scores by the other folds. NaN where the weight is 0, and for learned rows where others
        were held out. Not with calibration="training".
    gamma_ : float
        gamma as a number. Only with kernel="rbf".
    n_samples_fit_ : int
    n_features_in_ : int
    feature_names_in_ : (n_features,) array of str

    Notes
    -----
    With n distinct training samples `fit` holds up to four n x n matrices, 33 n^2 bytes (n = 10,000: 3.3 GB; one matrix
    more for a precomputed kernel). It finds all eigenvectors in n^3 operations, and those of ten folds. With
    calibration="training", an int n_components below n/20 and n > 1,000, it takes two matrices and n^2 operations for
    each component. A prediction computes kernel values with all training samples.

    References
    ----------
    .. [1] H. Hoffmann, "Kernel PCA for novelty detection", Pattern Recognition 40, 2007, eqs. (4)-(10).

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import KernelPCADetector
    >>> angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 200)
    >>> ring = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> KernelPCADetector(gamma=1.0).fit(ring).predict([[1.0, 0.0], [0.0, 0.0]])
    array([ 1, -1])
    """

    gamma: str | float = "scale"
    n_components: float = 0.9
    nu: float = 0.1

    n_components_: int = field(init=False)
    explained_variance_ratio_: FloatArray = field(init=False)
    gamma_: float = field(init=False)
    model_: Subspace = field(init=False)

    _needs_no_origin = True
    # Whether it learns a part of the rows, which may have fewer components than all.
    _has_part: bool = field(init=False, default=False)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), Interval(Real, 0.0, 1.0, closed="neither")],
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
    }

    def score_samples(self, X: Any) -> FloatArray:
        """Return minus each row's squared distance from the subspace, shape (n_samples,), in the kernel's unit."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        found = self.model_
        scores = np.empty(X.shape[0])
        for rows, sums in found.expansion.chunks(X):
            scores[rows] = found.scores(X[rows], sums)
        return scores

    def _explanation(self, X: Any) -> Explanation:
        X, fit = self._checked(X, reset=False), self.model_
        if fit.kernel is None or not fit.kernel.additive:
            neighbours = soft_neighbours_of(self, fit.expansion)
            decisions = fit.scores(X, neighbours.distances(X).sums) - self.offset_
            parts, usual = neighbours.along_lines(X, fit.slopes), TypicalParts.none(neighbours.typical)
            return of_parts(parts, usual, decisions, reference=self._typical_decision())
        parts = -fit.errors_by_feature(X)
        decisions = summed(parts) - self.offset_
        return of_parts(parts, fit.usual, decisions, reference=-self.offset_)

    def _learn(self, training: Training) -> Subspace:
        learned, out = self._learned(training)
        kernel, gram = self._kernel_and_gram(learned)
        length = common_squared_length(kernel, gram, type(self).__name__)
        cloud, variance, rounding = _centred_cloud(gram, learned.distinct.weights)
        samples = samples_of(kernel, learned, np.arange(gram.n_samples))
        whole = self.calibration != "training" or not isinstance(self.n_components, Integral)
        found = components(cloud, None if whole else int(self.n_components), gram.resolution)
        q = self._dimension(found.variances, variance)
        leading = found.coefficients[:, :q]
        model = Subspace(
            offset=np.nan,
            rounding=rounding,
            calibration_scores=None,
            kernel=kernel,
            squared_length=length,
            expansion=Expansion(kernel, samples, np.column_stack([leading, cloud.shares])),
            shift=cloud.means @ leading,
            sums=leading.sum(axis=0),
            squared_mean=cloud.squared_mean,
            explained=found.variances[:q] / variance if variance > 0 else np.zeros(q),
            without_error=False,
        )
        if out.any():
            error = np.where(out, 0.0, np.nan)
            error[out] = -model.scores(training.X[out], model.expansion(training.X[out]))
        elif self._left_out(out) and training.n_copies.sum() > 1:
            one = self._of_part().set_params(calibration="training")
            error = -scores_by_folds(one, training, check_random_state(self.random_state))
        else:
            error = learned.by_row(errors(np.diagonal(cloud.matrix), cloud.matrix @ leading))
        calibration = training.calibration(~np.isnan(error), held_out=bool(out.any()))
        scores = -error[calibration.rows]
        offset = self._threshold(calibration, scores, self.nu) - rounding
        infinity_warning, offset = self._kept_outside(model, offset, cloud, leading)
        return replace(
            model,
            offset=offset,
            infinity_warning=infinity_warning,
            # Of smaller errors the components span all samples.
            without_error=bool(np.nanmax(error) <= max(1e-10 * variance, 16 * gram.resolution * gram.diagonal.max())),
            expected_training_recall=self._accepted_of_a_half(training),
            **self._calibrated(training, -error, calibration, (scores - offset)[None]),
        )

    def _accepted_of_a_half(self, training: Training) -> float:
        """Return the share of half of the samples that a model of the others accepts by its training scores, and the
        share's standard error more. 1 where no training scores set the threshold.
        """
        distinct = training.distinct
        half = len(distinct.weights) // 2
        if self.calibration != "training" or self._has_part or half < 2:
            return 1.0
        asked = check_random_state(self.random_state).permutation(len(distinct.weights))[:half]
        weights = training.weights.copy()
        weights[np.isin(distinct.inverse, asked)] = 0.0
        part: Any = self._of_part()
        with silenced(UserWarning):
            part.fit_training(training.weighing(weights, self._distinct), part=True)
        part.n_features_in_ = training.X.shape[1]
        accepted = part.score_samples(training.X[distinct.representatives[asked]]) >= part.offset_
        share = float(np.average(accepted, weights=distinct.weights[asked]))
        return share + error_of(share, half)

    def _kept_outside(self, model: Subspace, offset: float, cloud: Centred, leading: FloatArray) -> tuple[str, float]:
        """Return what is wrong where a row unlike all samples would be accepted, or nothing, and the offset to set.

        Only with a local kernel is every row far away such a row, and the offset moved.
        """
        if model.squared_length is None:
            return "", offset
        # The least offset that leaves a row outside that is as long as the samples, and whose kernel values are all 0.
        projections = cloud.squared_mean * leading.sum(axis=0) - cloud.means @ leading
        far = model.rounding - float(
            errors(np.array([model.squared_length + cloud.squared_mean]), projections[None])[0]
        )
        if offset > far:
            return "", offset
        # How alike a sample is to the others, times their share: left-out errors are too coarse to tell it from 0.
        alone = float(cloud.shares @ (cloud.means - model.squared_length * cloud.shares <= model.rounding))
        if model.kernel is None or not model.kernel.local:
            return warnings.far_accepted_warning(alone), offset
        return warnings.out_of_reach_warning(alone, 1.0 - alone, self._nominal_recall(), self._smoother()), far

    def _dimension(self, variances: FloatArray, total: float) -> int:
        if isinstance(self.n_components, Integral):
            wanted = int(self.n_components)
            if self._has_part:
                return min(wanted, len(variances))
            if not len(variances):
                raise ValueError(
                    f"n_components={wanted}, but all samples are (nearly) the same point of feature space, which has "
                    "no components. Check the features for constants. If the features vary, use a larger gamma."
                )
            if wanted > len(variances):
                raise ValueError(
                    f"n_components={wanted} is more than the {len(variances)} components that the training samples "
                    "have in feature space: use at most as many, or a share of the variance such as n_components=0.9."
                )
            return wanted
        explained = np.cumsum(variances)
        return min(int(np.searchsorted(explained, self.n_components * total)) + 1, len(variances))

    def _of_part(self) -> Self:
        part = super()._of_part()
        part._has_part = True
        return part

    def _nominal_recall(self) -> float:
        return 1.0 - self.nu

    def _diagnosis(self) -> str:
        if self.model_.without_error:
            cure = "calibration='auto', " if self.calibration == "training" else ""
            return (
                "The components reconstruct every training sample without error, so they give no threshold for new "
                f"samples. Use {cure}fewer components, or a kernel with more dimensions, "
                "and check the features for constants."
            )
        half = optimistic_warning(
            self.model_.expected_training_recall, self._nominal_recall(), "a model of half of the samples"
        )
        return self._equal_scores_warning() or self.model_.infinity_warning or half


@dataclass(frozen=True)
class Centred:
    """A kernel matrix seen from the weighted mean."""

    matrix: FloatArray  # (k, k): K~
    shares: FloatArray  # (k,): p, summing to 1
    means: FloatArray  # (k,): (K p)_i = <Phi_i, mu>
    squared_mean: float  # |mu|^2 = p'Kp


def centred(K: FloatArray, weights: FloatArray) -> Centred:
    """Return K, (k, k), seen from the mean of its samples with these weights, (k,), all > 0; K is overwritten."""
    shares = weights / weights.sum()
    means = K @ shares
    squared_mean = float(shares @ means)
    K -= means[:, None]
    K -= means
    K += squared_mean
    return Centred(K, shares, means, squared_mean)


def _centred_cloud(gram: Gram, weights: FloatArray) -> tuple[Centred, float, float]:
    """Return K seen from the mean of its samples, their variance, and what a threshold is moved by for rounding."""
    gram.check()
    K = np.asarray(gram.block(np.arange(gram.n_samples), None), dtype=np.float64)
    # Where a block's own diagonal is off, so may be the kernel values of new samples near training samples.
    off = float(np.abs(np.diagonal(K) - gram.diagonal).max())
    rounding = rounding_of(float(gram.diagonal.max())) + off
    np.fill_diagonal(K, gram.diagonal)
    cloud = centred(K, weights)
    variance = float(cloud.shares @ np.diagonal(cloud.matrix))
    # A variance of a thousand times the rounding can be told from it.
    if variance < 1e3 * rounding:
        refuse_remote_cloud(variance, gram)
    return cloud, variance, rounding


@dataclass(frozen=True)
class Components:
    """The leading components of a cloud."""

    variances: FloatArray  # (q,): descending
    coefficients: FloatArray  # (k, q): each a; the component is sum_i a_i f_i, a unit vector


def components(cloud: Centred, n_wanted: int | None, rounding: float) -> Components:
    """Return the components whose variance is no rounding: the n_wanted leading ones where that saves work, or all.

    rounding is how exactly K is known, relative to its diagonal. Memory: 5 k^2 numbers beside the cloud's.
    """
    k = len(cloud.shares)
    root = np.sqrt(cloud.shares)
    matrix = root[:, None] * cloud.matrix
    matrix *= root
    # Lanczos iterations find few leading eigenvectors of larger matrices faster.
    complete = n_wanted is None or k <= 1000 or n_wanted >= 0.05 * k
    if not complete:
        start = np.random.default_rng(0).normal(size=k)
        variances, vectors = scipy.sparse.linalg.eigsh(matrix, n_wanted, which="LA", v0=start)
    else:
        # SciPy's holds the interpreter's lock, with which no interruption is answered.
        variances, vectors = in_own_thread(np.linalg.eigh, matrix)
    del matrix
    size = cloud.squared_mean + max(float(variances.max()), 0.0)
    least = max(k * float(np.finfo(np.float64).eps), rounding) * size
    kept = np.argsort(-variances)[: int(np.count_nonzero(variances > least))]
    variances, coefficients = variances[kept], vectors[:, kept]
    coefficients *= root[:, None]
    coefficients /= np.sqrt(variances)
    return Components(variances, coefficients)


def errors(lengths: FloatArray, projections: FloatArray) -> FloatArray:
    """Return the reconstruction errors, (n,), from |f|^2, (n,), and the projections on the components, (n, q)."""
    return np.asarray(np.maximum(lengths - np.einsum("ij,ij->i", projections, projections), 0.0))
