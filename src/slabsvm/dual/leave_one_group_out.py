"""Leave-one-group-out scores: what the samples of a group would score under the model without all of them.

Near equals hold each other's place: where samples come in groups that are alike, the model without one of them is the
model with it, and leave-one-out scores (`slabsvm.dual.leave_one_out`) are those of samples that were seen. So a group
is left out whole, as a sample is: along the path on which its multipliers go to 0 (`slabsvm.dual.unlearning`). A sample
is a group of one. The boxes stay what they were, and the change of the program's linear term is added to the scores.

The path's first piece alone is the closed form of a group: exact as long as the others stay on their sides of the
planes and of their boxes. A group is more than a sample, and what it held often takes another from or to its bound:
docs/results/groups.md says how often. Where no others can take what a group held (at nu = 1 all samples are at their
caps), all others grow in proportion.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from slabsvm.dual.active_set import free_or_next
from slabsvm.dual.program import Dual
from slabsvm.dual.solution import Solution, Status
from slabsvm.dual.unlearning import Unlearning
from slabsvm.gram.base import HELD_BYTES, Gram
from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray
from slabsvm.runtime.blas import ONE_BLAS_THREAD


@ONE_BLAS_THREAD
def leave_one_group_out(
    dual: Dual, gram: Gram, solution: Solution, groups: Iterable[tuple[IndexArray, IndexArray]]
) -> tuple[list[FloatArray], FloatArray]:
    """Return the scores of each group's samples under the model without it, and for each group how far they can be off.

    To the scores the change of c'beta is added. They are off by 0 where they are exact to within the solution's gap,
    and by what the gap without the group allows where its path does not arrive.

    Parameters
    ----------
    dual, gram : the problem
    solution : its optimum, to within its gap
    groups : pairs of arrays
        The samples of a group, and those of them that are left out: all but those that other groups have too.
    """
    pairs = list(groups)
    if solution.status is Status.DEGENERATE:
        # w is 0 to within rounding, and so is what a group does to it.
        return [solution.scores[samples] for samples, _ in pairs], np.zeros(len(pairs))
    unlearning = Unlearning(dual, gram, solution, free_or_next(dual, solution))
    sets = [leaving for _, leaving in pairs]
    without = unlearning.without(sets)
    if 8 * dual.n_samples**2 <= HELD_BYTES:
        unlearning.descend(sets, without)
    impossible, found = np.isnan(without.gaps), []
    for place, (samples, leaving) in enumerate(pairs):
        change, scores = without.changes[place], without.scores[place, samples]
        if impossible[place]:
            change = _in_proportion(dual, solution, leaving) - dual.beta(solution.multipliers)
            touched = np.flatnonzero(change)
            scores = solution.scores[samples] + gram.block(samples, touched) @ change[touched]
        found.append(scores + dual.linear @ change)
    off = np.sqrt(2.0 * np.where(without.exact | impossible, 0.0, without.gaps) * gram.diagonal.max())
    return found, off


def _in_proportion(dual: Dual, solution: Solution, leaving: IndexArray) -> FloatArray:
    """Return beta, (m,), where each plane's multipliers have grown to what they were before some left."""
    stays: BoolArray = np.ones(dual.n_samples, dtype=bool)
    stays[leaving] = False
    left = np.where(stays, solution.multipliers, 0.0)
    sums = left.sum(axis=1, keepdims=True)
    return dual.beta(left * np.divide(dual.totals[:, None], sums, out=np.ones_like(sums), where=sums > 0))
