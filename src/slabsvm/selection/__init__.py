"""Choosing a detector and its parameters with positives alone: search, criteria, synthetic outliers, journal."""

from slabsvm.detectors.answers import Answer, answer
from slabsvm.selection.criteria import Criterion, Measured, TightestAtRecall
from slabsvm.selection.journal import Journal, Record
from slabsvm.selection.synthetic_outliers import MAKERS, SyntheticOutliers

# The public name that goes with `Criterion.strangers`.
Strangers = SyntheticOutliers

__all__ = [
    "MAKERS",
    "Answer",
    "Criterion",
    "Journal",
    "Measured",
    "Record",
    "Strangers",
    "SyntheticOutliers",
    "TightestAtRecall",
    "answer",
]
