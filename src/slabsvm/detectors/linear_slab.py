"""Slabs on explicit features: data that need not fit into memory."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_is_fitted, validate_data

from slabsvm.data.checks import SMALLEST_SQUARE, canonical, reading, without_unit
from slabsvm.data.passes import Local, Source, Surveyed
from slabsvm.detectors import infinity
from slabsvm.detectors.base import Scored, SlabCollapseWarning, parameters, rounding_of
from slabsvm.detectors.constraints import FiniteReal
from slabsvm.detectors.slab_planes import Slab
from slabsvm.detectors.weighting import checked_weights
from slabsvm.dual.program import one_class_slab
from slabsvm.kernels.base import LARGEST_KERNEL_VALUE
from slabsvm.runtime.atomic import atomic
from slabsvm.runtime.caller import warn
from slabsvm.runtime.sklearn_private import StrOptions, _fit_context

if TYPE_CHECKING:
    from slabsvm.solvers.streaming import Tuning

# What a fit says that found w = 0.
NEAR_THE_ORIGIN = (
    "The fitted w is zero: for their spread the rows lie too near to the origin, or around it, so that no linear slab "
    "holds them apart from it, and all rows score the same. Use a smaller epsilon, or map the features first: "
    "make_pipeline(StandardScaler(), sklearn.kernel_approximation.Nystroem(gamma=...), LinearOneClassSlabSVM())."
)


@parameters
class LinearOneClassSlabSVM(Slab, Scored):
    """One-class slab support vector machine with a linear kernel, for data of any length.

    The slab rho_lower <= <w, x> <= rho_upper, as `OneClassSlabSVM(kernel="linear")` finds it, from passes over the
    data, mostly three to five (`n_passes_`; more where features are nearly as many as samples): no kernel matrix, no
    copy of X, and memory that does not grow with n_samples. After an explicit map (`slabsvm.features`, or
    scikit-learn's Nystroem and random Fourier features) it is a slab of that map's kernel.

    Parameters
    ----------
    nu_lower : float in (0, 1), default=0.1
        The share of samples that may lie below the lower hyperplane.
    nu_upper : float in (0, 1), default=0.01
        The share of samples that may lie above the upper hyperplane; nu_lower + nu_upper < 1. Ignored at epsilon = 0.
    epsilon : float >= 0, not 1, default=2/3
        The weight of the upper hyperplane. 0 leaves it out: that is the one-class SVM, and nu_lower may then be 1.
    offsets : {"leave-one-out", "training"}, default="leave-one-out"
        As for `OneClassSlabSVM`. With many more samples than features the two hardly differ.
    tol : float > 0, default=1e-3
        The duality gap to reach, relative to the objective.
    n_jobs : int or None, default=None
        Threads that read the data; None is 1 unless in a `joblib.parallel_config` context, -1 all. The result does not
        depend on it. Dask has workers of its own.

    Attributes
    ----------
    coef_ : (1, n_features) array of float64
        w.
    rho_lower_, rho_upper_ : float
        The offsets of the hyperplanes, in the unit of `project`; rho_upper_ is infinite at epsilon = 0.
    offset_ : float
        decision_function = score_samples - offset_: minus half the slab's width (rho_lower_ at epsilon = 0).
    duality_gap_ : float
        The certificate: the objective is within this of the optimum over all samples. Infinite where no pass could
        compute it, because the slab has collapsed.
    relative_gap_ : float
        The gap relative to the objective; what tol bounds.
    dual_objective_ : float
        1/2 |w|^2.
    status_ : str
        "converged", "degenerate" (w = 0 is optimal, as far as a sample shows) or "stalled".
    n_passes_ : int
        How often all samples were read, validation included.
    n_samples_fit_ : int
        Rows of the training data.
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array of str
        Only when X has feature names that are all strings.

    Notes
    -----
    Arrays and memory-mapped arrays of float32 or float64, and CSR matrices of these, are read where they are; anything
    else is converted, which makes a copy. float32 rows are converted a stretch at a time: all sums are in float64.

    References
    ----------
    .. [1] V. Fragoso, W. Scheirer, J. Hespanha, M. Turk, "One-class slab support vector machine", ICPR 2016
       (arXiv 1608.01026).

    Examples
    --------
    >>> import numpy as np
    >>> from slabsvm import LinearOneClassSlabSVM
    >>> X = np.random.default_rng(0).normal(10.0, 1.0, size=(200_000, 3))
    >>> model = LinearOneClassSlabSVM().fit(X)
    >>> model.predict([[10.0, 10.0, 10.0], [0.0, 0.0, 0.0]])
    array([ 1, -1])
    """

    offsets: str = "leave-one-out"
    tol: float = 1e-3
    n_jobs: int | None = None

    # The constants of the passes; None for the solver's own.
    _tuning: ClassVar[Tuning | None] = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Slab._parameter_constraints,
        "offsets": [StrOptions({"leave-one-out", "training"})],
        "tol": [FiniteReal(0.0, closed="neither")],
        "n_jobs": [Integral, None],
    }

    @atomic
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from positive samples.

        Parameters
        ----------
        X : array-like, CSR matrix or Dask array of shape (n_samples, n_features)
            A Dask array is divided along its rows alone, and stays where it is.
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative; a weight of 2 means what two identical samples mean, and a weight of 0 leaves the sample out.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For parameters, shapes or values that make no sense; the text says what to do.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            When the passes stopped before the duality gap was within tol.
        slabsvm.SlabCollapseWarning
            When w is zero, or when the slab has no width.
        """
        from slabsvm.solvers import streaming

        del y
        self._refuse_impossible_parameters()
        tuning = self._tuning or streaming.USUAL
        source = self._source(X, sample_weight, tuning.stretch_bytes)
        survey = source.survey(tuning.sampled_rows(source), _refuse_what_is_not_finite)
        _refuse_what_cannot_be_solved(survey)
        unit = one_class_slab(np.ones(1), self.nu_lower, self.nu_upper, float(self.epsilon))
        leave_out = self.offsets == "leave-one-out"
        found = streaming.solve(source, survey, unit, float(self.tol), leave_out=leave_out, tuning=tuning)
        self.coef_ = found.w[None, :]
        self.duality_gap_ = found.gap
        self.relative_gap_ = found.relative_gap
        self.dual_objective_ = found.objective
        self.status_ = found.status.name.lower()
        self.n_passes_ = source.n_passes
        self.n_samples_fit_ = source.n_samples
        rounding = rounding_of(found.size)
        self.__dict__.update(self._planes_at(found.loo_offsets, rounding))
        self._warn(found.status.value, rounding)
        return self

    def project(self, X: Any) -> Any:
        """Return s(x) = <w, x> of each row, shape (n_samples,), in float64; a Dask array for a Dask array."""
        check_is_fitted(self)
        if _is_dask(X):
            from slabsvm.data.dask import projected

            return projected(X, self.coef_[0], _refuse_what_is_not_finite)
        return Local(self._checked(X, reset=False), None).scores(self.coef_[0], _refuse_what_is_not_finite)

    def score_samples(self, X: Any) -> Any:
        """Return minus the distance of each score from the slab's centre, shape (n_samples,); s at epsilon = 0."""
        return self._score(self.project(X))

    def _source(self, X: Any, sample_weight: Any, stretch_bytes: int) -> Source:
        if _is_dask(X):
            from slabsvm.data.dask import Blocks

            source = Blocks(X, sample_weight)
            self.__dict__.pop("feature_names_in_", None)
            self.n_features_in_ = source.n_features
            return source
        X = self._checked(X, reset=True)
        weights = checked_weights(sample_weight, X)
        if weights is not None:
            weights, _ = without_unit(weights)
        return Local(X, weights, effective_n_jobs(self.n_jobs), stretch_bytes)

    def _checked(self, X: Any, *, reset: bool) -> Any:
        """Return X as it is, if it is an array or CSR matrix of floats, whose values are checked when they are read."""
        with reading(X):
            X = self._read(X, reset=reset)
        return canonical(X) if sp.issparse(X) else X

    def _read(self, X: Any, *, reset: bool) -> Any:
        plain = type(X) in (np.ndarray, np.memmap) or (sp.issparse(X) and X.format == "csr")
        least = 2 if reset else 1
        if plain and X.ndim == 2 and X.dtype in (np.float32, np.float64) and X.shape[0] >= least and X.shape[1] >= 1:
            return validate_data(self, X, reset=reset, skip_check_array=True)
        return validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=least
        )

    def _warn(self, advice: str, rounding: float) -> None:
        if self.status_ == "stalled":
            warn(
                f"LinearOneClassSlabSVM stopped at a relative duality gap of {self.relative_gap_:.2g}, where tol asks "
                f"for {self.tol:.2g}, after {self.n_passes_} passes: {advice}.",
                ConvergenceWarning,
            )
        self.warning_ = NEAR_THE_ORIGIN
        if self.status_ != "degenerate":
            self.warning_ = self._without_width(
                rounding,
                cause="there are so few samples for so many features",
                remedy="more samples or fewer features",
            )
        # The row of zeros is what a row far from all landmarks becomes in a Nystroem map.
        if not self.warning_ and self.rho_lower_ <= 0.0 <= self.rho_upper_:
            self.warning_ = infinity.zero_accepted()
        if self.warning_:
            warn(self.warning_, SlabCollapseWarning)


def _refuse_what_cannot_be_solved(survey: Surveyed) -> None:
    if survey.total_weight == 0:
        raise ValueError(
            "All sample weights are zero, so that there is nothing to learn from; give at least one sample a "
            "positive weight, or leave sample_weight out."
        )
    if not survey.largest_square <= LARGEST_KERNEL_VALUE:
        raise ValueError(
            "The products of samples as large as these would overflow float64. Scale the features, for example "
            "with StandardScaler."
        )
    if survey.largest_square < SMALLEST_SQUARE and (survey.largest_square > 0 or abs(survey.rows).max() > 0):
        raise ValueError(
            f"The products of samples as small as these ({survey.largest_square:.3g} at most) underflow float64. "
            "Scale the features up, for example multiply them by a power of ten."
        )


def _refuse_what_is_not_finite(rows: Any) -> None:
    with np.errstate(invalid="ignore"):
        assert_all_finite(rows, input_name="X")


def _is_dask(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "dask"
