"""Linear slabs from passes over the data: a sample estimates the planes, and the rows near them decide.

The problem is the Dual with K = X X', for samples that do not fit into memory. All but a few of them are beyond a
plane, with their multipliers at the cap, or inside, with none.

1. A random sample is solved. Its w and its offsets estimate the planes.
2. A pass gathers the rows within a band around each plane. The rows beyond it are capped, and enter through their sum
   alone: with g their pull, the rest is a Dual over the band's rows with the linear term X_B g and the totals that the
   capped rows have left. It is solved as any other, and w = g + X_B'beta_B.
3. The next pass computes the primal objective of that w. The gap to its dual objective, -|w|^2/2, is the certificate.
   If it is too large, the pass has also gathered the bands around the new planes: back to 2.

A band that does not contain its plane, or that holds too few rows, is widened.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from slabsvm.data.distinct import Distinct, distinct_rows, each_its_own
from slabsvm.data.passes import STRETCH_BYTES, Planes, Source, Surveyed, Swept
from slabsvm.dual.leave_one_out import closed_form, leave_one_out
from slabsvm.dual.program import Dual
from slabsvm.dual.solution import Solution, Status
from slabsvm.dual.unlearning import EXACT
from slabsvm.gram.computed import Explicit
from slabsvm.kernels.additive import Linear
from slabsvm.runtime.arrays import FloatArray
from slabsvm.runtime.blas import ONE_BLAS_THREAD
from slabsvm.solvers import loop


@dataclass(frozen=True)
class PassTuning:
    """The constants of the passes."""

    # The most bytes and rows of the sample.
    sample_bytes: int = 2**26
    sample_rows: int = 2**16
    # The fewest rows of a sample or a band, whatever their bytes.
    least_rows: int = 2**12
    # The number of rows in a first band around each plane, of this many bytes at most.
    band_rows: int = 2**14
    band_bytes: int = 2**26
    # A band that failed is widened by this factor, up to so many bytes of all bands.
    wider: float = 4.0
    most_band_bytes: int = 2**27
    most_rounds: int = 8
    # How often a band is moved before it is widened.
    most_moves: int = 12
    # The sample is solved to this relative gap, or better; a band to this share of its round's gap, or to this relative
    # gap if that is less. (The descent may stall short of a loose tolerance where many small violations make up the
    # gap: each of its blocks is then within that tolerance by itself.)
    sample_tol: float = 1e-4
    band_share: float = 0.25
    band_tol: float = 1e-6
    # The most of K that is held. In a band, half of the rows are at their caps and most others have no multiplier, so
    # that many support vectors are no reason to hold all of K.
    block_bytes: int = 2**24
    # The bytes of rows that are read at once.
    stretch_bytes: int = STRETCH_BYTES

    def rows_of(self, n_bytes: int, source: Source, most: int) -> int:
        """Return how many rows take so many bytes, between least_rows and most."""
        return self._rows(n_bytes, source.bytes_per_row, most)

    def _rows(self, n_bytes: int, bytes_per_row: int, most: int) -> int:
        return max(self.least_rows, min(most, n_bytes // bytes_per_row))

    def sampled_rows(self, source: Source, image_bytes: int = 0) -> int:
        """Return how many rows of a source are sampled, each of which has an image of so many bytes."""
        bytes_per_row = max(source.bytes_per_row, image_bytes)
        return min(source.n_samples, self._rows(self.sample_bytes, bytes_per_row, self.sample_rows))


USUAL = PassTuning()


@dataclass(frozen=True)
class Fitted:
    """A linear slab's weight vector with its certificate.

    Attributes
    ----------
    w : (d,) array
    offsets : (P,) array
        The planes' best offsets for the training scores X w.
    loo_offsets : (P,) array
        Their best offsets for leave-one-out scores.
    objective : float
        The dual one: |w|^2/2, where w is made of feasible multipliers.
    gap, relative_gap : float
        As in `Solution`.
    size : float
        Of the largest terms of scores, which rounding is relative to.
    status : Status
    rounds : int
        The problems that were solved.
    """

    w: FloatArray
    offsets: FloatArray
    loo_offsets: FloatArray
    objective: float
    gap: float
    relative_gap: float
    size: float
    status: Status
    rounds: int


class _Near:
    """The Dual over rows near the planes, those beyond being capped.

    Parameters
    ----------
    swept : Swept
        The rows, and what those beyond the planes leave of the totals.
    unit : Dual
        The problem over one sample that has all the weight.
    distinct : Distinct
        Which of the rows are taken, and in what order.
    total_weight : float
        Of all rows.
    """

    def __init__(self, swept: Swept, unit: Dual, distinct: Distinct, total_weight: float) -> None:
        self.pull = swept.pull
        self.rows = swept.rows[distinct.representatives]
        self.gram = Explicit(Linear(), self.rows)
        caps = unit.caps * (distinct.weights / total_weight)
        self.dual = Dual(unit.signs, caps, unit.totals - swept.masses, np.asarray(self.rows @ swept.pull))

    def solve(self, tol: float, block_bytes: float) -> Solution:
        """Return a solution of relative gap tol; its blocks of K are small, however many rows are capped."""
        return loop.solve(self.dual, self.gram, tol=tol, cache_bytes=block_bytes)

    def w(self, solution: Solution) -> FloatArray:
        """Return the weight vector of these rows' multipliers and the capped rows."""
        return np.asarray(self.pull + self.rows.T @ self.dual.beta(solution.multipliers))


