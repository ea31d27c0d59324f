"""Positive definite kernels: how each is computed in blocks, how a sum of kernel functions predicts, and bandwidths.

A new kernel is one class in a file of this folder; add it to `KERNELS`, where detectors find it. Nothing here
knows of programs, solvers or detectors.
"""

from slabsvm.kernels.base import Kernel
from slabsvm.kernels.named import RBF, Chi2, Hellinger, Intersection, Linear

KERNELS: tuple[type[Kernel], ...] = (Linear, RBF, Intersection, Hellinger, Chi2)
NAMED = {kernel.__name__.lower(): kernel for kernel in KERNELS}

__all__ = ["NAMED", "Kernel"]
