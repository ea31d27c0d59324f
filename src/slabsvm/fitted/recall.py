"""What a fit says where far more or far fewer new positives will be accepted than its parameters ask for."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count

import numpy as np

from slabsvm.data.distinct import FAR_BELOW, NEIGHBOURS, Distinct
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

# Samples whose weights differ by a smaller share weigh alike.
SAME_WEIGHT = 1e-9


def foretold(share: float, weights: FloatArray) -> tuple[float, float]:
    """Return the recall to expect of a threshold that accepts a share of m samples by left-out scores, and its error.

    Of m + 1 rows in random order a new one is below the k-th lowest of the others with probability k / (m + 1): the
    recall has a beta distribution, of the mean share m / (m + 1) and the variance r (1 - r) / (m + 2). Samples that
    repeat, those that weigh more than the lightest, are no new rows, and lose nothing.
    """
    return _foretold(share, len(weights), share_once(weights))


def too_few(n: float, nominal: float, what: str, remedy: str = "Give {least} or more.") -> str:
    """Return the warning where the recall by n samples in random order may be LOST_RECALL too small, or nothing.

    That is where `foretold` less its error is less than the nominal recall by more.
    """
    expected, error = _foretold(nominal, n)
    if expected - error >= nominal - LOST_RECALL:
        return ""
    least = next(m for m in count(math.ceil(n)) if np.subtract(*_foretold(nominal, m)) >= nominal - LOST_RECALL)
    return (
        f"{what} to put a threshold by: where {nominal:.0%} of new positives are to be accepted, expect "
        f"{expected:.0%}, with a standard error of {error:.0%}. {remedy.format(least=least)}"
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
        f"{1.0 - once:.0%} of the samples repeat others, as they were given or by whole-number weights, and so will as "
        "many new positives. Yet a feature tells all distinct samples apart. Of new positives that repeat none expect "
        f"as few as {least:.0%} to be accepted, where {nominal:.0%} are to be. If rows were only given more than once, "
        "give each once. If weights say how much samples matter, put the threshold by rows that were held out: "
        f"ConformalDetector(model, alpha={1.0 - nominal:.3g}) does."
    )


def alike(weights: FloatArray) -> bool:
    """Return whether all weights but zeros are the same."""
    return bool(weights.max() <= (1.0 + SAME_WEIGHT) * weights[weights > 0].min())


def effective(shares: FloatArray) -> float:
    """Return how many rows of one weight say as much as rows of these shares, which sum to 1 (Kish 1965)."""
    return 1.0 / float(shares @ shares)


def _foretold(share: float, m: float, once: float = 1.0) -> tuple[float, float]:
    expected = share * (1.0 - once / (m + 1))
    return expected, math.sqrt(expected * max(1.0 - expected, 0.0) / (m + 2))


def share_once(weights: FloatArray) -> float:
    """Return the share of those samples that weigh no more than the lightest."""
    once = weights <= (1.0 + SAME_WEIGHT) * weights.min()
    return float(weights[once].sum() / weights.sum())


def flattered(expected: float, nominal: float) -> str:
    """Return the warning where training thresholds will accept this share of new positives, or nothing."""
    if expected >= nominal - LOST_RECALL:
        return ""
    return (
        f"With offsets='training' expect {expected:.0%} of new positives to be accepted, by what the training samples "
        f"score without themselves, where nu asks for {nominal:.0%}. Use offsets='leave-one-out', or more samples."
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
        if_they_repeat = f" ({repeating:.0%} if they repeat training rows as often as these do each other)"
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
        f"Of the training rows, and of rows that repeat one, the model accepts {learned:.0%}: each raised its own "
        "score, here beyond the upper plane, whose place is for rows that were never seen. Of these expect "
        f"{unseen:.0%} to be accepted. Use {remedy}, or epsilon=0, which has no upper plane; loo_decisions_ says "
        "which training rows are outliers."
    )


def nearly_copied(share: float, remedy: str) -> str:
    """Return the warning where this share of the distinct rows have near copies, or nothing."""
    if share <= NEARLY_COPIED:
        return ""
    return (
        f"{share:.0%} of the distinct training rows have a near copy: one of their {NEIGHBOURS - 1} nearest rows is "
        f"{FAR_BELOW:.0f} times or more nearer than the next. A row that is left out is known by its copies, so that "
        f"more new rows will be rejected than foretold, unless these come as near to training rows. {remedy}"
    )


def misjudged_repeats(
    distinct: Distinct,
    nominal: float,
    *,
    accepted: Callable[[IndexArray], BoolArray],
    left_out: Callable[[], BoolArray],
    seen: str = "Use offsets='training'",
    held_out: str = "ConformalDetector(model, method='prefit')",
) -> str:
    """Return the warning where leave-one-out thresholds accept far too few or too many rows that repeat, or nothing.

    The share of rows that have an equal one estimates how many new rows will repeat a training row (Good 1953). They
    score as it does, with its weight in the model, and not as a row that was left out.

    accepted says which of some distinct samples the model accepts, and left_out which rows, (n_samples,), it accepts by
    leave-one-out scores. seen is the remedy where new rows were seen, held_out what puts thresholds by other rows.
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
        f"{share:.0%} of the training samples are rows that repeat, and of these the model accepts {recall:.0%}, where "
        f"its parameters ask for {nominal:.0%}: "
    )
    if share * (nominal - recall) > LOST_RECALL:
        return (
            f"{found}leave-one-out scores put thresholds for rows that were never seen. {seen} if new rows will repeat "
            "training rows as these do (few discrete values); if rows were only given more than once, give each once."
        )
    others = np.flatnonzero(distinct.copies == 1)
    of_others = left_out()[distinct.representatives[others]]
    expected = share * recall + float(distinct.weights[others] @ of_others / distinct.weights.sum())
    if 1.0 - expected < LOST_REJECTIONS * (1.0 - nominal) and len(distinct.group) * (1.0 - nominal) >= TELLING:
        return (
            f"{found}they score higher than rows that were left out, or tie on the threshold, which counts as inside. "
            f"If new rows will repeat training rows as these do, expect {expected:.1%} of new positives to be "
            f"accepted, and novel rows that repeat these too. Hold rows out at random, and put the threshold by them: "
            f"{held_out} does. Rows that score alike are accepted or rejected together, there too: where values are "
            "few, ask for more to be rejected."
        )
    return ""
