"""Leave-one-out scores: what each training sample would score under the model trained without it.

A training sample has pulled its own score towards the planes, so planes put at quantiles of training scores reject too
many new samples. Let r_i = beta_i be taken away, while the other free multipliers stay optimal: with M the bordered
matrix of the solution's face (`slabsvm.dual.solution`) and A_i the planes that sample i supports, its score falls by
r_i (S_i^2 + A_i'q_i), where

    S_i^2 = 1 / (M^-1)_ii,              q_i = -S_i^2 (M^-1)_Ai            for a free sample
    S_i^2 = K_ii - k_i'M^-1 k_i,        q_i = (M^-1 k_i)_A                for one at its bound, k_i = (K_iF, A_i)

r_i S_i^2 is the fall measured from the sample's own plane, S_i being the distance of Phi(x_i) from the span of the
free samples (Vapnik and Chapelle 2000, the span bound; Opper and Winther 2000); r_i A_i'q_i is how far that plane falls
itself. Both count: the model without the sample is longer by about 1/m, which where K is close to the identity is more
than all the spread of new samples' scores. This closed form is exact as long as the removal leaves the face what it is:
every free multiplier inside its box, and every other sample on its side of its plane. A sample that is no support
vector changes nothing.

On a ring or a line, or among tiny clusters, the face changes, and the closed form can be off by more than the scores'
spread. So up to `unlearning.EXACT` samples are left out exactly (`slabsvm.dual.unlearning`). Of more, some hundreds
are, evenly spread over the support vectors, and the others take from these how far the closed form is off. Those next
to a plane would not do: the closed form is too kind, and the plane moves past samples that it puts far inside.

Where the program has a linear term c (the hypersphere), its change c'(beta without i - beta) is added to the score. A
squared distance from the centre a is k(x, x) - 2 <Phi(x), a> + |a|^2, and with |a|^2 = -2 c'beta - V, where V is the
support vectors' mean squared distance from a (minus twice the objective), the sum of both is that distance under the
model without i but for V, which is held at what it is: its change moves the distances of all samples alike, and where K
is close to the identity it is more than all their spread. The sum does not depend on where the origin is, which neither
of its terms can say of itself, and where K's diagonal is constant c'beta does not change. With M (x, q) = (c_F, 0),

    c' (beta without i - beta) = -r_i S_i^2 x_i     for a free sample,     -r_i (c_i - k_i'x - A_i'q)     at its bound

The boxes stay what they were when a sample is left out. What is left out is a distinct sample with all its weight: were
one of two equal samples left out, the other would hold its place, and nothing would be seen of how new samples fare.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from slabsvm.dual.active_set import free_or_next
from slabsvm.dual.face import LEAST_SHARE, Face
from slabsvm.dual.neighbour_spans import THOROUGH, neighbour_spans
from slabsvm.dual.program import Dual
from slabsvm.dual.solution import Solution, Status
from slabsvm.dual.unlearning import EXACT, Unlearned, Unlearning
from slabsvm.gram.base import HELD_BYTES, MEDIUM, SMALL, Blocks, Gram
from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray, pieces
from slabsvm.runtime.blas import ONE_BLAS_THREAD

# Of more samples than are left out exactly, so many support vectors are at first; then twice as many, until there are
# enough, and until chance in their choice moves a plane by less than a share of its standard error, or up to the most
# (`benchmarks/many_rows.py` has how far planes are off).
LEAST_SAMPLED, ENOUGH, MOST_SAMPLED, SETTLED = 64, 253, 1009, 0.25
# So many times samples times free ones at most: what a path takes, of at least so many free.
SAMPLED_WORK, FEW_FREE = 4_000_000_000, 1000
# How far others are off is carried over from so many on each side; so many parts of them, and draws, show its error.
AROUND, PARTS = 8, 8
# Where a smaller share of the paths arrives they say nothing of the others.
ARRIVED = 1 / 4
# Of more than SMALL samples, paths that do not arrive go on by descents if what is unknown of their ends moves a plane
# by more than this share of its standard error.
DESCENDED = 0.25
# A multiplier stays within its box where it does so by more than this share of its move: the rounding of float32.
MARGIN = 1e-3


@dataclass(frozen=True)
class LeaveOneOut:
    """What leaving each sample out does.

    Attributes
    ----------
    scores : (m,) array
        The score of each sample under the model without it, and the change of c'beta: what `Dual.offsets` takes to put
        the planes.
    removed : (m,) array
        beta_i: what is left out.
    errors : (2, P) array, or a float for all
        About how far inside and outside of where it is put each plane may belong, because scores are no more than
        estimates; 0 where all are exact to within the solution's gap, infinite where nobody knows.
    """

    scores: FloatArray
    removed: FloatArray
    errors: FloatArray | float = 0.0

    @property
    def error(self) -> float:
        """About how far the planes can be off: the mean of both sides, of the worse plane."""
        return largest_error(self.errors)


def largest_error(errors: FloatArray | float) -> float:
    """Return the mean of both sides of errors, (2, P) or one number for all, of the worse plane."""
    return float(np.max(np.mean(np.atleast_2d(errors), axis=0)))


@ONE_BLAS_THREAD
def leave_one_out(dual: Dual, gram: Gram, solution: Solution, *, exact: int = EXACT, **how: Any) -> LeaveOneOut:
    """Return the leave-one-out scores of a solution; they are as good as its gap is small.

    Parameters
    ----------
    dual, gram : the problem
    solution : its optimum, to within its gap
    exact : int, default=EXACT
        Up to so many samples all are left out exactly; of more, some.
    how : what `closed_form` takes besides
    """
    held = np.flatnonzero(dual.beta(solution.multipliers))
    free = free_or_next(dual, solution)
    if solution.status is Status.DEGENERATE:
        # w is 0 to within rounding, and so is what a sample does to it.
        return closed_form(dual, gram, solution, **how)
    if free.any(axis=0).all() and (solution.face is not None or dual.n_samples <= max(exact, MEDIUM)):
        stays = _where_all_stay(dual, gram, solution, free, how.get("large", SMALL))
        if stays is not None:
            return stays
    if dual.n_samples > exact:
        closed = closed_form(dual, gram, solution, **how)
        if not solution.converged:
            # Paths start from an optimum.
            return replace(closed, errors=np.inf)
        if not followable(free):
            return closed
        return _exact_of_some(Unlearning(dual, gram, solution, free), closed, held)
    unlearning = Unlearning(dual, gram, solution, free)
    sets = [held[place : place + 1] for place in range(len(held))]
    found = unlearning.without(sets)
    left_out = _exact_of_all(unlearning, found, held)
    if not found.exact.all() and (dual.n_samples <= SMALL or _matters(dual, left_out)):
        unlearning.descend(sets, found)
        left_out = _exact_of_all(unlearning, found, held)
        if dual.n_samples > SMALL and _matters(dual, left_out):
            left_out = _exact_of_all(unlearning, found, held, closed_form(dual, gram, solution, **how).scores)
    return left_out


def _matters(dual: Dual, left_out: LeaveOneOut) -> bool:
    """Return whether what is unknown of the scores moves a plane by more than a share of its standard error."""
    return bool((np.asarray(left_out.errors) > DESCENDED * _standard_errors(dual, left_out.scores)).any())


def _exact_of_all(
    unlearning: Unlearning, found: Unlearned, held: IndexArray, closed: FloatArray | None = None
) -> LeaveOneOut:
    """Return the scores where all support vectors were left out, and what follows from gaps that are too large.

    A score of such a gap is taken to be off by no more than its distance from the closed form, where that is given.
    """
    dual, gram, solution = unlearning.dual, unlearning.gram, unlearning.solution
    scores = solution.scores.copy()
    scores[held] = found.scores[np.arange(len(held)), held] + found.changes @ dual.linear
    impossible = held[np.isnan(found.gaps)]
    if len(impossible):
        # Where the boxes of the others cannot take what a sample leaves, no problem without it has a solution.
        scores[impossible] = closed_form(dual, gram, solution).scores[impossible]
    doubtful = ~found.exact & ~np.isnan(found.gaps)
    reach = np.sqrt(2.0 * found.gaps[doubtful] * gram.diagonal[held[doubtful]])
    if closed is not None:
        reach = np.minimum(reach, np.abs(scores - closed)[held[doubtful]])
    return LeaveOneOut(scores, dual.beta(solution.multipliers), errors_of(dual, scores, held[doubtful], reach))


def followable(free: BoolArray) -> bool:
    """Return whether paths are followed where these multipliers are free, (P, m): few are, or K of them is held."""
    n_free = int(free.any(axis=0).sum())
    return n_free <= MEDIUM or 8 * n_free * free.shape[1] <= HELD_BYTES


def errors_of(dual: Dual, scores: FloatArray, samples: IndexArray, errors: FloatArray) -> FloatArray:
    """Return how far inside and outside each plane moves, (2, P), as the scores of some samples do, by so much."""
    if not len(samples):
        return np.zeros((2, dual.n_planes))
    moved = np.repeat(scores[None], 2, axis=0)
    moved[:, samples] += [errors, -errors]
    here, higher, lower = dual.offsets(scores), dual.offsets(moved[0]), dual.offsets(moved[1])
    # What is above the lower plane, and below the upper one, is inside.
    return np.where(dual.signs > 0, [higher - here, here - lower], [here - lower, higher - here])


def _exact_of_some(unlearning: Unlearning, closed: LeaveOneOut, held: IndexArray) -> LeaveOneOut:
    """Return exact scores of some support vectors, evenly spread, and of the others what these say of the closed form.

    Support vectors are in the order of the fall that the closed form gives their scores. More are left out where chance
    in their choice moves a plane by more than SETTLED of its standard error.
    """
    dual = unlearning.dual
    falls = unlearning.solution.scores - closed.scores
    order = held[np.argsort(falls[held], kind="stable")]
    falls, size = falls[order], len(order)
    # How far the closed form is off, by what a path came to, and how far that may be off where it did not arrive.
    off, reach, known = np.zeros(size), np.zeros(size), np.zeros(size, dtype=bool)

    def corrected(donors: IndexArray, seed: int = 0) -> FloatArray:
        scores = closed.scores.copy()
        scores[order] += _carried_over(falls, off, donors, seed)
        return scores

    n_free = max(int(np.count_nonzero(unlearning.on_face)), FEW_FREE)
    most = max(2 * LEAST_SAMPLED - 1, SAMPLED_WORK // (dual.n_samples * n_free))
    number = LEAST_SAMPLED
    while True:
        # Of twice as many, less one, the others come between those that there are.
        places = np.unique(np.linspace(0, size - 1, min(number, size)).round().astype(np.intp))
        new = places[~known[places]]
        for rows in pieces(len(new), 24 * dual.n_samples):
            some = order[new[rows]]
            exact, reach[new[rows]] = _without_each(unlearning, some)
            off[new[rows]] = exact - closed.scores[some]
        known[new] = True
        donors = np.flatnonzero(known & (reach == 0.0))
        last = number >= min(most, MOST_SAMPLED, size)
        if len(donors) < max(ARRIVED * len(places), min(2 * PARTS, size) if last else 0):
            # Too few paths arrive to say anything of the others.
            return replace(closed, errors=np.inf)
        scores, errors = corrected(donors), np.zeros(dual.n_planes)
        if len(donors) == size:
            # All are exact.
            break
        number = 2 * number - 1
        # Chance is in who is left out, as parts of them show, and in which of them another takes after.
        parts = np.var([dual.offsets(corrected(donors[part::PARTS])) for part in range(PARTS)], axis=0, ddof=1)
        draws = np.var([dual.offsets(corrected(donors, seed)) for seed in range(PARTS)], axis=0, ddof=1)
        errors = np.sqrt((1.0 - len(donors) / size) * parts / PARTS + draws)
        if last or (len(places) >= ENOUGH and (errors <= SETTLED * _standard_errors(dual, scores)).all()):
            break
    # Where a path did not arrive there are two estimates, what it came to and what others say, and a bound on the error
    # of the first. Those next to it that were not left out may be off by as much.
    apart = np.where(known, np.minimum(reach, np.abs(scores[order] - closed.scores[order] - off)), 0.0)
    bounds = apart[places[np.searchsorted(places, np.arange(size)).clip(0, len(places) - 1)]]
    bounds[known] = apart[known]
    doubtful = np.isfinite(bounds) & (bounds > 0)
    return LeaveOneOut(scores, closed.removed, errors + errors_of(dual, scores, order[doubtful], bounds[doubtful]))


def _without_each(unlearning: Unlearning, samples: IndexArray) -> tuple[FloatArray, FloatArray]:
    """Return the score of each sample without itself, and how far it may be off where its path did not arrive.

    That is infinite where nothing that stays can take what leaves.
    """
    found = unlearning.without([samples[place : place + 1] for place in range(len(samples))])
    scores = found.scores[np.arange(len(samples)), samples] + found.changes @ unlearning.dual.linear
    bounds = np.sqrt(2.0 * np.maximum(found.gaps, 0.0) * unlearning.gram.diagonal[samples])
    return scores, np.where(found.exact, 0.0, np.nan_to_num(bounds, nan=np.inf))


def _carried_over(falls: FloatArray, off: FloatArray, donors: IndexArray, seed: int) -> FloatArray:
    """Return how far the closed form is off for all samples, by how far it is for the donors, which are some of them.

    Samples are in the order of their falls. The others take what it is off by, as a share of the fall, from one at
    random of the donors next to them: of these the closed form says about the same.
    """
    rest = np.delete(np.arange(len(falls)), donors)
    place = np.searchsorted(donors, rest) + np.random.default_rng(seed).integers(-AROUND, AROUND, len(rest))
    # Beyond the last donor they count back from it.
    place = np.where(place < 0, -1 - place, place)
    place = np.where(place >= len(donors), 2 * len(donors) - 1 - place, place).clip(0, len(donors) - 1)
    taken = donors[place]
    corrections = off.copy()
    corrections[rest] = falls[rest] * np.divide(
        off[taken], falls[taken], out=np.zeros(len(rest)), where=falls[taken] != 0
    )
    return corrections


def _standard_errors(dual: Dual, scores: FloatArray) -> FloatArray:
    """Return what chance moves each plane by, (P,): a standard error of its quantile."""
    errors = []
    for nu, sign in zip(dual.nus, dual.signs, strict=True):
        share = np.sqrt(max(0.0, nu * (1.0 - nu)) / dual.n_samples)
        low, high = np.quantile(sign * scores, np.clip([nu - share, nu + share], 0.0, 1.0))
        errors.append((high - low) / 2.0)
    return np.array(errors)


def closed_form(
    dual: Dual,
    gram: Gram,
    solution: Solution,
    *,
    cache_bytes: float = 1e9,
    large: int = SMALL,
    vast: int = MEDIUM,
) -> LeaveOneOut:
    """Return the scores by the closed form alone.

    Parameters
    ----------
    dual, gram, solution : as for `leave_one_out`
    cache_bytes : float
        What K of a vast face may take.
    large : int, default=SMALL
        A face of more samples is factored in float32, at half the time and memory, where the kernel allows it.
    vast : int, default=MEDIUM
        Of a face of more samples, the scores are estimates from neighbours and some exact ones, if these are good, and
        if the solution comes without the face's factor.
    """
    free = free_or_next(dual, solution)
    known = solution.face
    if known is not None and (free == known.free).all():
        return _through(known, dual, gram, solution, None)
    face = Face(dual, solution.multipliers, free)
    if len(face.samples) > vast and gram.single_precision_error < np.inf and not dual.linear.any():
        bound = _bound(face, dual.beta(solution.multipliers))
        K = Blocks(gram.subset(np.concatenate([face.samples, bound])), np.float32, cache_bytes)
        estimated = neighbour_spans(face, bound, K, solution)
        if estimated is None and K.matrix is None:
            # Where not even K fits the memory, its factor does not either.
            estimated = neighbour_spans(face, bound, K, solution, replace(THOROUGH, largest_error=np.inf))
        if estimated is not None:
            removed = dual.beta(solution.multipliers)
            falls = np.zeros(dual.n_samples)
            falls[estimated.samples] = estimated.spans + estimated.falls
            return LeaveOneOut(solution.scores - removed * falls, removed, estimated.error)
    if len(face.samples) > large and gram.single_precision_error < np.inf:
        try:
            left_out = _through(face, dual, gram, solution, np.float32)
        except np.linalg.LinAlgError:
            pass
        else:
            if np.isfinite(left_out.scores).all():
                return left_out
    return _through(face, dual, gram, solution, np.float64)


def _where_all_stay(dual: Dual, gram: Gram, solution: Solution, free: BoolArray, large: int) -> LeaveOneOut | None:
    """Return the closed form's scores where all samples are free, in one plane, and stay so as each leaves; else None.

    They are exact then, and no path is followed: of collapsed slabs that is the rule.
    """
    from slabsvm.compiled.unlearning import all_stay

    known = solution.face
    face = known if known is not None and (free == known.free).all() else Face(dual, solution.multipliers, free)
    if face.memberships.shape[1] > 1 or dual.linear.any():
        return None
    if face is not known:
        single = len(free.T) > large and gram.single_precision_error < np.inf
        face.factor(gram.block(face.samples, face.samples, np.float32 if single else np.float64), divide=gram.divide)
    inverse, corner = face.inverse()
    diagonal, removed = np.diagonal(inverse), dual.beta(solution.multipliers)
    floor = -dual.caps[1] if dual.n_planes > 1 else np.zeros(dual.n_samples)
    if not (diagonal > LEAST_SHARE / face.lift).all():
        return None
    if not all_stay(inverse, removed, floor, dual.caps[0], float(dual.totals[0]), MARGIN):
        return None
    return LeaveOneOut(solution.scores - removed * (1.0 - corner[0]) / diagonal, removed)


def _through(
    face: Face, dual: Dual, gram: Gram, solution: Solution, precision: type[np.floating[Any]] | None
) -> LeaveOneOut:
    """Return the leave-one-out scores by a factorisation of the face's K in the given precision; None: it is there."""
    removed = dual.beta(solution.multipliers)
    spans = np.zeros(dual.n_samples)
    falls = np.zeros(dual.n_samples)
    if len(face.samples):
        if precision is not None:
            face.factor(gram.block(face.samples, face.samples, precision), divide=gram.divide)
        spans[face.samples], falls[face.samples] = _of_free(face)
        bound = _bound(face, removed)
        if len(bound):
            spans[bound], falls[bound] = _of_bound(face, gram, bound)
        if dual.linear.any():
            falls += _of_linear_term(face, gram, spans, bound)
    return LeaveOneOut(solution.scores - removed * (spans + falls), removed)


