"""What a fit says where far more or far fewer new positives will be accepted than its parameters ask for."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count

import numpy as np

from slabsvm.data.distinct import FAR_BELOW, NEIGHBOURS, Distinct, Groups
from slabsvm.runtime.arrays import BoolArray, FloatArray, IndexArray

# A warning is due where the expected recall is less than the parameters ask for by more than this.
LOST_RECALL = 0.1
# A warning is due, too, where less than this share of the rejections that the parameters ask for is expected, and at
# least TELLING rows should be rejected: that none is by chance has the probability e^-3 = .05.
LOST_REJECTIONS = 0.5
TELLING = 3.0
# A warning is due where more than this share of the rows have near copies. Left-out scores are right for the others
# alone, so that 1 / (1 - share) times what was asked for is rejected: from here on a quarter more.
NEARLY_COPIED = 0.2
# Most rows are more than this share.
MOST = 0.5

# A warning is due where left-out scores may put the recall off by more than this share of its standard error.
TELLING_ERROR = 0.5

# Samples whose weights differ by a smaller share weigh alike.
SAME_WEIGHT = 1e-9


def foretold(within: FloatArray, weights: FloatArray, groups: Groups | None = None) -> tuple[float, float]:
    """Return the recall to expect of planes that were put by left-out scores, and its standard error.

    Of m + 1 rows in random order a new one is below the k-th lowest of the others with probability k / (m + 1), and of
    the m + 1 gaps between their scores it falls into each alike. A plane a share f of the way from the k-th lowest to
    the next has (k + f) / (m + 1) of new rows below it: one on a score counts that whole, and one that is midway
    between two scores, as a quantile is where nu m is a whole number, half of the gap. Where a samples lie inside P
    planes, (a + 1 - sum f_p) / (m + 1) of new rows do. Halfway in score is halfway in rank where scores are spread
    evenly between two neighbours; of an exponential tail that is off by a tenth of what f = 1 for it would be.

    Samples that repeat, those that weigh more than the lightest, are no new rows: rows that repeat them are accepted
    where they are. The law holds for the others, among each other, by the share that they are of all. The error is
    sqrt(r (1 - r) / (m + 2)), of a beta distribution with the mean r.

    With groups a new row comes from a new group. Let S be the share of its own group that is beyond it, with half of
    itself, and b the share beyond a plane of all G groups. The row is beyond the plane which the others put where the
    mass beyond it of all G + 1 is (G b + S) / (G + 1) at most, and that many rows are, with S what it is in the mean of
    members around the plane. Of groups of one row S is 1/2, which is the law above; of groups that are all alike it is
    b, and nothing is lost. The error is that of a mean over groups.

    Parameters
    ----------
    within : (P, p) array
        How far inside each plane every left-out sample, or member of a group, lies; negative outside.
    weights : (p,) array
    groups : Groups or None
    """
    shares, accepted = weights / weights.sum(), inside_all(within)
    if groups is not None:
        expected = 1.0 - sum(_beyond(plane, shares, groups) for plane in within)
        error = float(groups.shares(accepted).std(ddof=1)) / math.sqrt(groups.count)
        return min(max(expected, 0.0), 1.0), error
    alone = _lightest(weights)
    inside, depths = np.count_nonzero(accepted[alone]), sum(_depth(plane[alone]) for plane in within)
    among = max(inside + 1.0 - depths, 0.0) / (np.count_nonzero(alone) + 1.0)
    expected = float(shares[~alone] @ accepted[~alone] + shares[alone].sum() * among)
    return expected, _error(expected, len(weights))


def inside_all(within: FloatArray) -> BoolArray:
    """Return which samples lie inside all planes, (p,), by how far inside each they do, (P, p)."""
    return np.asarray((within >= 0).all(axis=0))


def _depth(within: FloatArray) -> float:
    """Return how far a plane is on the way from the nearest sample outside to the nearest inside, from 0 to 1.

    1 where there are none on a side: nothing says how far beyond all samples new rows lie.
    """
    outside, inside = within[within < 0], within[within >= 0]
    if not len(outside) or not len(inside):
        return 1.0
    gap = -float(outside.max())
    return gap / (gap + float(inside.min()))


def _beyond(within: FloatArray, shares: FloatArray, groups: Groups) -> float:
    """Return the share of rows of new groups that is beyond a plane, for how far inside it members lie, (p,)."""
    order = np.argsort(within, kind="stable")
    up_to = np.cumsum(shares[order]) - shares[order] / 2.0
    beyond = float(np.interp(0.0, within[order], up_to))
    # Of each group, in the order of groups, and back in the order of all.
    of_groups = np.lexsort((within, groups.numbers))
    sums = np.cumsum(shares[of_groups])
    own = np.empty_like(shares)
    own[of_groups] = (sums - groups.numbers / groups.count - shares[of_groups] / 2.0) * groups.count
    # On either side of the plane half of those beyond it, or of those inside where these are fewer.
    around = np.abs(up_to - beyond) <= min(beyond, 1.0 - beyond) / 2.0
    near = order[around] if around.any() else order[[np.abs(up_to - beyond).argmin()]]
    return beyond + (float(np.average(own[near], weights=shares[near])) - beyond) / (groups.count + 1.0)


def too_few(n: float, nominal: float, what: str, remedy: str = "Give {least} or more.") -> str:
    """Return the warning where the recall by n samples in random order may be LOST_RECALL too small, or nothing.

    That is where what is expected at least, the nominal share times n / (n + 1), less its error is less than the
    nominal recall by more.
    """
    expected, error = _foretold(nominal, n)
    if expected - error >= nominal - LOST_RECALL:
        return ""
    least = next(m for m in count(math.ceil(n)) if np.subtract(*_foretold(nominal, m)) >= nominal - LOST_RECALL)
    return (
        f"{what} to set a threshold: {nominal:.0%} of new positives are to be accepted, but expect {expected:.0%}, "
        f"with a standard error of {error:.0%}. {remedy.format(least=least)}"
    )


def too_few_distinct(weights: FloatArray, nominal: float) -> str:
    """Return the warning where distinct samples of these weights are too few, or nothing.

    Where most rows repeat each other, their distinct samples say nothing of new rows.
    """
    if share_once(weights) < MOST:
        return ""
    return too_few(len(weights), nominal, f"{len(weights)} distinct samples are few")


def too_uneven(weights: FloatArray, nominal: float) -> str:
    """Return the warning where rows of these weights are too few by what they are worth, or nothing."""
    kept = weights[weights > 0]
    worth = effective(kept / kept.sum())
    return too_few(
        worth,
        nominal,
        f"{len(kept)} samples of weights as uneven as these are worth {worth:.3g} of equal weights, "
        "(sum w)^2 / sum w^2, which are few",
        "Give weights that differ less, or samples that are worth {least} or more.",
    )


def taken_for_copies(weights: FloatArray, nominal: float) -> str:
    """Return the warning where samples that are there so often lose new rows that repeat none, or nothing.

    Of samples that repeat one copy is left out, so that they score higher than a row that was never seen. The threshold
    may reject as many of the others as are to be rejected of all.
    """
    once = share_once(weights)
    least = max(1.0 - (1.0 - nominal) / once, 0.0)
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
    """Return whether all weights but zeros are the same."""
    return bool(weights.max() <= (1.0 + SAME_WEIGHT) * weights[weights > 0].min())


def effective(shares: FloatArray) -> float:
    """Return how many rows of one weight say as much as rows of these shares, which sum to 1 (Kish 1965)."""
    return 1.0 / float(shares @ shares)


def _foretold(share: float, m: float) -> tuple[float, float]:
    """Return the least recall to expect of a threshold that accepts a share of m samples in random order."""
    expected = share * m / (m + 1)
    return expected, _error(expected, m)


def _error(expected: float, m: float) -> float:
    return math.sqrt(expected * max(1.0 - expected, 0.0) / (m + 2))


def share_once(weights: FloatArray) -> float:
    """Return the share of those samples that weigh no more than the lightest."""
    return float(weights[_lightest(weights)].sum() / weights.sum())


def _lightest(weights: FloatArray) -> BoolArray:
    return np.asarray(weights <= (1.0 + SAME_WEIGHT) * weights.min())


def inexact(errors: FloatArray | float, within: FloatArray, weights: FloatArray, groups: Groups | None) -> str:
    """Return the warning where planes by left-out scores may be off, and it matters, or nothing.

    It does where such moves accept or reject more new positives than TELLING_ERROR standard errors of the recall. One
    sample more or less outside of a plane that leaves four outside is half of that plane's standard error, and nothing
    to the recall.

    errors says how far inside and outside of where it is put each plane may belong, (2, P) or one number for all, in
    the unit of within; the others are as of `foretold`.
    """
    if not np.any(errors):
        return ""
    shares, moved = weights / weights.sum(), 0.0
    for plane, inside, outside in zip(within, *np.broadcast_to(errors, (2, len(within))), strict=True):
        order = np.argsort(plane, kind="stable")
        up_to = np.cumsum(shares[order]) - shares[order] / 2.0
        less, more = np.interp([-outside, inside], plane[order], up_to)
        moved += (more - less) / 2.0
    accepted = inside_all(within)
    if groups is None:
        recall = float(shares @ accepted)
        chance = math.sqrt(recall * max(1.0 - recall, 0.0) * float(shares @ shares))
    else:
        chance = float(groups.shares(accepted).std(ddof=1)) / math.sqrt(groups.count)
    if moved <= TELLING_ERROR * chance:
        return ""
    how_far = f"by {moved:.1%} of new positives" if np.isfinite(errors).all() else "by an unknown share"
    return (
        f"Leave-one-out scores are estimates here (loo_error_), so the recall may be off {how_far}; chance alone "
        f"makes {chance:.1%}. Set the threshold from held-out rows: ConformalDetector(FrozenEstimator(model)). Or "
        "use a larger cache_size, fewer rows, or a smaller gamma."
    )


def optimistic(expected: float, nominal: float) -> str:
    """Return the warning where training thresholds will accept this share of new positives, or nothing."""
    if expected >= nominal - LOST_RECALL:
        return ""
    return (
        f"With offsets='training' expect {expected:.0%} of new positives to be accepted, by the training samples' "
        f"leave-one-out scores, where nu asks for {nominal:.0%}. Use offsets='leave-one-out', or more samples."
    )


def bounded(least: float, repeating: float, nominal: float, remedy: str) -> str:
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
        f"{1 - least:.0%} of the training samples are support vectors. With offsets='training' expect as few as "
        f"{least:.0%} of new positives to be accepted{if_they_repeat}, where nu asks for {nominal:.0%}. Use {remedy}, "
        "or more samples."
    )


def lifted_out(learned: float, unseen: float, nominal: float, remedy: str) -> str:
    """Return the warning where a slab rejects the rows that it learned, or nothing.

    It accepts the share learned of these, and is expected to accept the share unseen of new positives.
    """
    if learned >= nominal - LOST_RECALL:
        return ""
    return (
        f"The model accepts {learned:.0%} of the training rows, and of rows that repeat them. Learning a row raises "
        f"its score, here beyond the upper plane, which is set for unseen rows. Expect {unseen:.0%} of unseen rows to "
        f"be accepted. Use {remedy}, or epsilon=0, which has no upper plane. loo_decisions_ says which training rows "
        "are outliers."
    )


def nearly_copied(share: float, remedy: str) -> str:
    """Return the warning where this share of the distinct rows have near copies, or nothing."""
    if share <= NEARLY_COPIED:
        return ""
    return (
        f"{share:.0%} of the distinct training rows have a near copy: one of their {NEIGHBOURS - 1} nearest rows is "
        f"at least {FAR_BELOW:.0f} times nearer than the next. A row that is left out still resembles its copies, so "
        f"more new rows will be rejected than expected, unless new rows come as near to training rows. {remedy}"
    )


def misjudged_repeats(
    distinct: Distinct,
    nominal: float,
    *,
    accepted: Callable[[IndexArray], BoolArray],
    left_out: Callable[[], BoolArray],
) -> str:
    """Return the warning where leave-one-out thresholds accept far too few or too many rows that repeat, or nothing.

    The share of rows that have an equal one estimates how many new rows will repeat a training row (Good 1953). They
    score as it does, with its weight in the model, and not as a row that was left out.

    accepted says which of some distinct samples the model accepts, and left_out which rows, (n_samples,), it accepts by
    leave-one-out scores.
    """
    repeated = np.flatnonzero(distinct.copies > 1)
    if not len(repeated):
        return ""
    among = distinct.weights[repeated]
    share = float(among.sum() / distinct.weights.sum())
    if share * nominal <= LOST_RECALL and 1.0 - share > LOST_REJECTIONS:
        return ""
    recall = float(among @ accepted(repeated) / among.sum())
    found = (
        f"{share:.0%} of the training samples repeat others. The model accepts {recall:.0%} of these, where its "
        f"parameters ask for {nominal:.0%}: "
    )
    if share * (nominal - recall) > LOST_RECALL:
        return (
            f"{found}leave-one-out scores set thresholds for unseen rows. Use offsets='training' if new rows "
            "will repeat training rows in the same way (few discrete values). If rows were only given more than once, "
            "give each once."
        )
    others = np.flatnonzero(distinct.copies == 1)
    of_others = left_out()[distinct.representatives[others]]
    expected = share * recall + float(distinct.weights[others] @ of_others / distinct.weights.sum())
    if 1.0 - expected < LOST_REJECTIONS * (1.0 - nominal) and len(distinct.group) * (1.0 - nominal) >= TELLING:
        return (
            f"{found}they score higher than rows that were left out, or lie on the threshold, which counts as inside. "
            f"If new rows will repeat training rows in the same way, expect {expected:.1%} of new positives to be "
            "accepted, and outliers that repeat these too. Set the threshold from rows held out at random: "
            "ConformalDetector(FrozenEstimator(model)). Rows with equal scores are accepted or rejected together, "
            "there too. With few distinct values, ask for more to be rejected."
        )
    return ""