@ONE_BLAS_THREAD
def solve(
    source: Source, survey: Surveyed, unit: Dual, tol: float, *, leave_out: bool, tuning: PassTuning = USUAL
) -> Fitted:
    """Solve the linear slab over all rows of a source to a relative gap of tol.

    Parameters
    ----------
    source : Source
    survey : Surveyed
        Its first pass: a sample, or all of its rows.
    unit : Dual
        The problem over one sample that has all the weight.
    tol : float
        The relative duality gap to reach, > 0.
    leave_out : bool
        Whether leave-one-out offsets are wanted; those of training are returned in their place otherwise.
    tuning : PassTuning, default=USUAL
    """
    return _Bands(source, survey, unit, tol, leave_out=leave_out, tuning=tuning).run()


class _Bands:
    """The rounds over all rows; margins, (2, P), are how far the bands reach beyond the planes and to their inside."""

    def __init__(
        self, source: Source, survey: Surveyed, unit: Dual, tol: float, *, leave_out: bool, tuning: PassTuning
    ) -> None:
        self.source = source
        self.survey = survey
        self.unit = unit
        self.tol = tol
        self.leave_out = leave_out
        self.tuning = tuning
        self.mean_diagonal = survey.sum_of_squares / survey.n_weighted
        self.rounds = 0

    def run(self) -> Fitted:
        """Return the solution over all rows."""
        survey, nothing = self.survey, np.zeros(len(self.unit.signs))
        sample = Swept(survey.rows, survey.weights, nothing, nothing, np.zeros(self.source.n_features))
        if len(survey.weights) == survey.n_weighted:
            near = _Near(sample, self.unit, distinct_rows(survey.rows, survey.weights), survey.total_weight)
            solution = near.solve(self.tol, self.tuning.block_bytes)
            w = near.w(solution)
            # Planes of the scores that predictions will give, whose rounding is not that of the solver's.
            offsets = near.dual.offsets(near.rows @ w)
            return self._fitted(w, solution.gap, offsets, offsets + self._left_out(near, solution))
        near = _Near(sample, self.unit, each_its_own(survey.weights), float(survey.weights.sum()))
        solution = near.solve(self.tuning.sample_tol, self.tuning.block_bytes)
        w = near.w(solution)
        if solution.status is Status.DEGENERATE:
            offsets = near.dual.offsets(near.rows @ w)
            return replace(self._fitted(w, np.inf, offsets, offsets), status=Status.DEGENERATE)
        self.margins = self._first_margins(solution, near.dual)
        gathered = self._gather(w, solution.offsets)
        # Where the bands lead nowhere, the sample's w stays, with the planes and the gap that all rows give it.
        best = (
            self._fitted(w, np.inf, solution.offsets, solution.offsets) if gathered is None else self._at(w, gathered)
        )
        least_gap = np.inf
        while True:
            if gathered is None:
                return best
            margins = self.margins
            near = self._near(gathered)
            solution = self._solution(near, w)
            w = near.w(solution)
            gathered = self._gather(w, solution.offsets)
            if gathered is None:
                continue
            fitted = self._at(w, gathered, feasible=True)
            best = min(best, fitted, key=lambda found: found.gap)
            if fitted.status is not Status.STALLED:
                shift = self._left_out(near, solution)
                # Rows that fell out of the band when they were left out may be passed by others that are not in it.
                if (self.unit.signs * shift >= -margins[0]).all() or not self._widen(w, solution.offsets):
                    return replace(fitted, loo_offsets=fitted.offsets + shift)
            elif self.rounds >= self.tuning.most_rounds or not (
                fitted.gap < 0.5 * least_gap or self._widen(w, fitted.offsets)
            ):
                return best
            least_gap = min(least_gap, fitted.gap)

    def _at(self, w: FloatArray, gathered: Swept, *, feasible: bool = False) -> Fitted:
        """Return w with its planes and its gap over all rows, of which those near the planes were gathered.

        The multipliers that fill each plane's tail at w are feasible, and make a w' with the gap |w - w'|^2 / 2; those
        that w is made of, where they are feasible themselves, have the gap <w, w - w'>.
        """
        scores = gathered.rows @ w
        rest = self._rest(gathered)
        fills = rest.linear_minimiser(scores)
        lowest = (fills * (self.unit.signs[:, None] * scores)).sum(axis=1) + gathered.tails
        # A difference of sums: no smaller than their rounding.
        rounding = float(np.finfo(np.float64).eps * (w @ w + np.abs(lowest).sum()))
        offsets = rest.offsets(scores)
        if feasible:
            return self._fitted(w, max(rounding, float(w @ w - lowest.sum())), offsets, offsets)
        filled = gathered.pull + gathered.rows.T @ rest.beta(fills)
        objective = 0.5 * float(filled @ filled)
        return self._fitted(w, max(rounding, 0.5 * float((w - filled) @ (w - filled))), offsets, offsets, objective)

    def _first_margins(self, solution: Solution, dual: Dual) -> FloatArray:
        """Return margins that would hold enough rows around each plane if all rows were as the sample's.

        Samples that hold a plane lie on it because they were learned, which others do not.
        """
        held = ((solution.multipliers > 0) & (solution.multipliers < dual.caps)).any(axis=0)
        scores = solution.scores[~held]
        n_sampled = len(scores)
        wanted = self.tuning.rows_of(self.tuning.band_bytes, self.source, self.tuning.band_rows)
        half = int(np.ceil(0.5 * wanted * n_sampled / self.survey.n_weighted))
        margins = np.full((2, len(self.unit.signs)), np.inf)
        for p, (sign, offset) in enumerate(zip(self.unit.signs, solution.offsets, strict=True)):
            slopes = np.sort(sign * scores)
            place = int(np.searchsorted(slopes, sign * offset))
            if place > half:
                margins[0, p] = sign * offset - slopes[place - half]
            if place + half < n_sampled:
                margins[1, p] = slopes[place + half] - sign * offset
        return margins

    def _gather(self, w: FloatArray, offsets: FloatArray) -> Swept | None:
        """Return what a pass brings back from around the planes; None where no band was found that contains them.

        Rows that were not in the sample may lie elsewhere along w: the more features, the farther. A band that its
        plane is not in is widened, and when there is no room for that, moved.
        """
        unit_caps = self.unit.caps[:, 0] / self.survey.total_weight
        slopes = self.unit.signs * offsets
        steps, before, growth, n_moves = np.zeros(len(slopes)), np.zeros(len(slopes)), np.full(len(slopes), 2.0), 0
        while True:
            planes = Planes(self.unit.signs, slopes - self.margins[0], slopes + self.margins[1], unit_caps)
            swept = self.source.sweep(w, planes)
            missed = self._missed(swept, w, planes)
            if not missed.any():
                return swept
            if n_moves == 0 and self._widen(w, offsets):
                continue
            steps = self.margins.sum(axis=0) if n_moves == 0 else steps
            n_moves += 1
            moved = np.flatnonzero(missed)
            if n_moves > self.tuning.most_moves or not np.isfinite(steps[moved]).all():
                return None
            # Farther each time until the plane was passed, and less far from then on.
            growth[moved[missed[moved] * before[moved] < 0]] = 0.5
            steps[moved] *= np.where(before[moved] == 0, 1.0, growth[moved])
            slopes[moved] += missed[moved] * steps[moved]
            before[moved] = missed[moved]

    def _missed(self, swept: Swept, w: FloatArray, planes: Planes) -> FloatArray:
        """Return, for each plane, 0 where it is in its band, -1 where it is farther out and +1 where farther in."""
        rest = self._rest(swept)
        beyond, short = rest.totals <= 0, rest.caps.sum(axis=1) <= rest.totals
        if beyond.any() or short.any():
            return np.where(beyond, -1.0, np.where(short, 1.0, 0.0))
        found = self.unit.signs * rest.offsets(swept.rows @ w)
        # Rows of the other plane's band may lie there, and between the bands others that were not counted.
        return np.where(found > planes.fars, 1.0, np.where(found < planes.nears, -1.0, 0.0))

    def _rest(self, swept: Swept) -> Dual:
        """Return the boxes and totals of the rows near the planes, without the pull of the others."""
        caps = self.unit.caps * (swept.weights / self.survey.total_weight)
        return Dual(self.unit.signs, caps, self.unit.totals - swept.masses, np.zeros(len(swept.weights)))

    def _near(self, swept: Swept) -> _Near:
        distinct = distinct_rows(swept.rows, swept.weights)
        return _Near(swept, self.unit, distinct, self.survey.total_weight)

    def _widen(self, w: FloatArray, offsets: FloatArray) -> bool:
        """Make the bands wider, and return whether the sample says that there is room for them."""
        wider = np.where(self.margins > 0, self.tuning.wider * self.margins, np.inf)
        distances = self.unit.signs[:, None] * (self.survey.rows @ w - offsets[:, None])
        inside = ((distances >= -wider[0][:, None]) & (distances <= wider[1][:, None])).any(axis=0)
        n_rows = float(inside.mean()) * self.survey.n_weighted
        most = self.tuning.rows_of(self.tuning.most_band_bytes, self.source, self.source.n_samples)
        if np.isinf(self.margins).all() or n_rows > most:
            return False
        self.margins = wider
        return True

    def _solution(self, near: _Near, w: FloatArray) -> Solution:
        """Return a solution of the band's problem whose gap is a share of the whole problem's target."""
        self.rounds += 1
        gap_target = self.tuning.band_share * self.unit.gap_target(0.5 * float(w @ w), self.mean_diagonal, self.tol)
        objective = 0.5 * float(w @ w - near.pull @ near.pull)
        scale = near.dual.scale(objective, float(near.gram.diagonal.mean()))
        # Where all rows are 0, any tolerance is met.
        most = self.tuning.band_tol
        return near.solve(
            float(np.clip(gap_target / scale, 1e-13, most)) if scale > 0 else most, self.tuning.block_bytes
        )

    def _left_out(self, near: _Near, solution: Solution) -> FloatArray:
        """Return how far leaving samples out moves the planes."""
        # Where w is zero, what is left of it is rounding, and so would be what leaving samples out does to it.
        if (
            not self.leave_out
            or self._status(0.5 * float(near.w(solution) @ near.w(solution)), solution.gap) is Status.DEGENERATE
        ):
            return np.zeros(len(self.unit.signs))
        # A wide band is left to the closed form, which holds no more of it than the free samples.
        of = leave_one_out if near.dual.n_samples <= EXACT else closed_form
        return near.dual.offsets(of(near.dual, near.gram, solution).scores) - solution.offsets

    def _status(self, objective: float, gap: float) -> Status:
        if gap > self.unit.gap_target(objective, self.mean_diagonal, self.tol):
            return Status.STALLED
        exact = self.unit.scale(objective, self.mean_diagonal) == objective
        return Status.CONVERGED if exact else Status.DEGENERATE

    def _fitted(
        self, w: FloatArray, gap: float, offsets: FloatArray, loo_offsets: FloatArray, objective: float | None = None
    ) -> Fitted:
        """Return the result; the dual objective is that of w unless it is given."""
        objective = 0.5 * float(w @ w) if objective is None else objective
        return Fitted(
            w=w,
            offsets=offsets,
            loo_offsets=loo_offsets,
            objective=objective,
            gap=gap,
            relative_gap=self.unit.relative(gap, objective, self.mean_diagonal),
            size=float(np.sqrt(w @ w) * np.sqrt(self.survey.largest_square)),
            status=self._status(objective, gap),
            rounds=self.rounds,
        )
