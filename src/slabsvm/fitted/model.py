"""The fitted model: a frozen value that predictions, conformal wrappers, files, ONNX, displays and monitors read.

A support vector detector's is read off a program and its solution, which are here, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slabsvm.data.distinct import Distinct
from slabsvm.fitted.explanation import TypicalParts
from slabsvm.fitted.planes import LEAST_SIDE
from slabsvm.fitted.threshold import Calibration
from slabsvm.fitted.training import Training
from slabsvm.kernels.base import Kernel, WeightVector
from slabsvm.kernels.expansion import Expansion
from slabsvm.kernels.named import RBF
from slabsvm.runtime.arrays import STEP_BYTES, BoolArray, FloatArray, IndexArray, pieces
from slabsvm.runtime.estimators import cached_property
from slabsvm.svm.gram import Gram
from slabsvm.svm.program import DualProblem, Solution
from slabsvm.svm.small import LeftOutScores

# Offsets are moved outwards by this many units of rounding, so that a sample on a boundary counts as inside, as it
# should, whatever rounding does to its score.
ROUNDING_UNITS = 1024


@dataclass(frozen=True, kw_only=True)
class Model:
    """A fitted model: what predictions, summaries, files and warnings read, and nothing changes."""

    offset: float  # the score from which on rows are accepted
    rounding: float  # by how much it was moved outwards, so that what lies on the boundary is inside
    # (n_samples,): what each training row scores without itself; None with calibration="training"
    calibration_scores: FloatArray | None
    # (n_samples,): how much each of these rows counts, in sum 1; and how many rows, or groups, all of them are worth
    calibration_masses: FloatArray | None = None
    calibration_effective_size: float = 0.0
    recall: float | None = None  # the share of new positives that it is expected to accept, and the standard error
    recall_error: float | None = None
    has_held_out: bool = False  # whether some rows were held out, so that learned ones have no such scores
    # What is wrong where a row infinitely far away would be accepted, or is kept outside at a cost; or nothing.
    infinity_warning: str = ""

    @property
    def calibration_spread(self) -> float:
        """By how much leave-one-out scores differ; infinite with calibration="training"."""
        if self.calibration_scores is None:
            return np.inf
        # fmax and fmin pass over the NaN of rows without weight.
        return float(np.fmax.reduce(self.calibration_scores) - np.fmin.reduce(self.calibration_scores))

    def p_values(self, learned: FloatArray, decisions: FloatArray) -> FloatArray:
        """Return the p-values of decisions, (n_new,), among those of the rows that set the threshold, (n_samples,)."""
        masses = self.calibration_masses
        rows = np.flatnonzero(~np.isnan(learned) if masses is None else masses > 0)
        masses = np.full(len(rows), 1.0 / len(rows)) if masses is None else masses[rows]
        known = learned[rows]
        rounding = max(self.rounding, rounding_of(float(np.median(np.abs(known)))))
        return Calibration(rows, masses, self.calibration_effective_size or float(len(rows))).p_values(
            known, decisions, rounding
        )

    def attributes(self) -> dict[str, Any]:
        """Return the public attributes, by their names."""
        known = {
            "calibration_scores_": self.calibration_scores,
            "expected_recall_": self.recall,
            "expected_recall_error_": self.recall_error,
        }
        return {"offset_": self.offset, **{name: value for name, value in known.items() if value is not None}}


@dataclass(frozen=True, kw_only=True)
class KernelModel(Model):
    """What a detector of a kernel is once it is fitted."""

    kernel: Kernel | None  # None for a precomputed one
    squared_length: float | None  # k(x, x) of a sample: of all, where the kernel is precomputed
    expansion: Expansion | WeightVector  # sums of kernel values that a row's score is made of

    def squared_lengths(self, X: Any) -> FloatArray:
        """Return k(x, x) of each validated row, shape (n_samples,)."""
        return np.full(X.shape[0], self.squared_length) if self.kernel is None else self.kernel.diagonal(X)

    def attributes(self) -> dict[str, Any]:
        """Return the public attributes, by their names."""
        found = super().attributes()
        return {**found, "gamma_": self.kernel.gamma} if isinstance(self.kernel, RBF) else found


@dataclass(frozen=True)
class Solved:
    """A program over a kernel matrix, and its solution."""

    kernel: Kernel | None  # None for a precomputed one
    gram: Gram
    dual: DualProblem
    solution: Solution
    left_out: LeftOutScores | None = None  # scores without each row or group, where they are exact

    @cached_property
    def beta(self) -> FloatArray:
        """The coefficient of each distinct sample."""
        return self.dual.beta(self.solution.multipliers)

    @property
    def squared_norm(self) -> float:
        """|w|^2."""
        return float(self.beta @ (self.solution.scores - self.dual.linear))

    @cached_property
    def is_support(self) -> BoolArray:
        """Whether each distinct sample holds a plane, shape (m,)."""
        return np.asarray((self.solution.multipliers > 0).any(axis=0))

    def scores_of_others(self, scored: CalibrationScores, learned: Training, places: IndexArray) -> FloatArray:
        """Return sum_j beta_j k(x_j, x_i) over what stays as row i leaves, (s,), without subtracting.

        Where no other sample is near, a left-out score is the rounding of what it was subtracted from, and this is 0.
        Of rows that were not learned it is the score.
        """
        sums = scored.scores[places].copy()
        own = learned.distinct.inverse[scored.calibration.rows[places]]
        inside = np.flatnonzero(own >= 0)
        stays, groups = learned.stays, learned.groups
        for rows in pieces(len(inside), 8 * len(self.beta), STEP_BYTES):
            some = own[inside[rows]]
            block = np.array(self.gram.block(some, None), dtype=np.float64)
            if groups is None:
                block[np.arange(len(some)), some] *= stays[some]
            else:
                names = groups.numbers[groups.of_rows[scored.calibration.rows[places[inside[rows]]]]]
                block[names[:, None] == groups.of_samples] = 0.0
            sums[inside[rows]] = block @ self.beta
        return sums

    def recall_of_repeats(self, distinct: Distinct, accepted: BoolArray) -> float:
        """Return the share of new rows that are accepted at least, if they repeat training rows as these do.

        The share of rows that have an equal one estimates how many will (Good 1953). A new row that repeats one scores
        as it does, and is accepted where that is; of the others, those count as accepted that hold no plane.
        """
        return float(
            distinct.weights @ np.where(distinct.copies > 1, accepted, ~self.is_support) / distinct.weights.sum()
        )

    def recall_of_learned(self, distinct: Distinct, accepted: BoolArray) -> float:
        """Return the share of rows that are accepted, each with its own part of its score."""
        return float(distinct.weights @ accepted / distinct.weights.sum())


@dataclass(frozen=True)
class CalibrationScores:
    """The positions along w that set the planes: of rows that were not learned, or of all under training planes."""

    scores: FloatArray  # (p,)
    # (p,): for the plane that faces away from the origin, beyond which a row that repeats a learned one would fall
    outer: FloatArray
    calibration: Calibration  # what each counts

    @classmethod
    def of(
        cls, training: Training, scores: FloatArray, outer: FloatArray, *, held_out: bool = False
    ) -> CalibrationScores:
        """Return it for scores of all rows, (n_samples,), NaN where there are none; some may have been held out."""
        calibration = training.calibration(~np.isnan(scores), held_out=held_out)
        return cls(scores[calibration.rows], outer[calibration.rows], calibration)

    def of_planes(self, dual: DualProblem) -> FloatArray:
        """Return the scores that count for each plane, (P, p)."""
        return np.where((dual.signs * dual.side < 0)[:, None], self.outer, self.scores)

    def offsets(self, dual: DualProblem, rounding: float) -> FloatArray:
        """Return where planes belong, (P,): at quantiles.

        The plane that faces away from the origin is put beyond rows that repeat and tie on it by a share of the width.
        """
        quantile, planes = self.calibration.quantile, zip(dual.signs, dual.nus, self.of_planes(dual), strict=True)
        offsets = np.array([sign * quantile(sign * scores, nu, rounding=rounding) for sign, nu, scores in planes])
        outer = dual.signs * dual.side < 0
        if outer.any() and self.calibration.tie_at(self.outer, float(offsets @ outer), rounding):
            # So far that such rows are at the peak of the two-sided score, and not on the plane, where rounding would
            # rank them.
            share = 2 * LEAST_SIDE
            offsets -= np.where(outer, dual.signs * share * max(float(-dual.signs @ offsets), 0.0), 0.0)
        return offsets

    def distances(self, dual: DualProblem, offsets: FloatArray) -> FloatArray:
        """Return how far inside each plane rows lie, (P, p)."""
        return np.asarray(dual.signs[:, None] * (self.of_planes(dual) - offsets[:, None]))

    def by_row(self, n_rows: int) -> FloatArray:
        """Return the scores of all rows, (n_rows,); NaN where there are none."""
        scores = np.full(n_rows, np.nan)
        scores[self.calibration.rows] = self.scores
        return scores

    def some(self, count: int) -> IndexArray:
        """Return about `count` places, evenly spread."""
        return np.arange(0, len(self.scores), -(-len(self.scores) // count))


@dataclass(frozen=True)
class Support:
    """The training rows that hold the planes."""

    rows: IndexArray  # (n_SV,)
    coefficients: FloatArray  # (n_SV,): beta of each row
    # (n_SV,): which sample of the expansion each row is equal to
    samples: IndexArray
    share: float  # their share of all rows, by weight


@dataclass(frozen=True, kw_only=True)
class SupportVectorModel(KernelModel):
    """What a support vector detector is once it is fitted.

    Its expansion is s(x), the position of rows along w.
    """

    support: Support
    boundary: dict[str, Any]  # the attributes that say where the boundary is, by their names
    # (n_samples,): the log kernel mass of rows that were held out, or of each training row without its group
    calibration_log_mass: FloatArray | None
    n_learned: int  # the number of rows that were learned
    squared_norm: float  # |w|^2
    # The share of training rows that the model accepts, which new rows that repeat these share.
    recall_of_learned: float
    # Of training planes: the share of new rows that are accepted at least, where these repeat training rows as often as
    # training rows do each other.
    recall_of_repeats: float
    objective: float
    gap: float
    relative_gap: float
    iterations: int
    status: str
    usual: (
        TypicalParts | None
    )  # what each feature adds to training rows' positions, under a linear or an additive kernel

    @property
    def training_recall_bound(self) -> float:
        """The share of rows that hold no plane: a lower bound, by leave-one-out, of what training planes accept."""
        return max(0.0, 1.0 - self.support.share)

    def log_mass_of_others(self, rows: BoolArray) -> FloatArray:
        """Return the log kernel mass of some training rows, given by a mask over all, each without its own part.

        That is its group's, where there are groups. inf for one that holds no plane, or has copies: it is within reach.
        """
        places = np.full(len(rows), -1)
        copies = np.bincount(self.support.samples)
        alone = copies[self.support.samples] == 1
        places[self.support.rows[alone]] = self.support.samples[alone]
        places = places[rows]
        held = places >= 0
        mass = np.full(len(places), np.inf)
        assert isinstance(self.expansion, Expansion)
        mass[held] = self.expansion.log_mass(self.expansion.samples[places[held]], own=True)
        if self.calibration_log_mass is not None:
            known = self.calibration_log_mass[rows]
            mass = np.where(np.isnan(known), mass, known)
        return mass

    def attributes(self) -> dict[str, Any]:
        """Return the public attributes, by their names."""
        return {
            **super().attributes(),
            **self.boundary,
            "support_": self.support.rows,
            "dual_coef_": self.support.coefficients[None, :],
            "n_iter_": self.iterations,
            "duality_gap_": self.gap,
            "relative_gap_": self.relative_gap,
            "dual_objective_": self.objective,
            "status_": self.status,
            "expected_recall_": self.training_recall_bound if self.recall is None else self.recall,
            "training_recall_bound_": self.training_recall_bound,
        }


def rounding_of(size: float) -> float:
    """Return how far an offset is moved outwards for scores that are sums of terms of this size."""
    return ROUNDING_UNITS * float(np.finfo(np.float64).eps) * size
