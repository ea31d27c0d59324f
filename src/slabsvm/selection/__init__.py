"""Choosing a detector and its parameters with positives alone: search, criteria, synthetic outliers, journal."""

from typing import Any

from slabsvm.detectors.answers import Answer, answer
from slabsvm.runtime.caller import warn_of_name
from slabsvm.selection.criteria import (
    MAKERS,
    Criterion,
    GridEdgeWarning,
    Measured,
    NothingToldApartWarning,
    RecallMissedWarning,
    SyntheticOutliers,
    TightestAtRecall,
)
from slabsvm.selection.runs import Journal, Record

__all__ = [
    "MAKERS",
    "Answer",
    "Criterion",
    "GridEdgeWarning",
    "Journal",
    "Measured",
    "NothingToldApartWarning",
    "RecallMissedWarning",
    "Record",
    "SyntheticOutliers",
    "TightestAtRecall",
    "answer",
]


def __getattr__(name: str) -> Any:
    if name != "Strangers":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn_of_name("slabsvm.selection.Strangers", "SyntheticOutliers")
    return SyntheticOutliers
