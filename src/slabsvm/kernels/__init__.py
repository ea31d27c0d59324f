"""Positive definite kernels: how each is computed in blocks, how a sum of kernel functions predicts, and bandwidths.

A new kernel is one class in a file of this folder and one line in `slabsvm.kernels.named.NAMED`. Nothing here knows of
programs, solvers or detectors.
"""

from slabsvm.kernels.base import Kernel
from slabsvm.kernels.named import NAMED

__all__ = ["NAMED", "Kernel"]
