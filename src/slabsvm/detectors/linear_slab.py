"""Slabs on explicit features: data that need not fit into memory."""

from __future__ import annotations

from dataclasses import field
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from slabsvm.data.checks import SMALLEST_SQUARE
from slabsvm.data.distinct import distinct_rows
from slabsvm.data.passes import Local, Mapped, Source, Surveyed, along, as_float64
from slabsvm.detectors.base import Detector, SlabCollapseWarning, parameters
from slabsvm.dual.program import one_class_slab
from slabsvm.fitted.diagnosis import made_by_few
from slabsvm.fitted.explanation import Explanation, Usual, summed
from slabsvm.fitted.model import rounding_of
from slabsvm.fitted.planes import (
    SLAB_CONSTRAINTS,
    SlabPlanes,
    beside_repeats,
    nominal_recall,
    planes_at,
    refuse_impossible,
)
from slabsvm.fitted.recall import LOST_RECALL, alike, too_uneven
from slabsvm.fitted.training import (
    is_dask,
    may_be_counts,
    refuse_what_is_not_finite,
    rows_in_memory,
    rows_in_place,
    source_of,
)
from slabsvm.kernels.base import LARGEST_KERNEL_VALUE
from slabsvm.kernels.expansion import SoftNeighbours
from slabsvm.kernels.features import Landmarks, landmarks
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.caller import warn
from slabsvm.runtime.objects import atomic
from slabsvm.runtime.sklearn_private import FiniteReal, Interval, StrOptions, _fit_context

if TYPE_CHECKING:
    from slabsvm.solvers.streaming import PassTuning

# What a fit says that found w = 0.
NEAR_THE_ORIGIN = (
    "The fitted w is zero, so all rows score the same. The rows lie around the origin, as they do after a "
    "StandardScaler, or too near to it for their spread, and no linear slab separates them from it. Use "
    "feature_map='nystroem' on features of one scale, or a smaller epsilon."
)
# And one that stopped before the gap was within tol.
STOPPED_EARLY = (
    "the rows near the planes do not fit into memory, or rounding allows no smaller gap. Raise tol to accept this "
    "gap. Or use fewer features (n_components, with a feature map), a larger nu, or scaled features (StandardScaler)."
)
OUT_OF_REACH = (
    "The fitted w is zero: at gamma={gamma:.3g} too many rows are out of reach of all {n} landmarks, and score like "
    "a row infinitely far away. Use a smaller gamma or a named rule for it, more n_components, or a smaller epsilon."
)
ZERO_ACCEPTED = (
    "The row of zeros is accepted: the planes do not separate the samples from the origin. In some feature maps "
    "(Nystroem of an RBF kernel) every row far away is mapped there. Use more samples or fewer features, or a map "
    "that falls off more slowly (a smaller gamma)."
)
ZERO_KEPT_OUTSIDE = (
    "Some training rows are out of reach of all landmarks, and score like a row infinitely far away. Such rows are "
    "never accepted. The model accepts {learned:.0%} of the training rows, where nu asks for {nominal:.0%}. Use more "
    "n_components, a smaller gamma, or a named rule for gamma."
)
LIFTED_OUT = (
    "The model accepts {learned:.0%} of the training rows, and of rows that repeat them, where nu asks for "
    "{nominal:.0%}. Learning a row raises its score, here beyond a plane that is set for unseen rows. Use epsilon=0, "
    "which has no upper plane, a smaller gamma or more samples. If all new rows will repeat training rows (few "
    "discrete values), use offsets='training'."
)

# Weights are uneven where they are worth less than this share of as many equal ones.
NEARLY_ALIKE = 0.9


