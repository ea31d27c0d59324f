"""Kernel PCA: accept what the leading principal components of the positives reconstruct."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from slabsvm.data.distinct import Distinct
from slabsvm.detectors.base import accepted_share, by_row, nu_quantile, parameters, rounding_of
from slabsvm.detectors.kernelized import KernelDetector
from slabsvm.detectors.principal_components import centred, components, errors, left_out_errors
from slabsvm.dual.program import FloatArray
from slabsvm.kernels.expansion import Expansion

# Reconstruction errors below this share of the cloud's variance are no errors: the components span all samples.
NO_ERROR = 1e-10
# A cloud's variance must be this many times what a threshold is moved by for rounding.
RESOLVED = 1e3
# So many samples are left out to see what training thresholds of kernel PCA will accept.
CHECKED = 300


@parameters
class KernelPCADetector(KernelDetector):
    """Kernel PCA novelty detector: accept what the leading principal components reconstruct.

    In the kernel's feature space, the training samples, which are all of the target class, lie near the subspace
    through their mean that their leading principal components span; a sample's score is minus its squared distance
    from it.

    Parameters
    ----------
    kernel : {"rbf", "linear", "intersection", "hellinger", "chi2", "precomputed"} or callable, default="rbf"
        As for `OneClassSlabSVM`. A precomputed matrix must have a constant diagonal, since k(x, x) of a new sample
        cannot be given with it; other matrices are refused.
    gamma : {"scale", "auto"} or float > 0, default="scale"
        exp(-gamma |x - z|^2) for the RBF kernel; "scale" is 1 / (n_features * variance of X), "auto" 1 / n_features.
    n_components : int >= 1 or float in (0, 1), default=0.9
        The dimension of the subspace; a float takes as many components as explain this share of the variance in feature
        space. An int above the rank of the centred kernel matrix is refused.
    nu : float in (0, 1], default=0.1
        The share of samples that may be rejected.
    offsets : {"leave-one-out", "training"}, default="leave-one-out"
        Where the threshold is put: at the nu-quantile of what each training sample would score under the mean and the
        components of the others, exactly and without refits, so that the share of *new* positives that is accepted is
        near 1 - nu; or of the training scores. The components are chosen to reconstruct the training samples, so that
        training scores flatter the model, the more the more components it has.
    n_jobs : int or None, default=None
        Threads that compute large kernel blocks; None is 1 unless in a `joblib.parallel_config` context, -1 all.

    Attributes
    ----------
    n_components_ : int
        The dimension of the subspace.
    explained_variance_ratio_ : (n_components_,) array of float64
        Each component's share of the variance in feature space.
    offset_ : float
        Minus the largest squared distance that is accepted.
    loo_scores_ : (n_samples,) array of float64
        What each training sample scores without itself; NaN where its weight is 0. Only with offsets="leave-one-out".
    gamma_ : float
        gamma as a number. Only with kernel="rbf".
    n_samples_fit_ : int
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array of str

    Notes
    -----
    With n distinct training samples `fit` holds up to four n x n matrices, 33 n^2 bytes (n = 10,000: 3.3 GB; one matrix
    more for a precomputed kernel), and finds all eigenvectors, n^3 operations. Leave-one-out adds an equation to
    solve for each sample and component: n^2 operations for each component, some iterations long. With
    offsets="training", an int n_components below n/20 and n > 1,000, two matrices and n^2 operations for each
    component; what new samples will be accepted is then not checked. A prediction is one block of kernel values against
    all training samples.

    References
    ----------
    .. [1] H. Hoffmann, "Kernel PCA for novelty detection", Pattern Recognition 40, 2007, eqs. (4)-(10).
    .. [2] G. Golub, "Some modified matrix eigenvalue problems", SIAM Review 15, 1973: the rank-one change on which
       offsets="leave-one-out" rests.

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import KernelPCADetector
    >>> angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 200)
    >>> ring = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> KernelPCADetector(gamma=1.0).fit(ring).predict([[1.0, 0.0], [0.0, 0.0]])
    array([ 1, -1])
    """

    n_components: float = 0.9
    nu: float = 0.1

    _needs_no_origin = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KernelDetector._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left"), Interval(Real, 0.0, 1.0, closed="neither")],
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
    }

    def score_samples(self, X: Any) -> FloatArray:
        """Return minus each row's squared distance from the subspace, shape (n_samples,), in the kernel's unit."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        scores = np.empty(X.shape[0])
        for rows, sums in self._expansion.chunks(X):
            # <Phi(x), mu> in the last column: f(x) = Phi(x) - mu has |f|^2 = k(x, x) - 2 <Phi(x), mu> + |mu|^2.
            along_mean = sums[:, -1]
            lengths = self._squared_lengths(X[rows]) - 2 * along_mean + self._squared_mean
            projections = sums[:, :-1] - self._shift - np.outer(along_mean - self._squared_mean, self._sums)
            scores[rows] = -errors(lengths, projections)
        return scores

    def _learn(self, X: Any, weights: FloatArray, distinct: Distinct) -> None:
        del weights
        gram = self._gram(X, distinct)
        self._keep_length(gram)
        gram.check()
        every = np.arange(gram.n_samples)
        largest = float(gram.diagonal.max())
        K = np.asarray(gram.block(every, None), dtype=np.float64)
        # Where a block's own diagonal is off, so may be the kernel values of new samples near training samples.
        self._rounding = rounding_of(largest) + float(np.abs(np.diagonal(K) - gram.diagonal).max())
        np.fill_diagonal(K, gram.diagonal)
        cloud = centred(K, distinct.weights)
        variance = float(cloud.shares @ np.diagonal(cloud.matrix))
        if variance < RESOLVED * self._rounding:
            self._refuse_remote_cloud(variance, gram)
        left_out = self.offsets == "leave-one-out"
        whole = left_out or not isinstance(self.n_components, Integral)
        found = components(cloud, None if whole else int(self.n_components), gram.rounding)
        q = self._dimension(found.variances, variance)
        leading = found.coefficients[:, :q]
        self.n_components_ = q
        self.explained_variance_ratio_ = found.variances[:q] / variance if variance > 0 else np.zeros(q)
        self._expansion = Expansion(
            self._kernel,
            self._samples_of(X, distinct.representatives),
            np.column_stack([leading, cloud.shares]),
        )
        self._shift, self._sums = cloud.means @ leading, leading.sum(axis=0)
        self._squared_mean = cloud.squared_mean
        if left_out:
            error = left_out_errors(cloud, found, q, slice(None))
            self.loo_scores_ = by_row(distinct, -error)
        else:
            error = errors(np.diagonal(cloud.matrix), cloud.matrix @ leading)
        self._no_error = float(error.max()) <= max(NO_ERROR * variance, 16 * gram.rounding * largest)
        self.offset_ = nu_quantile(-error, distinct, self.nu) - self._rounding
        self._expected = 1.0
        if not left_out and found.complete:
            some = slice(CHECKED)
            strange = left_out_errors(cloud, found, q, some)
            self._expected = accepted_share(-strange, cloud.shares[some], self.offset_)

    def _dimension(self, variances: FloatArray, total: float) -> int:
        if isinstance(self.n_components, Integral):
            wanted = int(self.n_components)
            if not len(variances):
                raise ValueError(
                    f"n_components={wanted}, but all samples are (nearly) the same point of feature space, which has "
                    "no components. Check the features for constants, and if they differ use a larger gamma."
                )
            if wanted > len(variances):
                raise ValueError(
                    f"n_components={wanted} is more than the {len(variances)} components that the training samples "
                    "have in feature space: use at most as many, or a share of the variance such as n_components=0.9."
                )
            return wanted
        explained = np.cumsum(variances)
        return min(int(np.searchsorted(explained, self.n_components * total)) + 1, len(variances))

    def _nominal_recall(self) -> float:
        return 1.0 - self.nu

    def _trouble(self) -> str:
        if self._no_error:
            cure = "offsets='leave-one-out', " if self.offsets == "training" else ""
            return (
                f"The components reconstruct every training sample without error ({self.offsets} scores), so that no "
                f"threshold for new samples can be read off them. Use {cure}fewer components, or a kernel of more "
                "dimensions than the samples fill, and check the features for constants."
            )
        return self._nothing_told_apart() or self._flattered(self._expected)
