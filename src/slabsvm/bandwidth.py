"""Rules for the bandwidth of an RBF kernel: a first guess for gamma, from the data alone."""

from slabsvm.kernels.bandwidth import (
    mean_criterion,
    median_heuristic,
    modified_mean_criterion,
    neighbours,
    scale,
    scott,
    silverman,
)

__all__ = ["mean_criterion", "median_heuristic", "modified_mean_criterion", "neighbours", "scale", "scott", "silverman"]
