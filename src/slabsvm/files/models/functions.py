"""How a kernel, and the function that it makes of training samples, are kept.

The function is sums over samples, or what an explicit or an additive kernel makes of them: a weight vector, or a table
for each feature, from which the samples cannot be put together again. Tables are read by compiled code that believes
them, so that whatever it takes for a place is checked here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from slabsvm.files.models.archive import At, exactly
from slabsvm.files.models.kinds import FLOATS, Array, Either, Flag, Kind, Maybe, Number, Places, Record, Rows, Whole
from slabsvm.kernels.additive import Chi2, Intersection
from slabsvm.kernels.base import Kernel
from slabsvm.kernels.expansion import Expansion
from slabsvm.kernels.linear import Linear
from slabsvm.kernels.named import NAMED
from slabsvm.kernels.rbf import RBF
from slabsvm.kernels.tables import Chi2Table, IntersectionTable, WeightVector
from slabsvm.runtime.arrays import FloatArray, IntArray

# A sum of a kernel's functions, with the kernel: None for a precomputed one.
Function = tuple[Kernel | None, Any]


@dataclass(frozen=True)
class Plain(Kind):
    """A kernel that its name says all of."""

    kernel: type[Kernel]

    def write(self, value: Any, at: At) -> Any:
        """Return an empty object."""
        if vars(value):
            at.refuse(f"is a {self.kernel.__name__} kernel with {', '.join(vars(value))}, of which no file holds any")
        return {}

    def read(self, node: Any, at: At) -> Any:
        """Return the kernel."""
        exactly(node, (), at)
        return self.kernel()


def _radial(gamma: float, centre: Any, differences: bool) -> RBF:
    return RBF(gamma, centre, differences=differences)


_CENTRE = Maybe(Array("d", dtype=FLOATS))
RADIAL = Record(_radial, {"gamma": Number(above=0.0), "centre": _CENTRE, "differences": Flag()})
_NAMES = {kernel: name for name, kernel in NAMED.items()}
_KERNELS = {
    **{name: Plain(kernel) for name, kernel in NAMED.items()},
    "rbf": RADIAL,
    "linear": Record(Linear, {"centre": _CENTRE}),
}


def _name_of(kernel: Kernel) -> str:
    return _NAMES.get(type(kernel), f"a kernel of the class {type(kernel).__name__}")


KERNEL = Either(_KERNELS, _name_of)
EXPLICIT = Either({name: kind for name, kind in _KERNELS.items() if NAMED[name].explicit}, _name_of)


def refuse_unlike(kernel: Kernel, samples: Any) -> None:
    """Raise ValueError where a kernel was made for rows of another layout."""
    if sp.issparse(samples) and (getattr(kernel, "centre", None) is not None or getattr(kernel, "differences", False)):
        raise ValueError("a kernel that has a centre, or sums differences, takes dense samples")


def _over_samples(kernel: Kernel, samples: Any, coefficients: FloatArray) -> Function:
    refuse_unlike(kernel, samples)
    return kernel, Expansion(kernel, samples, coefficients)


def _by_weights(kernel: Kernel, weights: FloatArray) -> Function:
    return kernel, WeightVector.of_weights(kernel.prepare, weights)


def _by_lines(counts: IntArray, values: FloatArray, weights: FloatArray) -> Function:
    if counts.min(initial=0) < 0 or counts.sum() != len(values):
        raise ValueError("the counts of knots do not add up to the knots")
    first = np.zeros(len(values), dtype=bool)
    first[(np.cumsum(counts) - counts)[counts > 0]] = True
    if len(values) and not (values.min() > 0 and (first[1:] | (np.diff(values) > 0)).all()):
        raise ValueError("each feature's knots must be positive and in ascending order")
    return Intersection(), IntersectionTable.of_knots(counts, values, weights)


def _by_pieces(*, counts: IntArray, lows: IntArray, n_pieces: IntArray, error: float, **arrays: Any) -> Function:
    from slabsvm.compiled import lookup

    sizes_right = counts.sum() == len(arrays["knots"]) and n_pieces.sum() == len(arrays["pieces"])
    if min(counts.min(), n_pieces.min(), lows.min()) < 0 or (counts % lookup.TOGETHER).any() or not sizes_right:
        raise ValueError("the counts of knots and of pieces do not add up to these")
    if arrays["pieces"].shape[1] != lookup.WIDTH or (arrays["knots"] <= 0).any() or (arrays["scales"] <= 0).any():
        raise ValueError("the pieces have another length, or a knot or a scale is not positive")
    table = lookup.Fractions(
        starts=np.cumsum(counts) - counts,
        counts=counts,
        piece_starts=np.cumsum(n_pieces) - n_pieces,
        lows=lows,
        n_pieces=n_pieces,
        **arrays,
    )
    return Chi2(), Chi2Table.of_table(table, error)


def _of_expansion(function: Function, part: str) -> Any:
    return getattr(function[1], part)


def _of_weights(function: Function, part: str) -> Any:
    return function[0] if part == "kernel" else function[1].weights


def _of_lines(function: Function, part: str) -> Any:
    return function[1].knots[("counts", "values", "weights").index(part)]


def _of_pieces(function: Function, part: str) -> Any:
    return function[1].error if part == "error" else getattr(function[1].table, part)


def _how(function: Function) -> str:
    kernel, made = function
    if isinstance(made, Expansion):
        return "columns" if kernel is None else "samples"
    how: dict[type, str] = {WeightVector: "weights", IntersectionTable: "knots", Chi2Table: "pieces"}
    return how[type(made)]


def _sums(*coefficients: str) -> dict[str, Record]:
    """Return the kinds of sums over samples, with coefficients of this shape."""
    return {
        "samples": Record(
            _over_samples,
            {"kernel": KERNEL, "samples": Rows("samples", "d"), "coefficients": Array(*coefficients)},
            take=_of_expansion,
        ),
        "columns": Record(
            lambda samples, coefficients: (None, Expansion(None, samples, coefficients)),
            {"samples": Places("samples", below="d"), "coefficients": Array(*coefficients)},
            take=_of_expansion,
        ),
    }


# Several sums, of which none can do without the samples.
SUMS = Either(_sums("samples", "sums"), _how)
# One sum, by what the kernel makes of it.
SUM = Either(
    {
        **_sums("samples"),
        "weights": Record(_by_weights, {"kernel": EXPLICIT, "weights": Array("d")}, take=_of_weights),
        "knots": Record(
            _by_lines,
            {"counts": Array("d", dtype=("i8",)), "values": Array("knots"), "weights": Array("knots")},
            take=_of_lines,
        ),
        "pieces": Record(
            _by_pieces,
            {
                "counts": Array("d", dtype=("i8",)),
                "scales": Array("d"),
                "knots": Array("knots"),
                "weights": Array("knots"),
                "lows": Array("d", dtype=("i8",)),
                "n_pieces": Array("d", dtype=("i8",)),
                "shift": Whole(most=62),
                "pieces": Array("pieces", "width"),
                "error": Number(),
            },
            take=_of_pieces,
        ),
    },
    _how,
)
