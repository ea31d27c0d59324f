"""Whether a solution's gap is small enough to tell samples apart."""

from __future__ import annotations

import numpy as np

from slabsvm.dual.program import Dual
from slabsvm.dual.solution import Solution, Status
from slabsvm.fitted.model import rounding_of
from slabsvm.gram.base import Gram

# A gap of more than this share of what the samples' differences can do to an objective has told none of them apart.
UNRESOLVED = 0.1
# The share that an advised tolerance leaves.
RESOLVED = 1e-3
# The number of samples from which the variance is estimated.
SAMPLED = 300


def unresolved(dual: Dual, gram: Gram, solution: Solution, *, model: str, tol: float, kernel: object) -> str:
    """Return a warning where nearly any multipliers meet tol, since all kernel values are nearly equal, or nothing.

    As sums of multipliers are fixed, a constant may be taken off K: what decides is what is left, the cloud's variance
    in feature space. model and kernel are named in the text.
    """
    if solution.status is not Status.CONVERGED:
        return ""
    count = min(gram.n_samples, SAMPLED)
    some = np.arange(count) * (gram.n_samples - 1) // max(count - 1, 1)
    squared_total, size = dual.total**2, float(gram.diagonal[some].mean())
    # A variance below the rounding of K is that of equal samples, of which nothing is lost.
    least = 4 * rounding_of(size)
    if solution.gap <= UNRESOLVED * least * squared_total:
        return ""
    # The variance along w, which the scores give, is a lower bound that mostly decides, and needs no block of K.
    along = solution.scores - dual.linear
    squared_norm = float(dual.beta(solution.multipliers) @ along)
    if solution.gap * squared_norm < UNRESOLVED * float(along[some].var()) * squared_total:
        return ""
    variance = size - float(gram.block(some, some).mean())
    if variance <= least:
        return ""
    differences = variance * squared_total
    if solution.gap <= UNRESOLVED * differences:
        return ""
    cause = "a larger gamma" if kernel == "rbf" else "centred features (StandardScaler)"
    wanted = RESOLVED * differences / dual.scale(solution.objective, size)
    return (
        f"{model} met tol={tol:g}, but all kernel values are nearly the same (they differ by {variance / size:.1g} of "
        f"their size), so nearly any solution meets it. The duality gap, {solution.gap:.2g}, is "
        f"{solution.gap / differences:.0%} of all that the samples' differences can change in the objective. Use "
        f"tol={wanted:.0e}, or {cause}."
    )
