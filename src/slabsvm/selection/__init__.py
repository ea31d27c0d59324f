"""Choosing a detector and its parameters with positives alone: search, criteria, synthetic outliers, journal."""

from slabsvm.detectors.answers import Answer, answer
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
