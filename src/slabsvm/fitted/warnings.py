"""The warnings of a fit, each as its text, or an empty one where nothing is wrong.

A solver that stopped early, or that met tol without telling samples apart, has scikit-learn's ConvergenceWarning. All
other warnings are a FitWarning:

- Few distinct rows, or groups, set the threshold.
- w is 0, or the planes are one, or they reject the rows that were learned.
- Rows repeat others, or nearly do.
- A few rows make the scale. Bandwidths, standardised features and balls are measured in standard deviations, which one
  row can make as large as it likes. By such a scale all other rows lie in one place: nothing tells them from rows that
  are far from them.

Where thresholds at training scores will reject far too much, or a row infinitely far away is accepted, a promise fails
that no number of rows mends, and a FitWarning says that, too. Every fit compares its planes with the limit of its score
infinitely far away (`Kernel.far_score`):

- A local kernel (RBF) falls to 0, and the limit is the score of a row unlike all samples. It is kept outside, by moving
  the plane that faces it, and what that costs is said.
- A kernel that levels off (intersection, chi2) has a finite limit, and samples score on both sides of it. One that
  grows (Hellinger) has an infinite one, accepted where there is no upper plane. Planes are left where they are.
- A linear kernel has another limit in each direction, and nothing is known of a function or matrix of the user's. The
  row whose kernel values are all 0 takes the far row's place: none is less like the samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np
import scipy.sparse as sp

from slabsvm.data.distinct import NEIGHBOURS
from slabsvm.fitted.model import CalibrationScores, Solved, rounding_of
from slabsvm.fitted.threshold import least_recall
from slabsvm.runtime.arrays import FloatArray, IndexArray
from slabsvm.runtime.caller import counted
from slabsvm.svm.gram import Gram
from slabsvm.svm.program import DualProblem, GapScale, Solution, Status

# A warning is due where the expected recall is less than the parameters ask for by more than this.
LOST_RECALL = 0.1


class FitWarning(UserWarning):
    """A fit that may not do what its parameters ask for: the text says why, and what to do."""


def few_groups_warning(count: int, nominal: float) -> str:
    """Return the warning where so few groups set a threshold, or nothing."""
    return _too_few(count, nominal, f"{count} groups are few")


def few_rows_warning(weights: FloatArray, copies: FloatArray, nominal: float, *, counts: bool) -> str:
    """Return the warning where rows of these weights, (n,), set a threshold and are too few, or repeat, or nothing.

    copies, (k,), says how many rows each distinct one is, and counts whether weights may say how often rows were seen.
    """
    doubt = "" if alike(weights) else uneven_weights_warning(weights, nominal)
    doubt = doubt or repeats_warning(copies, nominal)
    if doubt and not counts:
        return doubt
    # Where most rows repeat others, and new ones will, too, how many differ says nothing.
    if share_once(copies) < 0.5:
        return ""
    return _too_few(len(copies), nominal, f"{len(copies)} distinct samples are few")


def few_distinct_warning(n_distinct: int, n_rows: int, n_rejected: int, alpha: float) -> str:
    """Return the warning where rows repeat and too few distinct ones calibrate a rate of rejections, or nothing.

    n_rejected of them, and whatever scores no more, are rejected: of new rows that repeat none the share of the gaps
    between distinct rows that lie there.
    """
    share = (1 + n_rejected) / (1 + n_distinct)
    # Rejected five times as often as asked for is too often.
    if n_distinct >= n_rows or (n_distinct >= 1 / alpha and share <= 5.0 * alpha):
        return ""
    return (
        f"Of {n_rows} calibration rows {n_distinct} differ. The rate of rejections is at most alpha={alpha:g} where "
        f"new rows repeat each other as these do. Of new rows that do not, expect {share:.0%} to be rejected. Give "
        "more distinct rows, or a larger alpha."
    )


def uneven_weights_warning(weights: FloatArray, nominal: float) -> str:
    """Return the warning where rows of these weights have too small an effective size, or nothing."""
    kept = weights[weights > 0]
    size = effective(kept / kept.sum())
    return _too_few(
        size,
        nominal,
        f"{len(kept)} samples of weights as uneven as these are worth {size:.3g} of equal weights, "
        "(sum w)^2 / sum w^2, which are few",
        "Give weights that differ less, or samples that are worth {least} or more.",
    )


def _too_few(n: float, nominal: float, what: str, remedy: str = "Give {least} or more.") -> str:
    """Return the warning where the recall by n samples in random order may be LOST_RECALL too small, or nothing.

    That is where what is expected at least, the nominal share times n / (n + 1), less its error is less than the
    nominal recall by more.
    """
    expected, error = least_recall(nominal, n)
    if expected - error >= nominal - LOST_RECALL:
        return ""
    least = next(m for m in count(math.ceil(n)) if np.subtract(*least_recall(nominal, m)) >= nominal - LOST_RECALL)
    return (
        f"{what} to set a threshold: {nominal:.0%} of new positives are to be accepted, but expect {expected:.0%}, "
        f"with a standard error of {error:.0%}. {remedy.format(least=least)}"
    )


def repeats_warning(copies: FloatArray, nominal: float) -> str:
    """Return the warning where rows that repeat, so often each, lose new rows that repeat none, or nothing.

    Where a row that repeats leaves, its copies stay, so that it scores higher than one that was never seen. The
    threshold may reject as many of the others as are to be rejected of all.
    """
    once = share_once(copies)
    least = max(1.0 - (1.0 - nominal) / once, 0.0) if once > 0 else 0.0
    if least >= nominal - LOST_RECALL:
        return ""
    return (
        f"{1.0 - once:.0%} of the samples repeat others, as given or by whole-number weights. The threshold counts on "
        "as many repeats among new positives. Yet one feature differs between all distinct samples, so new positives "
        f"may repeat none. Of such positives as few as {least:.0%} may be accepted, where {nominal:.0%} are asked for. "
        "If rows were only given more than once, give each once. If weights say how much samples matter, "
        f"set the threshold from held-out rows: ConformalDetector(model, alpha={1.0 - nominal:.3g})."
    )


def alike(weights: FloatArray) -> bool:
    """Return whether all weights but zeros are the same, but for rounding."""
    return bool(weights.max() <= (1.0 + 1e-9) * weights[weights > 0].min())


def effective(shares: FloatArray) -> float:
    """Return how many rows of one weight say as much as rows of these shares, which sum to 1 (Kish 1965)."""
    return 1.0 / float(shares @ shares)


def share_once(copies: FloatArray) -> float:
    """Return the share of rows that no other one repeats, by how many rows each distinct one is, (k,)."""
    return float(np.count_nonzero(copies == 1) / copies.sum())


def optimistic_warning(expected: float, nominal: float, by: str = "the training samples' leave-one-out scores") -> str:
    """Return the warning where training thresholds will accept this share of new positives, or nothing."""
    if expected >= nominal - LOST_RECALL:
        return ""
    return (
        f"With calibration='training' expect {expected:.0%} of new positives to be accepted, by {by}, where nu asks "
        f"for {nominal:.0%}. Use calibration='auto', or more samples."
    )


def training_planes_warning(least: float, repeating: float, nominal: float, remedy: str) -> str:
    """Return the warning where training planes of a support vector machine will reject too many, or nothing.

    They accept at least the share least of new positives, and at least repeating where these repeat training rows as
    often as training rows repeat each other.
    """
    if least >= nominal - LOST_RECALL:
        return ""
    if_they_repeat = ""
    if repeating > least + LOST_RECALL:
        if_they_repeat = f" ({repeating:.0%} if they repeat training rows as often as these repeat each other)"
    return (
        f"{1 - least:.0%} of the training samples are support vectors. With calibration='training' expect as few as "
        f"{least:.0%} of new positives to be accepted{if_they_repeat}, where nu asks for {nominal:.0%}. Use {remedy}, "
        "or more samples."
    )


def learned_rejected_warning(learned: float, unseen: float, nominal: float, remedy: str) -> str:
    """Return the warning where a slab rejects the rows that it learned, or nothing.

    It accepts the share learned of these, and is expected to accept the share unseen of new positives.
    """
    if learned >= nominal - LOST_RECALL:
        return ""
    return (
        f"The model accepts {learned:.0%} of the training rows, and of rows that repeat them. Learning a row raises "
        f"its score, here beyond the upper plane, which is set for unseen rows. Expect {unseen:.0%} of unseen rows to "
        f"be accepted. Use {remedy}, or epsilon=0, which has no upper plane. calibration_decisions_ says which "
        "training rows are outliers."
    )


def near_copies_warning(share: float, remedy: str) -> str:
    """Return the warning where this share of the distinct rows have near copies, or nothing."""
    # Left-out scores are right for the others alone, so that 1 / (1 - share) times what was asked for is rejected: from
    # a fifth on a quarter more.
    if share <= 0.2:
        return ""
    return (
        f"{share:.0%} of the distinct training rows have near copies: a gap in the distances from their {NEIGHBOURS} "
        "nearest rows that independent rows have in 2 of 100 cases. If new rows come as near to training rows, as in "
        "clusters, nothing is wrong. If rows were copied, each resembles its copies where it is not learned, and "
        f"more new rows will be rejected than expected. {remedy}"
    )


def extreme_rows_warning(X: Any, names: Sequence[str] | None) -> str:
    """Return the warning where a few of the samples X, (n, d), make the scale of a feature, or nothing.

    Sparse rows, of which a few make the scale of each rare feature, and features of which a half are equal have no
    quartiles to compare with, and the quartiles of fewer than 20 rows say little.

    A few rows make a standard deviation that is 100 times what the middle half of the rows says. Three rows of 300 that
    are a hundred times as far out lower the balanced accuracy of AutoDetector by .1 and of a linear SVDD by .56, at a
    thousand times that of KernelDensityDetector by .13. Of 81 tables of OddBench and ADBench 9 have such a column, as
    an exponential of Gaussians of a deviation of 2.6 has.
    """
    n = X.shape[0]
    if sp.issparse(X) or n < 20:
        return ""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        deviation = X.std(axis=0, dtype=np.float64)
        # Columns are looked at of which some 40 rows, as samples are in random order, say that it is ten times what
        # their own middle half says.
        asked = np.flatnonzero(deviation > 10.0 * _middle(X[:: max(1, n // 40)]))
        if not len(asked):
            return ""
        times = deviation[asked] / _middle(X[:, asked])
    made = np.flatnonzero((times > 100.0) & (times < np.inf))
    if not len(made):
        return ""
    worst, most = asked[made[np.argmax(times[made])]], times[made].max()
    name = f"x{worst}" if names is None else repr(str(names[worst]))
    where = f"In column {name}" + (f" and {counted(len(made) - 1, 'other')}" if len(made) > 1 else "")
    return (
        f"{where} a few extreme rows set the scale: the standard deviation is {most:.2g} times what the middle half "
        "of the rows suggests. On this scale most rows lie in one place, and rows far from them may be accepted. "
        "Check the extreme rows and leave out those that are wrong, or take logarithms, or put slabsvm.NormalScores "
        "before the detector."
    )


def _middle(X: FloatArray) -> FloatArray:
    """Return the standard deviations, (d,), of Gaussians whose quartiles are those of rows; 0 where these are equal."""
    low, high = len(X) // 4, 3 * len(X) // 4
    quarters = np.partition(X, (low, high), axis=0)
    # The quartiles of a Gaussian are 1.349 standard deviations apart.
    return np.asarray((quarters[high] - quarters[low]) / 1.349, dtype=np.float64)


def planes_outside(
    solved: Solved,
    scored: CalibrationScores,
    offsets: FloatArray,
    rounding: float,
    *,
    others: Callable[[IndexArray], FloatArray],
    far_score: Callable[[], float | None],
    kernel: object,
    remedy: str,
) -> tuple[str, FloatArray]:
    """Return the warning where a row infinitely far away would be accepted, or nothing, and the offsets to set, (P,).

    The given offsets are quantiles of the scores, and planes are moved outwards by rounding. others returns what some
    of the rows score without themselves, given by their places. far_score returns the limit of s(x) as all features of
    x grow alike; None where it is unknown, or decides nothing. kernel is the parameter, for the text, and remedy what
    makes more samples alike.
    """
    dual, scores, masses = solved.dual, scored.scores, scored.calibration.masses
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
    some = scored.some(1000)
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


def unresolved_warning(
    dual: DualProblem, gram: Gram, solution: Solution, *, model: str, tol: float, kernel: object
) -> str:
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
