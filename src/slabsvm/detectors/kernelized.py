"""The abstract kernel detector: what all models share that see their samples through a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from joblib import effective_n_jobs

from slabsvm.data.checks import SMALLEST_SQUARE
from slabsvm.data.distinct import Distinct, distinct_rows, near_copies, same_points
from slabsvm.detectors.base import Detector, parameters
from slabsvm.fitted.model import KernelModel
from slabsvm.fitted.training import Training
from slabsvm.kernels import NAMED
from slabsvm.kernels.bandwidth import gamma_value
from slabsvm.kernels.base import LARGEST_KERNEL_VALUE, FromFunction, Kernel
from slabsvm.kernels.expansion import Expansion, SoftNeighbours
from slabsvm.runtime.arrays import STEP_BYTES, FloatArray, pieces
from slabsvm.runtime.estimators import FiniteReal, StrOptions
from slabsvm.svm.gram import ROUNDING_GAP, Dense, Gram, gram_of

# A precomputed kernel matrix may be this far from symmetric, relative to its largest entry, and its diagonal this far
# from constant where it must be constant.
ASYMMETRY = 1e-8


@parameters
class KernelDetector(Detector):
    """A detector that knows its samples by a kernel alone."""

    kernel: str | Callable[[Any, Any], Any] = "rbf"
    gamma: str | float = "neighbours"
    n_jobs: int | None = None

    model_: KernelModel = field(init=False)

    # Whether the model is the same wherever the origin of the features is, so that a linear kernel's may be moved.
    _needs_no_origin: ClassVar[bool] = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [StrOptions({*NAMED, "precomputed"}), callable],
        "gamma": [StrOptions({"neighbours", "scale", "auto"}), FiniteReal(0.0, closed="neither")],
        "n_jobs": [Integral, None],
    }

    def _checked(self, X: Any, *, reset: bool, accept_sparse: str | bool = "csr") -> Any:
        given = self.kernel == "precomputed"
        X = super()._checked(X, reset=reset, accept_sparse=False if given else accept_sparse)
        if given and reset:
            X = _symmetric(X)
        if isinstance(self.kernel, str) and not given:
            NAMED[self.kernel].check(X)
        return X

    @property
    def _takes_scale(self) -> bool:
        # Additive kernels sum what each feature says, and are as large as the features are.
        return self.kernel == "linear" or (self.kernel == "rbf" and isinstance(self.gamma, str))

    def _distinct(self, X: Any, weights: FloatArray) -> Distinct:
        return same_points(X, weights) if self.kernel == "precomputed" else distinct_rows(X, weights)

    def _near_copies(self, training: Training) -> float:
        if self.kernel == "precomputed":
            return near_copies(training.X, training.distinct.representatives)
        return super()._near_copies(training)

    def _kernel_and_gram(self, training: Training) -> tuple[Kernel | None, Gram]:
        """Return the kernel, None for a precomputed one, and access to K over the distinct samples."""
        with np.errstate(over="ignore", invalid="ignore"):
            kernel = self._kernel(training)
            if kernel is None:
                chosen = training.X[np.ix_(training.distinct.representatives, training.distinct.representatives)]
                rounding = float(np.finfo(np.float32).eps) if chosen.dtype == np.float32 else ROUNDING_GAP
                gram: Gram = Dense(np.asarray(chosen, dtype=np.float64), rounding)
            else:
                gram = gram_of(kernel, training.samples, effective_n_jobs(self.n_jobs))
            largest = gram.diagonal.max()
        if largest < SMALLEST_SQUARE and _vanished(kernel, training, largest):
            raise ValueError(
                f"The kernel's values are so small ({largest:.3g} at most) that float64 keeps few of their digits, or "
                "none. Scale the features or the kernel up: multiply them by a power of ten."
            )
        if not largest <= LARGEST_KERNEL_VALUE:
            raise ValueError(
                "The kernel's values would overflow float64 for samples as large as these. Scale the features, for "
                "example with StandardScaler."
            )
        return kernel, gram

    def _equal_scores_warning(self) -> str:
        """Return a warning where no sample scores differently from any other without itself, or nothing."""
        if self.model_.calibration_spread <= 4 * self.model_.rounding:
            return (
                "All scores of rows that were not learned are the same to within rounding, and so new samples may all "
                "score the same. Either all samples are (nearly) the same point of feature space, or the kernel matrix "
                f"is the identity to within rounding. Use {self._smoother()}, and check the features for constants."
            )
        return ""

    def _smoother(self) -> str:
        """Return what makes more samples alike."""
        return "a smaller gamma" if self.kernel == "rbf" else "a kernel that falls off more slowly"

    def _kernel(self, training: Training) -> Kernel | None:
        """Return the kernel that the parameters and the distinct samples make; None for a precomputed one."""
        if self.kernel == "precomputed":
            return None
        if callable(self.kernel):
            return FromFunction(self.kernel)
        samples, weights, gamma = training.samples, training.distinct.weights, self.gamma
        if training.groups is not None and self.kernel == "rbf":
            # Rows of one group are each other's neighbours, which a row of a new group has none of.
            gamma = gamma_value(gamma, samples, weights, training.groups.of_samples)
        return NAMED[self.kernel].of_samples(samples, weights, gamma=gamma, needs_origin=not self._needs_no_origin)

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn wants to know about the input."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        named = NAMED.get(self.kernel) if isinstance(self.kernel, str) else None
        tags.input_tags.positive_only = named is not None and named.non_negative
        return tags


def samples_of(kernel: Kernel | None, training: Training, some: npt.NDArray[np.intp]) -> Any:
    """Return what an `Expansion` over some distinct samples is over: their rows, or a kernel matrix's columns."""
    rows = training.distinct.representatives[some]
    return rows if kernel is None else training.X[rows]


