"""What a fit says where far more or far fewer new positives will be accepted than its parameters ask for."""

from __future__ import annotations

import math
from itertools import count

import numpy as np

from slabsvm.data.distinct import FAR_BELOW, NEIGHBOURS
from slabsvm.fitted.threshold import least_recall
from slabsvm.runtime.arrays import FloatArray

# A warning is due where the expected recall is less than the parameters ask for by more than this.
LOST_RECALL = 0.1
# A warning is due where more than this share of the rows have near copies. Left-out scores are right for the others
# alone, so that 1 / (1 - share) times what was asked for is rejected: from here on a quarter more.
NEARLY_COPIED = 0.2
# Most rows are more than this share.
MOST = 0.5
# Samples whose weights differ by a smaller share weigh alike.
SAME_WEIGHT = 1e-9


def too_few(n: float, nominal: float, what: str, remedy: str = "Give {least} or more.") -> str:
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


def too_few_distinct(copies: FloatArray, nominal: float) -> str:
    """Return the warning where there are too few distinct rows, of so many copies each, or nothing."""
    return too_few(len(copies), nominal, f"{len(copies)} distinct samples are few")


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


def taken_for_copies(copies: FloatArray, nominal: float) -> str:
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
    """Return whether all weights but zeros are the same."""
    return bool(weights.max() <= (1.0 + SAME_WEIGHT) * weights[weights > 0].min())


def effective(shares: FloatArray) -> float:
    """Return how many rows of one weight say as much as rows of these shares, which sum to 1 (Kish 1965)."""
    return 1.0 / float(shares @ shares)


def share_once(copies: FloatArray) -> float:
    """Return the share of rows that no other one repeats, by how many rows each distinct one is, (k,)."""
    return float(np.count_nonzero(copies == 1) / copies.sum())


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
