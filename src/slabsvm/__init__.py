"""One-class slab support vector machines: learn from positive examples alone, with a certificate on every fit."""

from slabsvm.svm import OneClassSlabSVM, SlabCollapseWarning

__all__ = ["OneClassSlabSVM", "SlabCollapseWarning", "__version__"]

__version__ = "0.1.0.dev0"