@parameters
class LinearOneClassSlabSVM(OutlierMixin, BaseEstimator):
    """One-class slab support vector machine with a linear kernel, for data of any length.

    It finds the same slab rho_lower <= <w, x> <= rho_upper as `OneClassSlabSVM(kernel="linear")`, in passes over the
    data. Mostly it needs three to five passes (`n_passes_`), and more if there are nearly as many features as samples.
    It needs no kernel matrix and no copy of X, and its memory does not grow with n_samples. Behind an explicit map
    (`slabsvm.features`) it is a slab of that map's kernel.

    For rows around the origin, such as after a StandardScaler, a linear slab is of no use: w = 0 is optimal. With
    feature_map="nystroem" the slab approximates that of the RBF kernel by n_components functions, and takes such rows.
    Passes, memory and the certificate stay the same. docs/results/large-data.md compares both.

    Parameters
    ----------
    feature_map : {"nystroem"} or None, default=None
        Nystroem's map of the RBF kernel. It makes n_components features from a row's kernel values with as many
        landmarks among the rows. It is applied to one block of rows at a time. A row infinitely far away has the score
        0, which is kept outside the slab.
    gamma : {"neighbours", "scale", "auto"} or float > 0, default="neighbours"
        The kernel of the feature map is ``exp(-gamma |x - z|^2)``. A rule, as for `OneClassSlabSVM`, uses the rows that
        the first pass draws. Its gamma is then halved until the landmarks reach all but nu_lower of these rows, that
        is, until the rows keep nine tenths of their squared length in the map. A number is taken as it is.
    n_components : int, default=100
        The number of landmarks of the map. More landmarks can approximate a narrower kernel.
    random_state : int, RandomState or None, default=0
        The seed that chooses landmarks from the rows of the first pass. The result depends neither on n_jobs nor on how
        a Dask array is divided.
    nu_lower, nu_upper, epsilon, ranking, offsets, tol
        As for `OneClassSlabSVM`, defaults included. With many more samples than features, the two kinds of offsets
        hardly differ.
    n_jobs : int or None, default=None
        Threads that read the data. None is 1 unless in a `joblib.parallel_config` context; -1 is all. The result does
        not depend on it. Dask uses its own workers.

    Attributes
    ----------
    coef_ : (1, n_features) array of float64
        w. With a feature map it has one entry for each of the map's features: n_components, or fewer if landmarks
        repeat.
    gamma_ : float
        gamma as a number. Only with a feature map.
    rho_lower_, rho_upper_, offset_, planes_, relative_gap_, n_samples_fit_, n_features_in_, feature_names_in_
        As for `OneClassSlabSVM`.
    map_ : Landmarks or None
        The feature map, or None.
    usual_ : Usual or None
        What each feature usually adds to a row's position. `explain` compares with it. None with a feature map.
    duality_gap_ : float
        The certificate: the objective is within this of the optimum over all samples. It is infinite if no pass could
        compute it, because the slab has collapsed.
    dual_objective_ : float
        ``1/2 |w|^2``.
    status_ : str
        "converged", "degenerate" (w = 0 is optimal, as far as a sample shows) or "stalled".
    n_passes_ : int
        The number of passes over all samples, validation included.

    Notes
    -----
    Arrays and memory-mapped arrays of float32 or float64, and CSR matrices of these, are read in place. Anything else
    is converted, which makes a copy. float32 rows are converted block by block, because all sums are in float64.

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

    nu_lower: float = 0.1
    nu_upper: float = 0.01
    epsilon: float = 2 / 3
    ranking: str = "two-sided"
    offsets: str = "leave-one-out"
    tol: float = 1e-3
    n_jobs: int | None = None
    feature_map: str | None = None
    gamma: str | float = "neighbours"
    n_components: int = 100
    random_state: Any = 0

    status_: str = field(init=False)
    offset_: float = field(init=False)
    rho_lower_: float = field(init=False)
    rho_upper_: float = field(init=False)
    planes_: SlabPlanes = field(init=False)
    map_: Landmarks | None = field(init=False)
    # What each feature adds to rows' positions; None with a feature map.
    usual_: Usual | None = field(init=False)

    # The constants of the passes; None for the solver's own.
    _tuning: ClassVar[PassTuning | None] = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SLAB_CONSTRAINTS,
        "offsets": [StrOptions({"leave-one-out", "training"})],
        "tol": [FiniteReal(0.0, closed="neither")],
        "n_jobs": [Integral, None],
        "feature_map": [StrOptions({"nystroem"}), None],
        "gamma": [StrOptions({"neighbours", "scale", "auto"}), FiniteReal(0.0, closed="neither")],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
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
            When w is zero, when the slab has no width, when the row of zeros is accepted or is kept outside at the cost
            of training rows, when a few rows make the scale of a feature, when the slab rejects the rows that it
            learned, or when weights are so uneven that few are left. The text stays in `warning_`.
        """
        from slabsvm.solvers import streaming

        del y
        refuse_impossible(self.nu_lower, self.nu_upper, self.epsilon)
        tuning = self._tuning or streaming.USUAL
        unit = one_class_slab(np.ones(1), self.nu_lower, self.nu_upper, float(self.epsilon))
        source = source_of(self, X, sample_weight, n_jobs=self.n_jobs, stretch_bytes=tuning.stretch_bytes)
        image_bytes = 0 if self.feature_map is None else 8 * self.n_components
        drawn = source.drawn(tuning.sampled_rows(source, image_bytes))
        survey = source.survey(drawn, refuse_what_is_not_finite)
        rows = survey.rows
        source, survey = self._mapped(source, survey)
        _refuse_what_cannot_be_multiplied(survey)
        leave_out = self.offsets == "leave-one-out"
        found = streaming.solve(source, survey, unit, float(self.tol), leave_out=leave_out, tuning=tuning)
        self.coef_ = found.w[None, :]
        self.duality_gap_ = found.gap
        self.relative_gap_ = found.relative_gap
        self.dual_objective_ = found.objective
        self.status_ = found.status.name.lower()
        self.n_passes_ = source.n_passes
        self.usual_ = None if self.map_ else Usual.of(partial(_parts, found.w), survey.rows, survey.weights)
        self.n_samples_fit_ = source.n_samples
        rounding = rounding_of(found.size)
        # The sample's scores stand for all.
        scores = np.asarray(survey.rows @ found.w, dtype=np.float64)
        wanted = self._beside_repeats(survey, scores, found.loo_offsets, rounding) if leave_out else found.loo_offsets
        offsets = wanted if self.map_ is None else unit.outside_zero(wanted, 2 * rounding)
        planes = planes_at(offsets, rounding, self, scores=scores, weights=survey.weights, local=False)
        self.__dict__.update(planes.attributes)
        learned = float(np.average(planes.between(scores), weights=survey.weights))
        uneven = self._uneven(source.weights, survey.weights, rows)
        self._warn(rows, rounding, learned, uneven, moved=bool((offsets != wanted).any()))
        return self

    def project(self, X: Any) -> Any:
        """Return s(x) = <w, x> of each row, shape (n_samples,), in float64; a Dask array for a Dask array.

        With a feature map <w, phi(x)>.
        """
        check_is_fitted(self)
        w = self.coef_[0]
        if self.map_ is None:
            score = partial(along, w, refuse_what_is_not_finite, as_float64)
            bytes_per_row = 8 * len(w)
        else:
            score = partial(along, self.map_.lifted(w), refuse_what_is_not_finite, self.map_.lift)
            bytes_per_row = 8 * self.map_.n_lifted
        if is_dask(X):
            from slabsvm.data.passes import scored

            return scored(X, self.n_features_in_, score, bytes_per_row)
        rows = rows_in_place(self, X, reset=False)
        return Local(rows, None, effective_n_jobs(self.n_jobs)).scores(score, bytes_per_row)

    def score_samples(self, X: Any) -> Any:
        """Return how normal each row is, shape (n_samples,), by `ranking`; at epsilon = 0 what `project` returns."""
        along = self.project(X)
        # What is computed later is ranked by the planes of now, whatever this model has learned by then.
        score = self.planes_.score
        return along.map_blocks(score, dtype=np.float64) if is_dask(along) else score(along)

    decision_function = Detector.decision_function
    predict = Detector.predict
    explain = Detector.explain

    def _explanation(self, X: Any) -> Explanation:
        X = rows_in_memory(self, X)
        if self.map_ is None:
            assert self.usual_ is not None
            parts = _parts(self.coef_[0], X)
            return self.planes_.explained_along(summed(parts), parts, self.usual_)
        neighbours = SoftNeighbours(self.map_.kernel, self.map_.rows, self.map_.lifted(self.coef_[0]))
        parts = neighbours.along_lines(X, np.ones_like)
        return self.planes_.explained_along(neighbours.distances(X).sums, parts, Usual.none(neighbours.typical))

    def _mapped(self, source: Source, survey: Surveyed) -> tuple[Source, Surveyed]:
        """Return a source and its survey as the feature map makes them, which a sample of the rows makes."""
        self.map_ = None
        self.__dict__.pop("gamma_", None)
        if self.feature_map is None:
            return source, survey
        self.map_ = landmarks(
            self.gamma,
            survey.rows,
            survey.weights,
            n_landmarks=self.n_components,
            out_of_reach=self.nu_lower if self.epsilon < 1 else self.nu_upper,
            seed=check_random_state(self.random_state).randint(np.iinfo(np.int32).max),
        )
        self.gamma_ = self.map_.gamma
        mapped = Mapped(source, self.map_)
        return mapped, mapped.mapped(survey)

    def _beside_repeats(self, survey: Surveyed, scores: FloatArray, offsets: FloatArray, rounding: float) -> FloatArray:
        """Return planes, (P,), for rows that repeat those drawn too, which lie there along w."""
        distinct = distinct_rows(survey.rows, survey.weights)
        own = scores[distinct.representatives]
        dual = one_class_slab(distinct.weights, self.nu_lower, self.nu_upper, float(self.epsilon))
        return beside_repeats(dual, own, own, offsets, rounding)[1]

    def _uneven(self, weights: FloatArray | None, of_rows: FloatArray, rows: Any) -> str:
        """Return a warning where weights leave little to put planes by, and those of sampled rows are no counts."""
        if self.offsets != "leave-one-out" or weights is None or alike(weights):
            return ""
        # Of few rows that weigh nearly the same, their number is what leaves little.
        if weights.sum() ** 2 > NEARLY_ALIKE * len(weights) * (weights @ weights):
            return ""
        doubt = too_uneven(weights, nominal_recall(self.nu_lower, self.nu_upper, self.epsilon))
        return "" if doubt and may_be_counts(of_rows, rows) else doubt

    def _warn(self, rows: Any, rounding: float, learned: float, uneven: str, *, moved: bool) -> None:
        if self.status_ == "stalled":
            warn(
                f"LinearOneClassSlabSVM stopped at a relative duality gap of {self.relative_gap_:.2g}, where tol asks "
                f"for {self.tol:.2g}, after {self.n_passes_} passes: {STOPPED_EARLY}",
                ConvergenceWarning,
            )
        # A gamma that was given as a number is of no scale of the rows'.
        of_rows = self.feature_map is None or isinstance(self.gamma, str)
        by_few = made_by_few(rows, getattr(self, "feature_names_in_", None)) if of_rows else ""
        texts = (self._diagnosis(rounding, learned, moved=moved), by_few, uneven)
        self.warning_ = " ".join(text for text in texts if text)
        if self.warning_:
            warn(self.warning_, SlabCollapseWarning)

    def _diagnosis(self, rounding: float, learned: float, *, moved: bool) -> str:
        """Return what is odd about the slab and what to do, or nothing.

        learned is the share of the drawn rows that it accepts, and moved says that a plane is kept above 0.
        """
        w, image = self.coef_[0], self.map_
        if self.status_ == "degenerate":
            return NEAR_THE_ORIGIN if image is None else OUT_OF_REACH.format(n=len(w), gamma=image.gamma)
        without_width = self.planes_.without_width(
            self.status_,
            rounding,
            cause="there are so few samples for so many features",
            remedy="more samples or fewer features",
        )
        if without_width:
            return without_width
        # The row of zeros is what a row far from all landmarks becomes in a Nystroem map.
        if image is None and self.rho_lower_ <= 0.0 <= self.rho_upper_:
            return ZERO_ACCEPTED
        nominal = nominal_recall(self.nu_lower, self.nu_upper, self.epsilon)
        if moved:
            return ZERO_KEPT_OUTSIDE.format(learned=learned, nominal=nominal)
        return LIFTED_OUT.format(learned=learned, nominal=nominal) if learned < nominal - LOST_RECALL else ""

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn wants to know about the input."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _parts(w: FloatArray, X: Any) -> FloatArray:
    """Return w_j x_j, (n, d)."""
    with np.errstate(over="ignore"):
        return np.asarray(X.toarray() if sp.issparse(X) else X) * w


def _refuse_what_cannot_be_multiplied(survey: Surveyed) -> None:
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
