"""Metrics of open-set recognition, where "unknown" is an answer, and of detectors, where no outliers are given."""

from slabsvm.detectors.label_free import label_free_score
from slabsvm.openset.metrics import OSCR, known_unknown_auroc, open_set_f1, openness, oscr_curve

__all__ = ["OSCR", "known_unknown_auroc", "label_free_score", "open_set_f1", "openness", "oscr_curve"]