def _bound(face: Face, removed: FloatArray) -> npt.NDArray[np.intp]:
    """Return the support vectors that are not on the face."""
    touched = removed != 0
    touched[face.samples] = False
    return np.flatnonzero(touched)


def _of_linear_term(face: Face, gram: Gram, spans: FloatArray, bound: npt.NDArray[np.intp]) -> FloatArray:
    """Return by how much c'beta falls for each sample that is left out, per unit of its multiplier, shape (m,)."""
    linear, border = face.dual.linear, face.memberships[face.samples]
    answer = face.solve(linear[face.samples, None], np.zeros((border.shape[1], 1)))[:, 0]
    beta = np.zeros(len(linear))
    beta[face.samples] = answer
    rest = linear - gram.dot(beta)
    shift = np.linalg.lstsq(border, rest[face.samples], rcond=None)[0]
    falls = np.zeros(len(linear))
    falls[face.samples] = spans[face.samples] * answer
    falls[bound] = rest[bound] - face.memberships[bound] @ shift
    return falls


def _of_free(face: Face) -> tuple[FloatArray, FloatArray]:
    """Return S_i^2 and A_i'q_i of the free samples, each of shape (f,)."""
    diagonal, corner = face.inverse_diagonal()
    # A lone free sample can neither lose nor pass on its mass: its removal is beyond the closed form.
    tiny = LEAST_SHARE / face.lift
    spans = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > tiny)
    return spans, -spans * np.einsum("ij,ji->i", face.memberships[face.samples], corner)


def _of_bound(face: Face, gram: Gram, bound: npt.NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
    """Return S_i^2 and A_i'q_i of samples at their bounds, each of shape (b,)."""
    members, rows = face.memberships[bound], np.asarray(gram.block(bound, face.samples), dtype=np.float64)
    squares, corner = face.beside(rows, members)
    return np.maximum(gram.diagonal[bound] - squares, 0.0), np.einsum("ij,ji->i", members, corner)