def soft_neighbours_of(detector: KernelDetector, expansion: Expansion) -> SoftNeighbours:
    """Return what says which samples are near a row; refuse a kernel that does not know its features one by one."""
    found = expansion.soft_neighbours
    if found is None:
        what = "kernel='precomputed'" if expansion.kernel is None else "This kernel"
        raise ValueError(
            f"{what} does not know single features, so explain cannot say what each feature adds to a decision of "
            f"this {type(detector).__name__}. Use a named kernel: 'rbf', 'linear', 'intersection', 'hellinger' or "
            "'chi2'."
        )
    return found


def common_squared_length(kernel: Kernel | None, gram: Gram, model: str) -> float | None:
    """Return k(x, x) where it is the same for all samples, else None.

    Raises ValueError for a precomputed kernel where it is not: k(x, x) of new rows, which the model of this name needs,
    is not given with them.
    """
    spread = float(np.ptp(gram.diagonal))
    given = ASYMMETRY if kernel is None else 0.0
    if spread <= max(given, 16 * gram.resolution) * float(gram.diagonal.max()):
        return float(gram.diagonal[0])
    if kernel is None:
        raise ValueError(
            f"{model} needs k(x, x) of new samples, which the rows of a precomputed kernel do not hold. They are "
            f"known only if the training matrix has a constant diagonal, and this one varies by {spread:.3g}. Divide "
            "each entry by sqrt(K_ii K_jj), or pass the kernel as a function."
        )
    return None


def refuse_remote_cloud(variance: float, gram: Gram) -> None:
    """Refuse samples whose squared distances from each other are lost in the rounding of their squared lengths."""
    if gram.n_samples == 1 or float(np.ptp(gram.diagonal)) == 0:
        return
    raise ValueError(
        "The samples lie so far from the origin of feature space that rounding hides how they differ: k(x, x) is "
        f"up to {gram.diagonal.max():.3g}, squared distances from their middle about {variance:.3g}. Move the "
        "features to the origin: subtract each one's mean (StandardScaler), or for an additive kernel its least "
        "value (MinMaxScaler(clip=True)). With kernel='linear', dense data are centred for you."
    )


def _vanished(kernel: Kernel | None, training: Training, largest: float) -> bool:
    """Return whether kernel values of which the largest is too small are not simply those of zeros."""
    if largest != 0 or kernel is None or not kernel.trusted:
        return largest > 0
    rows = kernel.prepare(training.samples)
    return bool((rows.data if sp.issparse(rows) else rows).any())


def _symmetric(K: FloatArray) -> FloatArray:
    """Return a precomputed kernel matrix made exactly symmetric, or refuse it."""
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"A precomputed kernel matrix must be square, with one row and one column for each training sample; this "
            f"one has the shape {K.shape}."
        )
    rows = pieces(len(K), K.itemsize * len(K), STEP_BYTES)
    difference = max(float(np.abs(K[some] - K[:, some].T).max()) for some in rows)
    if difference == 0:
        return K
    if difference > ASYMMETRY * np.abs(K).max():
        raise ValueError(
            f"A precomputed kernel matrix must be symmetric; entries of this one differ from their mirror images by up "
            f"to {difference:.3g}. If only rounding separates them, pass (K + K.T) / 2."
        )
    return np.asarray(0.5 * (K + K.T))
