"""Leave-one-group-out scores: what the samples of a group would score under the model without all of them.

Near equals hold each other's place: where samples come in groups that are alike, the model without one of them is the
model with it, and leave-one-out scores (`slabsvm.dual.leave_one_out`) are those of samples that were seen. So a group
is left out whole, as a sample is: along the path on which its multipliers go to 0 (`slabsvm.dual.unlearning`). A sample
is a group of one. The boxes stay what they were, and the change of the program's linear term is added to the scores.

The path's first piece alone is the closed form of a group: exact as long as the others stay on their sides of the
planes and of their boxes. A group is more than a sample, and what it held often takes another from or to its bound.
Where the boxes of the others cannot take what a group held (at nu = 1 all samples are at their caps), these grow until
they can.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from slabsvm.dual.active_set import free_or_next
from slabsvm.dual.program import Dual
from slabsvm.dual.solution import Point, Solution, Status
from slabsvm.dual.unlearning import Unlearning
from slabsvm.gram.base import HELD_BYTES, Gram
from slabsvm.runtime.arrays import FloatArray, IndexArray, pieces
from slabsvm.runtime.blas import ONE_BLAS_THREAD


@ONE_BLAS_THREAD
def leave_one_group_out(
    dual: Dual, gram: Gram, solution: Solution, groups: Iterable[tuple[IndexArray, IndexArray]]
) -> tuple[list[FloatArray], FloatArray]:
    """Return the scores of each group's samples under the model without it, and for each group how far they can be off.

    To the scores the change of c'beta is added. They are off by 0 where they are exact to within the solution's gap,
    by what the gap without the group allows where its path does not arrive, and by nobody knows how much where the
    solution has not converged.

    Parameters
    ----------
    dual, gram : the problem
    solution : its optimum, to within its gap
    groups : pairs of arrays
        The samples of a group, and those of them that are left out: all but those that other groups have too.
    """
    pairs = list(groups)
    found, off = [solution.scores[samples] for samples, _ in pairs], np.zeros(len(pairs))
    if solution.status is Status.DEGENERATE:
        # w is 0 to within rounding, and so is what a group does to it.
        return found, off
    m, beta = dual.n_samples, dual.beta(solution.multipliers)
    unlearning = Unlearning(dual, gram, solution, free_or_next(dual, solution))
    unlearning.many = sum(int(unlearning.on_face[leaving].sum()) for _, leaving in pairs)
    for places in pieces(len(pairs), 24 * m):
        sets = [leaving for _, leaving in pairs[places]]
        without = unlearning.without(sets)
        if 8 * m**2 <= HELD_BYTES:
            unlearning.descend(sets, without)
        for place, (samples, leaving) in enumerate(pairs[places]):
            change, scores, gap = without.changes[place], without.scores[place], without.gaps[place]
            if np.isnan(gap):
                widened, scores, gap = _in_wider_boxes(dual, gram, solution, leaving)
                change = widened - beta
            if gap <= unlearning.allowed:
                # Paths start from an optimum.
                gap = 0.0 if solution.converged else np.inf
            found[places.start + place] = scores[samples] + dual.linear @ change
            off[places.start + place] = np.sqrt(2.0 * gap * gram.diagonal.max())
    return found, off


def _in_wider_boxes(
    dual: Dual, gram: Gram, solution: Solution, leaving: IndexArray
) -> tuple[FloatArray, FloatArray, float]:
    """Return beta, scores, both (m,), and the gap of a program whose caps have grown until they take what leaves.

    In a plane whose caps grow, all that stay are at them; another gives what leaves to its lowest scores that have
    room. Where nobody stays there is no program, and nothing to be off.
    """
    caps = dual.caps.copy()
    caps[:, leaving] = 0.0
    left = caps.sum(axis=1)
    if not left.all():
        return np.zeros(dual.n_samples), dual.linear, 0.0
    caps *= np.maximum(1.0, dual.totals / left)[:, None]
    wider = Dual(dual.signs, caps, dual.totals, dual.linear)
    values = wider.adjust_sums(np.minimum(solution.multipliers, caps), solution.scores)
    point = Point(wider, values, dual.linear + gram.dot(wider.beta(values)))
    return point.beta, point.scores, point.gap
