"""How far from each other two right answers may be: all tolerances of the laws, and why.

**A gap bounds a direction.** With D the dual's value at v and P the primal's at w = sum_i beta_i Phi(x_i), both are
strongly convex in w with modulus 1, so that gap = P(w) - D(v) >= |w - w*|^2. Two solutions of one problem, of gaps g
and h, have |w - w'| <= sqrt(g) + sqrt(h), hence scores |s(x) - s'(x)| <= sqrt(k(x, x)) (sqrt(g) + sqrt(h)). A training
plane is a quantile of scores, and a quantile moves no further than the scores do.

**Rounding.** A score is a sum of m terms of at most max |K| each, times multipliers that sum to 1 and epsilon: float64
knows it to `of_score`, since K itself is known to `of_kernel`. An objective and a gap are sums of scores times
multipliers once more. A plane is moved outwards by 1024 eps times the largest terms, on purpose, so that what lies on
it is inside.
"""

from typing import Any

import numpy as np
from strategies import Problem

EPS = float(np.finfo(np.float64).eps)
# The roundings of one plane's move, and of all else that a score goes through.
MOVED = 1024
SUMMED = 64


def largest(problem: Problem) -> float:
    """The largest kernel value."""
    return float(np.abs(problem.K).max())


def of_kernel(problem: Problem, *, from_origin: bool = False) -> float:
    """By how much K in float64 may be off.

    An RBF's exponent is a difference of products: it is off by 4 eps gamma |x - c|^2 while that is below 1e-9, and is
    summed from differences beyond it; of CSR rows c is the origin. Other kernels are sums of terms of K's size.
    """
    terms = SUMMED * EPS * largest(problem)
    if problem.kernel != "rbf":
        return terms
    centre = 0.0 if from_origin else problem.shares @ problem.X
    product = 4 * EPS * problem.gamma * float(np.square(problem.X - centre).sum(axis=1).max())
    return terms + (product if from_origin or product <= 1e-9 else 0.0)


def totals(problem: Problem) -> float:
    return 1.0 + problem.epsilon


def of_score(problem: Problem, *, from_origin: bool = False) -> float:
    """By how much the score of a training row may be off by rounding."""
    return totals(problem) * (of_kernel(problem, from_origin=from_origin) + SUMMED * EPS * largest(problem))


def of_gap(problem: Problem, *, from_origin: bool = False) -> float:
    """By how much a gap or an objective may be off by rounding."""
    return totals(problem) * of_score(problem, from_origin=from_origin)


def of_plane(problem: Problem) -> float:
    """By how much a plane is moved outwards, and off by rounding."""
    return of_score(problem) + MOVED * EPS * totals(problem) * largest(problem)


def between_scores(gap: float, other: float, longest: float) -> float:
    """By how much the scores of two solutions of these gaps differ at most, for a row of squared length k(x, x)."""
    return float(np.sqrt(longest)) * (float(np.sqrt(max(gap, 0.0))) + float(np.sqrt(max(other, 0.0))))


def converged(problem: Problem, model: Any) -> float:
    """The gap below which a model that says it converged must lie: tol of the objective, or what rounding hides.

    The scale of an objective that is nearly 0 is that of K's diagonal, in the mean over the distinct rows that count.
    """
    counting = np.flatnonzero(problem.shares > 0)
    distinct = counting[np.unique(problem.X[counting], axis=0, return_index=True)[1]]
    size = float(np.mean(np.diagonal(problem.K)[distinct])) * totals(problem) ** 2
    return model.tol * max(abs(model.dual_objective_), 1e-7 * size) + 1e-14 * size + of_gap(problem)


def assert_same_slab(
    problem: Problem, one: Any, other: Any, rows: Any, others: Any, *, unit: float = 1.0, from_origin: bool = False
) -> None:
    """Two slabs with training planes, ranked by the centre, are the same within their gaps and rounding.

    `other` answers for `others` what `one` does for `rows`, which are `problem.new`, in a unit of the kernel that is
    `unit` times as large. K's rounding decides, too, which solution is found: it counts as a gap.
    """
    known = of_gap(problem, from_origin=from_origin)
    longest = float(max(problem.formula(x[None], x[None])[0, 0] for x in (*problem.new, *problem.X)))
    allowed = between_scores(one.duality_gap_ + known, other.duality_gap_ / unit + known, longest)
    if largest(problem):
        allowed += of_score(problem, from_origin=from_origin) * max(1.0, longest / largest(problem))
    np.testing.assert_allclose(other.project(others) / unit, one.project(rows), rtol=0, atol=allowed)
    planes = allowed + of_plane(problem)
    for name in ("rho_lower_", "rho_upper_"):
        np.testing.assert_allclose(getattr(other, name) / unit, getattr(one, name), rtol=0, atol=planes)
