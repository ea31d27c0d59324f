"""Every kernel by the name that a detector takes for it."""

from slabsvm.kernels.additive import Chi2, Hellinger, Intersection
from slabsvm.kernels.base import Kernel
from slabsvm.kernels.linear import Linear
from slabsvm.kernels.rbf import RBF

NAMED: dict[str, type[Kernel]] = {
    "linear": Linear,
    "rbf": RBF,
    "intersection": Intersection,
    "hellinger": Hellinger,
    "chi2": Chi2,
}
