"""Explicit maps of the additive kernels, as scikit-learn transformers."""

from slabsvm.kernels.features import Chi2Map, HellingerMap, IntersectionMap

__all__ = ["Chi2Map", "HellingerMap", "IntersectionMap"]
