"""Diagnoses of a fit: would a row infinitely far away be accepted, and is the gap too large?

Every fit compares its planes with the limit of its score infinitely far away (`Kernel.far_score`):

- A local kernel (RBF) falls to 0, and the limit is the score of a row unlike all samples. It is kept outside, by moving
  the plane that faces it, and what that costs is said.
- A kernel that levels off (intersection, chi2) has a finite limit, and samples score on both sides of it. One that
  grows (Hellinger) has an infinite one, accepted where there is no upper plane. Planes are left where they are.
- A linear kernel has another limit in each direction, and nothing is known of a function or matrix of the user's. The
  row whose kernel values are all 0 takes the far row's place: none is less like the samples.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slabsvm.dual.program import Dual
from slabsvm.dual.solution import GapScale, Solution, Status
from slabsvm.fitted.model import Solved, Unseen, rounding_of
from slabsvm.gram.base import Gram
from slabsvm.runtime.arrays import FloatArray, IndexArray


def planes_outside(
    solved: Solved,
    unseen: Unseen,
    offsets: FloatArray,
    rounding: float,
    *,
    others: Callable[[IndexArray], FloatArray],
    far_score: Callable[[], float | None],
    kernel: object,
    remedy: str,
) -> tuple[str, FloatArray]:
    """Return the warning where a row infinitely far away would be accepted, or nothing, and the offsets to set, (P,).

    The given offsets are quantiles of unseen, and planes are moved outwards by rounding. others returns what some of
    these score by what is left as each leaves, given by their places. far_score returns the limit of
    s(x) as all features of x grow alike; None where it is unknown, or decides nothing. kernel is the parameter, for the
    text, and remedy what makes more samples alike.
    """
    dual, scores, masses = solved.dual, unseen.scores, unseen.calibration.masses
    if solved.kernel is None or not solved.kernel.local:

        def accepted(score: float) -> bool:
            return bool(dual.accepts(np.array([score]), offsets, rounding)[0])

        if not dual.linear.any() and accepted(0.0):
            return far_accepted_warning(float(masses @ (dual.side * scores <= rounding))), offsets
        far, lengths = far_score(), solved.gram.diagonal
        # Among rows of one length k(x, x), but for rounding, none is far from the others.
        if far is None or np.ptp(lengths) <= 1e-6 * np.max(lengths) or not accepted(far):
            return "", offsets
        return (
            "Rows that exceed the training rows in every feature are accepted, however far away: in the limit they "
            f"score {far:.4g} (kernel={kernel!r}). Use kernel='rbf' or SVDD, which reject rows far away. Or scale each "
            "row to the same sum, as in histograms."
        ), offsets
    kept = dual.outside_zero(offsets, 2 * rounding)
    if (kept == offsets).all():
        return "", kept
    # A thousand samples are checked for others that reach them.
    some = unseen.some(1000)
    shares = masses[some]
    reached = dual.side * others(some) > rounding
    if reached.all():
        return "", kept
    within = dual.accepts(dual.outside_zero(scores[some], 2 * rounding), kept, rounding)
    warning_text = out_of_reach_warning(
        alone=float(np.average(~reached, weights=shares)),
        expected=float(np.average(reached & within, weights=shares)),
        nominal=1.0 - float(dual.nus.sum()),
        remedy=remedy,
    )
    return warning_text, kept


def out_of_reach_warning(alone: float, expected: float, nominal: float, remedy: str) -> str:
    """Return the warning where a threshold is kept above the limit, which this share of samples scores when alone."""
    return (
        f"{alone:.0%} of the training samples are out of the kernel's reach of all others: where they are not "
        f"learned they score like a row infinitely far away. Such rows are never accepted. Expect {expected:.0%} of "
        f"new positives to be accepted, where nu asks for {nominal:.0%}. Use {remedy}, or scale the features, for "
        "example with StandardScaler."
    )


def far_accepted_warning(alone: float) -> str:
    """Return the warning where a row whose kernel values are all 0 is accepted, as this share of samples is not."""
    return (
        "A row whose kernel values with all training samples are 0 is accepted. If the kernel falls off with "
        f"distance, every row far away is such a row. {alone:.0%} of the training samples score no more than it where "
        "they are not learned. Use a kernel that falls off more slowly, more samples, or kernel='rbf', which keeps "
        "such rows outside."
    )


def unresolved_warning(dual: Dual, gram: Gram, solution: Solution, *, model: str, tol: float, kernel: object) -> str:
    """Return a warning where nearly any multipliers meet tol, since all kernel values are nearly equal, or nothing.

    As sums of multipliers are fixed, a constant may be taken off K: what decides is what is left, the cloud's variance
    in feature space. model and kernel are named in the text.
    """
    if solution.status is not Status.CONVERGED:
        return ""
    # A gap of more than a tenth of what the samples' differences can do to an objective has told none of them apart.
    share = 0.1
    # The variance is estimated from 300 samples.
    count = min(gram.n_samples, 300)
    some = np.arange(count) * (gram.n_samples - 1) // max(count - 1, 1)
    squared_total, size = dual.total**2, float(gram.diagonal[some].mean())
    # A variance below the rounding of K is that of equal samples, of which nothing is lost.
    least = 4 * rounding_of(size)
    if solution.gap <= share * least * squared_total:
        return ""
    # The variance along w, which the scores give, is a lower bound that mostly decides, and needs no block of K.
    along = solution.scores - dual.linear
    squared_norm = float(dual.beta(solution.multipliers) @ along)
    if solution.gap * squared_norm < share * float(along[some].var()) * squared_total:
        return ""
    variance = size - float(gram.block(some, some).mean())
    if variance <= least:
        return ""
    differences = variance * squared_total
    if solution.gap <= share * differences:
        return ""
    cause = "a larger gamma" if kernel == "rbf" else "centred features (StandardScaler)"
    wanted = 1e-3 * differences / GapScale.of(dual, size).size(solution.objective)
    return (
        f"{model} met tol={tol:g}, but all kernel values are nearly the same (they differ by {variance / size:.1g} of "
        f"their size), so nearly any solution meets it. The duality gap, {solution.gap:.2g}, is "
        f"{solution.gap / differences:.0%} of all that the samples' differences can change in the objective. Use "
        f"tol={wanted:.0e}, or {cause}."
    )
