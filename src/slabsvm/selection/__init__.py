"""Choosing a detector and its parameters with positives alone: the search, its criteria, what it draws and keeps."""

from slabsvm.detectors.answers import Answer, answer
from slabsvm.selection.criteria import TightestAtRecall
from slabsvm.selection.criterion import Criterion, Measured
from slabsvm.selection.journal import Journal, Record
from slabsvm.selection.synthetic_outliers import MAKERS, Strangers

__all__ = ["MAKERS", "Answer", "Criterion", "Journal", "Measured", "Record", "Strangers", "TightestAtRecall", "answer"]
