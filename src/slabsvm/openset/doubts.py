"""What a classifier says of classes whose models accept rows far away, tell nothing apart, or have too few samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from slabsvm.openset.labels import listed
from slabsvm.runtime.caller import Warned

# What needs fewer samples, without a classifier and with one.
REMEDIES = "method='cross' and 'leave-one-out' calibrate on every sample, and calibration='margin' needs none."
REMEDY_BESIDE_CLASSIFIER = "method='cross' calibrates on every sample."


def too_few(models: Sequence[Any], classes: npt.NDArray[Any], alpha: float, remedy: str = REMEDIES) -> str:
    """Return a warning of the classes that have too few samples for a rate, or nothing."""
    few = [place for place, model in enumerate(models) if model.level(alpha) == 0]
    if not few:
        return ""
    rate = max(models[place].smallest_p_value_ for place in few)
    return (
        f"{_having(classes[few])} too few samples for alpha={alpha:g}. Beside classes that have enough, such a one "
        f"rejects samples below all of its calibration samples, a share of up to {rate:.2g} of its new samples; where "
        f"no class has enough, nothing is unknown. Give more samples, or a larger alpha; {remedy}"
    )


def too_few_together(n_classes: int, n_calibration: int, smallest_p_value: float, alpha: float) -> str:
    """Return the warning where a classifier's names have no p-value as small as alpha."""
    return (
        f"Nothing will be unknown: with {n_calibration} calibration samples of {n_classes} classes the smallest "
        f"p-value is {smallest_p_value:.3g}, and alpha is {alpha:g}. Give more samples, or a larger alpha; "
        f"{REMEDY_BESIDE_CLASSIFIER}"
    )


def far_accepted(accepts: list[bool], classes: npt.NDArray[Any]) -> str:
    """Return a warning of the classes that accept rows infinitely far away, or nothing."""
    if not any(accepts):
        return ""
    return (
        f"{_having(classes[accepts])} a model that accepts rows infinitely far away. Where its score grows or levels "
        "off with distance, use two_sided=True, SVDD or the RBF kernel; where its scores tie at the lowest, a smoother "
        "estimator (a smaller gamma) tells them apart."
    )


def without_direction(warned: Sequence[Sequence[str]], classes: npt.NDArray[Any]) -> str:
    """Return a warning of the classes of whose models fits found w = 0, given what these warned, or nothing."""
    found = [bool(texts) for texts in warned]
    if not any(found):
        return ""
    first = next(texts[0] for texts in warned if texts)
    return (
        f"{_having(classes[found])} a model whose fit found w = 0: by its scores rounding may decide which rows are "
        f"rejected, and whether rows infinitely far away are. The first fit's own warning: {first}"
    )


def out_of_reach(beyond: list[bool], classes: npt.NDArray[Any], alpha: float) -> str:
    """Return a warning of the classes whose models cannot tell their own samples from far rows, or nothing."""
    if not any(beyond):
        return ""
    return (
        f"{_having(classes[beyond])} more than alpha={alpha:g} of the calibration samples out of the kernel's reach: "
        "these score as if infinitely far away, and what is accepted beyond is decided by their kernel mass alone. Use "
        "a smaller gamma, or more samples."
    )


def of_fits(warned: Sequence[Sequence[Warned]], classes: npt.NDArray[Any]) -> list[Warned]:
    """Return one warning of each category that fits of classes' models gave, with the words of the first class."""
    warnings = []
    for category in dict.fromkeys(category for of_class in warned for _, category in of_class):
        texts = [" ".join(text for text, own in of_class if own is category) for of_class in warned]
        labels = classes[[bool(text) for text in texts]]
        first = next(text for text in texts if text)
        of_which = f" (the first, of {listed(labels[:1])})" if len(labels) > 1 else ""
        warnings.append((f"{_having(labels)} a model whose fit warned{of_which}: {first}", category))
    return warnings


def _having(labels: Any) -> str:
    """Return which classes, and how many, as the subject of a sentence."""
    return f"Class {listed(labels)} has" if len(labels) == 1 else f"{len(labels)} classes ({listed(labels)}) have"
