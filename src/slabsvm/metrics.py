"""Metrics of open-set recognition, where "unknown" is an answer."""

from slabsvm.openset.metrics import (
    OSCR,
    known_unknown_auroc,
    open_auc,
    open_set_confusion,
    open_set_f1,
    open_set_mcc,
    openness,
    oscr_curve,
)

__all__ = [
    "OSCR",
    "known_unknown_auroc",
    "open_auc",
    "open_set_confusion",
    "open_set_f1",
    "open_set_mcc",
    "openness",
    "oscr_curve",
]
