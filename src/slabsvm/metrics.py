"""Metrics of open-set recognition, where "unknown" is an answer."""

from slabsvm.openset.metrics import OSCR, known_unknown_auroc, open_set_f1, openness, oscr_curve

__all__ = ["OSCR", "known_unknown_auroc", "open_set_f1", "openness", "oscr_curve"]
