"""Leave-one-group-out scores: what the samples of a group would score under the model without all of them.

Near equals hold each other's place: where samples come in groups that are alike, the model without one of them is the
model with it, and leave-one-out scores (`slabsvm.dual.leave_one_out`) are those of samples that were seen. So a group G
is left out whole. Let beta_G be taken away while the other free multipliers stay optimal. With F the free samples, M
the bordered matrix of their face (`slabsvm.dual.solution`), N = M^-1, g the group's free samples and H its others,

    z = N (K_FH beta_H, A_H'beta_H),        y = (N_gg)^-1 (beta_g + z_g),        change of beta_F = z_F - N_Fg y,

which is -beta_g on g itself: what H held and what g held is passed on to the free samples that stay. (N_gg)^-1 is K_gg
seen from those, as S_i^2 = 1 / N_ii is K_ii for one sample. The scores of all of G, support vectors or not, change by K
times that; the change of the program's linear term is added, as for single samples, and the boxes stay what they were.

With L L' the Cholesky factor of the lifted K_FF, and P the projection off the columns of L^-1 A, N_gg = W'W with
W = P (L^-1)_.g, so that (N_gg)^-1 comes from a factor of W: N itself would have squared its condition, which near
equals make large.

As for single samples this closed form is exact as long as the face stays what it is. A group is more than a sample, and
what it held often takes another from or to its bound: docs/results/groups.md says how near it is then. Up to
`unlearning.EXACT` samples, groups are left out exactly, as single samples are: a sample is a group of one. Of more,
some are, which says how near the closed form is to the others.

A plane whose free samples are all in G is given the next sample outside G to take what they held; where there is none
(at nu = 1 all samples are at their caps), all others grow in proportion.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from slabsvm.dual.active_set import free_or_next
from slabsvm.dual.face import Face
from slabsvm.dual.leave_one_out import followable
from slabsvm.dual.program import ROUNDING, Dual
from slabsvm.dual.solution import Solution, Status
from slabsvm.dual.unlearning import EXACT, Unlearning
from slabsvm.gram.base import Gram
from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray
from slabsvm.runtime.blas import ONE_BLAS_THREAD

# Of more samples than are left out exactly, so many groups are.
SAMPLED = 8


@ONE_BLAS_THREAD
def leave_one_group_out(
    dual: Dual,
    gram: Gram,
    solution: Solution,
    groups: Iterable[tuple[IndexArray, IndexArray]],
    *,
    exact: int = EXACT,
) -> list[FloatArray]:
    """Return the scores of each group's samples under the model without it, and the change of c'beta.

    `groups_left_out` also says how nearly.

    Parameters
    ----------
    dual, gram : the problem
    solution : its optimum, to within its gap
    groups : pairs of arrays
        The samples of a group, and those of them that are left out: all but those that other groups have too.
    exact : int, default=EXACT
        Up to so many samples all groups are left out exactly; of more, some are, and the others by the closed form.
    """
    return groups_left_out(dual, gram, solution, groups, exact=exact)[0]


@ONE_BLAS_THREAD
def groups_left_out(
    dual: Dual,
    gram: Gram,
    solution: Solution,
    groups: Iterable[tuple[IndexArray, IndexArray]],
    *,
    exact: int = EXACT,
) -> tuple[list[FloatArray], list[float]]:
    """Return the scores of `leave_one_group_out`, and for each group about how far they can be off.

    That is 0 where they are exact to within the solution's gap. Of more samples SAMPLED groups are left out exactly,
    evenly spread; the scores of the others are off by as much as theirs were in the mean square by the closed form, and
    by nobody knows how much where too many samples are free for a path.
    """
    groups = list(groups)
    if solution.status is Status.DEGENERATE:
        return closed_form(dual, gram, solution, groups), [0.0] * len(groups)
    free = free_or_next(dual, solution)
    if dual.n_samples <= exact:
        found, off, _ = _by_paths(Unlearning(dual, gram, solution, free), groups)
        return found, off
    closed = _by_closed_form(dual, gram, solution, groups)
    found = [scores for scores, _ in closed]
    doubtful = [place for place, (_, certain) in enumerate(closed) if not certain]
    if not doubtful or not followable(free):
        return found, [0.0 if certain else np.inf for _, certain in closed]
    some = doubtful[:: -(-len(doubtful) // SAMPLED)]
    by_paths, off, gaps = _by_paths(Unlearning(dual, gram, solution, free), [groups[place] for place in some])
    # What the certificates of paths that arrive allow is no difference.
    reach = np.sqrt(2.0 * np.where(np.array(off) > 0, 0.0, gaps) * gram.diagonal.max())
    differences = [
        np.maximum(np.abs(scores - found[place]) - within, 0.0)
        for place, scores, within in zip(some, by_paths, reach, strict=True)
    ]
    usual = float(np.sqrt(np.mean(np.concatenate(differences) ** 2)))
    errors = [0.0 if certain else usual for _, certain in closed]
    for place, scores, error in zip(some, by_paths, off, strict=True):
        found[place], errors[place] = scores, error
    return found, errors


def _by_paths(
    unlearning: Unlearning, groups: list[tuple[IndexArray, IndexArray]]
) -> tuple[list[FloatArray], list[float], FloatArray]:
    """Return the scores of groups by paths, how far they can be off, and the gaps, 0 for no program."""
    dual, gram, solution = unlearning.dual, unlearning.gram, unlearning.solution
    sets = [leaving for _, leaving in groups]
    without = unlearning.without(sets)
    if dual.n_samples <= EXACT:
        unlearning.descend(sets, without)
    found = [
        scores[samples] + dual.linear @ change
        for (samples, _), scores, change in zip(groups, without.scores, without.changes, strict=True)
    ]
    impossible = np.flatnonzero(np.isnan(without.gaps))
    if len(impossible):
        # Where the boxes of the others cannot take what a group leaves, all others grow in proportion.
        closed = closed_form(dual, gram, solution, [groups[place] for place in impossible])
        for place, scores in zip(impossible.tolist(), closed, strict=True):
            found[place] = scores
    gaps = np.nan_to_num(without.gaps, nan=0.0, posinf=np.inf)
    off = np.sqrt(2.0 * np.where(without.exact, 0.0, gaps) * gram.diagonal.max())
    return found, off.tolist(), gaps


def closed_form(
    dual: Dual, gram: Gram, solution: Solution, groups: Iterable[tuple[IndexArray, IndexArray]]
) -> list[FloatArray]:
    """Return the scores by the closed form alone; parameters as in `leave_one_group_out`."""
    return [scores for scores, _ in _by_closed_form(dual, gram, solution, groups)]


def _by_closed_form(
    dual: Dual, gram: Gram, solution: Solution, groups: Iterable[tuple[IndexArray, IndexArray]]
) -> list[tuple[FloatArray, bool]]:
    """Return the scores of groups by the closed form, and whether they are known to be exact.

    They are where nothing of a group supports a plane, or where all samples are free, in one plane, and stay so.
    """
    face = Face(dual, solution.multipliers, free_or_next(dual, solution))
    if len(face.samples):
        face.factor(gram.block(face.samples, face.samples), divide=gram.divide)
    beta = dual.beta(solution.multipliers)
    floor = -dual.caps[1] if dual.n_planes > 1 else np.zeros(dual.n_samples)
    collapsed = len(face.samples) == dual.n_samples and face.memberships.shape[1] == 1
    found = []
    for samples, leaving in groups:
        if not (solution.multipliers[:, leaving] > 0).any():
            found.append((solution.scores[samples], True))
            continue
        change = _change(face, dual, gram, solution, leaving)
        touched = np.flatnonzero(change)
        rows = np.asarray(gram.block(samples, touched), dtype=np.float64)
        values = beta + change
        values[leaving] = 0.0
        stays = collapsed and bool(((floor <= values) & (values <= dual.caps[0])).all())
        found.append((solution.scores[samples] + rows @ change[touched] + dual.linear @ change, stays))
    return found


def _change(face: Face, dual: Dual, gram: Gram, solution: Solution, leaving: IndexArray) -> FloatArray:
    """Return the change of beta, (m,), as some samples leave."""
    beta = dual.beta(solution.multipliers)
    stays = np.ones(dual.n_samples, dtype=bool)
    stays[leaving] = False
    if not (face.free & stays).any(axis=1).all():
        taking = _with_next(face.free, dual, solution, stays)
        if taking is None:
            return _in_proportion(dual, solution, stays) - beta
        face = Face(dual, solution.multipliers, taking)
        face.factor(gram.block(face.samples, face.samples), divide=gram.divide)
    place = np.flatnonzero(~stays[face.samples])
    bound = np.setdiff1d(leaving, face.samples)
    bound = bound[beta[bound] != 0]
    right = np.asarray(gram.block(face.samples, bound), dtype=np.float64) @ beta[bound]
    change = np.zeros(dual.n_samples)
    change[face.samples] = face.passed_on(right, face.memberships[bound].T @ beta[bound], place, beta[face.samples])
    change[leaving] = -beta[leaving]
    return change


def _with_next(free: BoolArray, dual: Dual, solution: Solution, stays: BoolArray) -> BoolArray | None:
    """Return which multipliers are free, with one more that stays in a plane where none does; None for no other."""
    free = free.copy()
    slopes = dual.signs[:, None] * solution.scores
    for plane in np.flatnonzero(~(free & stays).any(axis=1)):
        idle = np.flatnonzero(stays & (solution.multipliers[plane] <= ROUNDING * dual.caps[plane]))
        if not len(idle):
            return None
        free[plane, idle[slopes[plane, idle].argmin()]] = True
    return free


def _in_proportion(dual: Dual, solution: Solution, stays: BoolArray) -> FloatArray:
    """Return beta, (m,), of the samples that stay, each plane's multipliers grown to what all had."""
    left = np.where(stays, solution.multipliers, 0.0)
    sums = left.sum(axis=1, keepdims=True)
    return dual.beta(left * np.divide(dual.totals[:, None], sums, out=np.ones_like(sums), where=sums > 0))
