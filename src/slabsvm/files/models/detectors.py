"""How the detectors are kept: by the fields of their fitted models, and by the function that a kernel's decide by.

The function is sums over samples, or what an explicit or an additive kernel makes of them: a weight vector, or a table
for each feature, from which the samples cannot be put together again. Tables are read by compiled code that believes
them, so that whatever it takes for a place is checked here.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import get_annotations
from typing import Annotated, Any, get_type_hints

import numpy as np
import scipy.sparse as sp

import slabsvm
from slabsvm.detectors.base import Detector
from slabsvm.detectors.kernel_density import Density
from slabsvm.detectors.kernel_pca import Subspace
from slabsvm.detectors.support_vectors import SupportVectorDetector
from slabsvm.ensemble.combination import Combination, CombinedModel, Member
from slabsvm.ensemble.dependence import DependenceModel
from slabsvm.ensemble.known import Trees
from slabsvm.ensemble.surprise import Surprise
from slabsvm.files.models.estimators import Entry, Values
from slabsvm.files.models.kinds import HOLDS, KINDS, Either, Kind, OneOf, Parts, ascending, broken, made, record
from slabsvm.fitted.explanation import Usual
from slabsvm.fitted.model import KernelModel, SupportVectorModel
from slabsvm.fitted.planes import SlabPlanes, TwoSided
from slabsvm.kernels.additive import Chi2, Intersection
from slabsvm.kernels.base import Kernel
from slabsvm.kernels.expansion import Expansion
from slabsvm.kernels.landmarks import Landmarks
from slabsvm.kernels.named import NAMED
from slabsvm.kernels.rbf import RBF
from slabsvm.kernels.tables import Chi2Table, IntersectionTable, WeightVector
from slabsvm.runtime.arrays import FloatArray, IntArray
from slabsvm.runtime.fields import FOR_TRAINING, LATER, Array, Choice, FittedEstimator, Many, Number, Places, Rows

# A sum of a kernel's functions, with the kernel: None for a precomputed one.
Function = tuple[Kernel | None, Any]
# Public classes whose import needs an extra.
NEED_EXTRAS = {"detectors.pyod"}
# The numbers of a polynomial in files that have some.
PIECE_WIDTH = 8
OF_DENSE = "a kernel that has a centre, or sums differences, takes dense samples"
ANY = Annotated[float, Number(finite=False)]
FLOATS, COUNTS = Annotated[FloatArray, Array("d")], Annotated[IntArray, Array("d", dtype=("i8",))]
KNOTS = Annotated[FloatArray, Array("knots")]

_KERNELS = {name: record(kernel) for name, kernel in NAMED.items()}


def _name_of(kernel: Kernel) -> str:
    names = [name for name, known in NAMED.items() if known is type(kernel)]
    return names[0] if names else f"a kernel of the class {type(kernel).__name__}"


KINDS[Kernel] = Either(_KERNELS, _name_of)
EXPLICIT = Either({name: kind for name, kind in _KERNELS.items() if NAMED[name].explicit}, _name_of)


def _suits(kernel: Kernel, samples: Any) -> bool:
    """Return whether a kernel may have been made for rows of this layout."""
    of_dense = getattr(kernel, "centre", None) is not None or getattr(kernel, "differences", False)
    return not (of_dense and sp.issparse(samples))


def _over_samples(kernel: Kernel, samples: Any, coefficients: FloatArray) -> Function:
    if not _suits(kernel, samples):
        raise ValueError(OF_DENSE)
    return kernel, Expansion(kernel, samples, coefficients)


def _by_lines(counts: IntArray, values: FloatArray, weights: FloatArray) -> Function:
    if counts.min(initial=0) < 0 or counts.sum() != len(values):
        raise ValueError("the counts of knots do not add up to the knots")
    first = np.zeros(len(values), dtype=bool)
    first[(np.cumsum(counts) - counts)[counts > 0]] = True
    if len(values) and not (values.min() > 0 and (first[1:] | (np.diff(values) > 0)).all()):
        raise ValueError("each feature's knots must be positive and in ascending order")
    return Intersection(), IntersectionTable((counts, values, weights))


def _by_fractions(
    *, counts: IntArray, scales: FloatArray, knots: FloatArray, weights: FloatArray, **polynomials: Any
) -> Function:
    """Return the sum over knots; the polynomials that stood for long sums in earlier files are not needed."""
    from slabsvm.compiled import lookup

    n_pieces, lows, pieces = (polynomials[name] for name in ("n_pieces", "lows", "pieces"))
    sizes_right = counts.sum() == len(knots) and n_pieces.sum() == len(pieces)
    if min(counts.min(), n_pieces.min(), lows.min()) < 0 or (counts % lookup.TOGETHER).any() or not sizes_right:
        raise ValueError("the counts of knots and of pieces do not add up to these")
    if pieces.shape[1] != PIECE_WIDTH or (knots <= 0).any() or (scales <= 0).any():
        raise ValueError("the pieces have another length, or a knot or a scale is not positive")
    return Chi2(), Chi2Table(lookup.Fractions(np.cumsum(counts) - counts, counts, scales, knots, weights))


def _how(function: Function) -> str:
    kernel, found = function
    if isinstance(found, Expansion):
        return "columns" if kernel is None else "samples"
    how: dict[type, str] = {WeightVector: "weights", IntersectionTable: "knots", Chi2Table: "pieces"}
    return how[type(found)]


def _of_function(function: Function, part: str) -> Any:
    """Return a part of a function: its kernel, or what its sums or its table have."""
    kernel, found = function
    if part == "kernel":
        return kernel
    if isinstance(found, IntersectionTable):
        return found.knots[("counts", "values", "weights").index(part)]
    if isinstance(found, Chi2Table):
        none = np.zeros_like(found.table.counts)
        polynomials = {"lows": none, "n_pieces": none, "shift": 0, "pieces": np.zeros((0, PIECE_WIDTH)), "error": 0.0}
        return polynomials[part] if part in polynomials else getattr(found.table, part)
    return getattr(found, part)


def _sums(shape: str) -> dict[str, Kind]:
    """Return the kinds of sums over samples, with coefficients of this shape."""
    coefficients = Annotated[FloatArray, Array(shape)]
    of_rows = {"kernel": Kernel, "samples": Annotated[Any, Rows("samples")], "coefficients": coefficients}
    of_columns = {"samples": Annotated[IntArray, Places("samples", below="d")], "coefficients": coefficients}
    return {
        "samples": made(_over_samples, _of_function, **of_rows),
        "columns": made(lambda **sums: (None, Expansion(None, **sums)), _of_function, **of_columns),
    }


WEIGHTS = {"kernel": Annotated[Kernel, EXPLICIT], "weights": FLOATS}
LINES = {"counts": COUNTS, "values": KNOTS, "weights": KNOTS}
PIECES: dict[str, Any] = {
    "counts": COUNTS,
    "scales": FLOATS,
    "knots": KNOTS,
    "weights": KNOTS,
    "lows": COUNTS,
    "n_pieces": COUNTS,
    "shift": Annotated[int, Number(most=62)],
    "pieces": Annotated[FloatArray, Array("pieces width")],
    "error": float,
}
# Several sums, of which none can do without the samples.
SUMS = Either(_sums("samples sums"), _how)
# One sum, by what the kernel makes of it.
SUM = Either(
    {
        **_sums("samples"),
        "weights": made(
            lambda kernel, weights: (kernel, WeightVector(kernel.prepare, weights)), _of_function, **WEIGHTS
        ),
        "knots": made(_by_lines, _of_function, **LINES),
        "pieces": made(_by_fractions, _of_function, **PIECES),
    },
    _how,
)


def _of_kernel(model: type[KernelModel], sums: Kind, **others: Kind) -> Parts:
    """Return the kind of a kernel's model: its fields, of which the kernel and the expansion are one: the function."""
    fields = record(model, without=("kernel", "expansion", *others), **others)

    def take(value: Any, name: str) -> Any:
        return (value.kernel, value.expansion) if name == "function" else fields.take(value, name)

    def make(function: Function, **found: Any) -> Any:
        return fields.make(kernel=function[0], expansion=function[1], **found)

    return Parts(make, take, {"function": sums, **fields.parts}, fields.later)


KINDS[Subspace] = _of_kernel(Subspace, SUMS)


def _boundary_of(detector: type[SupportVectorDetector]) -> Kind:
    """Return how a detector's boundary is kept: by the attributes that its class says of a fit, and by its offset."""
    known = get_type_hints(detector, include_extras=True)
    own = {name[:-1]: known[name] for name in get_annotations(detector) if name.endswith("_")}
    if own.pop("planes", None) is not None:
        own["two_sided"] = TwoSided | None
    return made(_as_attributes, _of_attributes, **own, offset=float)


def _of_attributes(found: dict[str, Any], name: str) -> Any:
    return found["planes_"].two_sided if name == "two_sided" else found[f"{name}_"]


def _as_attributes(**found: Any) -> dict[str, Any]:
    """Return a fit's attributes by their names; planes and their score are one."""
    attributes = {f"{name}_": value for name, value in found.items() if name != "two_sided"}
    if "two_sided" in found:
        planes = SlabPlanes(found["rho_lower"], found["rho_upper"], found["two_sided"])
        if planes.offset != found["offset"]:
            raise ValueError("its offset is not that of its planes")
        attributes["planes_"] = planes
    return attributes


def _may_score_by_mass(model: SupportVectorModel) -> bool:
    planes, kernel = model.boundary.get("planes_"), model.kernel
    by_mass = isinstance(model.expansion, Expansion) and kernel is not None and kernel.local
    return by_mass or planes is None or not planes.scores_by_mass


def _has_its_support(model: SupportVectorModel) -> bool:
    sums = model.expansion
    return not isinstance(sums, Expansion) or model.support.samples.max(initial=0) < len(sums.coefficients)


def _no_way_back(trees: Trees) -> bool:
    """Return whether numbers grow on each way down a tree: another way might have no end."""
    numbers = np.arange(len(trees.left))
    inner = (trees.left > numbers) & (trees.right > numbers)
    return bool((inner | ((trees.left == numbers) & (trees.right == numbers))).all())


def _in_order(surprise: Surprise) -> bool:
    scores, rows = surprise.shares.scores, surprise.shares.rows
    return len(rows) == len(scores) + 1 > 1 and ascending(scores) and ascending(rows)


def _is_rbf(member: Member) -> bool:
    kernel = getattr(getattr(member.detector, "model_", None), "kernel", None)
    return kernel is None or isinstance(kernel, RBF)


HOLDS |= {
    SupportVectorModel: (
        (_may_score_by_mass, "its score is that of a local kernel, and its kernel is another"),
        (_has_its_support, "a support vector is not among its samples"),
    ),
    Subspace: (
        (
            lambda model: len(model.sums) + 1 == model.expansion.coefficients.shape[1],
            "it has as many sums as components and one more, of the mean",
        ),
        (
            lambda model: model.kernel is not None or model.length is not None,
            "the length of new samples is unknown",
        ),
    ),
    Density: ((lambda density: _suits(density.kernel, density.samples), OF_DENSE),),
    Landmarks: ((lambda map_: _suits(map_.kernel, map_.rows), OF_DENSE),),
    Surprise: ((_in_order, "its scores and numbers of rows are not in order"),),
    DependenceModel: (
        (lambda model: (model.regressions.scale > 0).all(), "a feature's deviation is not positive"),
        (
            lambda model: len(model.surprises) == len(model.regressions.targets),
            "it has another number of surprises than of targets",
        ),
    ),
    Trees: ((_no_way_back, "a node leads to one before it"),),
    Combination: (
        (
            lambda all_: all(member.view < len(all_.views) for member in all_.members),
            "a member takes a view that there is not",
        ),
        (lambda all_: all(map(_is_rbf, all_.members)), "its members have the RBF kernel"),
        (
            lambda all_: all(
                member.columns is None or len(member.columns) == member.detector.n_features_in_
                for member in all_.members
            ),
            "a member takes another number of features",
        ),
    ),
}


def _averaged(scaler: Any, members: list[Any], **parts: Any) -> CombinedModel:
    """Return the mean of slabs' decisions that AutoSlabSVM was in version 0.1."""
    alike = [Member(member, 0, None, 1.0 / len(members), None) for member in members]
    combination = Combination([scaler], alike)
    if text := broken(combination, HOLDS[Combination]):
        raise ValueError(text)
    return CombinedModel(combination=combination, recall_error=None, one_point=False, **parts)


_COMBINED = get_type_hints(CombinedModel, include_extras=True)
_EARLIER = {
    "scaler": Annotated[Any, FittedEstimator(("sklearn.preprocessing.StandardScaler",))] | None,
    "members": Annotated[list[Annotated[Any, FittedEstimator(("slabsvm.OneClassSlabSVM",))]], Many(least=1)],
    **{name: _COMBINED[name] for name in _COMBINED if name not in ("combination", "recall_error", "one_point")},
}
# Files of schema 1 have a scaler in the place of views. None such is written.
KINDS[CombinedModel] = OneOf(
    record(CombinedModel),
    made(_averaged, getattr, **_EARLIER),
    lambda _: True,
    lambda node: not isinstance(node, dict) or "scaler" not in node,
)


def detectors() -> Iterator[Entry]:
    """Return how each public `Detector` is kept: by the fields of its model."""
    for name, home in slabsvm.HOMES.items():
        found = None if home in NEED_EXTRAS else getattr(slabsvm, name)
        if isinstance(found, type) and issubclass(found, Detector):
            yield _entry_of(f"slabsvm.{name}", found)


def _entry_of(name: str, detector: type[Detector]) -> Entry:
    model = get_type_hints(detector, include_extras=True)["model_"]
    further: dict[str, Any] = {}
    if issubclass(detector, SupportVectorDetector):
        model = Annotated[model, _of_kernel(model, SUM, boundary=_boundary_of(detector))]
        further = {"expected_recall": float}
    return Entry(
        name,
        {
            "n_samples_fit": Annotated[int, Number(size="rows")],
            "warning": str,
            "fit": model,
            "learned": Annotated[Any | None, Array("learned", dtype=("u8",)), FOR_TRAINING, LATER],
            **further,
        },
        where={"fit": "model_"},
        # What is seen of the fit.
        give=lambda model, parts: model.__dict__.update(parts["fit"].attributes()),
        left_out=("progress",) if hasattr(detector, "progress") else (),
    )


_MAP = made(
    Landmarks,
    getattr,
    gamma=Annotated[float, Number(above=0.0)],
    rows=Annotated[Any, Rows("landmarks")],
    kernel=RBF,
    basis=Annotated[FloatArray, Array("landmarks images")],
)


def _give_linear(model: Any, parts: Values) -> None:
    model.planes_ = SlabPlanes(parts["rho_lower"], parts["rho_upper"], parts.pop("two_sided"))
    if parts["map"] is not None:
        model.gamma_ = parts["map"].gamma
    if model.planes_.scores_by_mass:
        raise ValueError("it has a score of local kernels, which it has none of")
    length = model.n_features_in_ if parts["map"] is None else parts["map"].n_features
    if parts["coef"].shape != (1, length):
        raise ValueError(f"it has no weight for each of {length:,} features")


def _give_classifier(_: Any, parts: Values) -> None:
    if (parts["trees"] is None) == (parts["classifier"] is None):
        raise ValueError("it has trees and a classifier, or neither")


CLASSIFIER = Entry(
    "slabsvm.ensemble.known.OutlierClassifier",
    {
        "trees": Trees | None,
        "classifier": Annotated[Any, FittedEstimator()] | None,
        "typical": FLOATS,
        "usual": FLOATS,
        "reference": float,
        "offset": float,
    },
    give=_give_classifier,
    # What it was made by is not needed, and may be of any class.
    left_out=("classifier",),
)
LINEAR = Entry(
    "slabsvm.LinearOneClassSlabSVM",
    {
        "n_samples_fit": Annotated[int, Number(size="rows")],
        "warning": str,
        "map": Annotated[Landmarks | None, _MAP],
        "coef": Annotated[FloatArray, Array("one images")],
        "rho_lower": float,
        "rho_upper": ANY,
        "offset": float,
        "two_sided": TwoSided | None,
        "duality_gap": ANY,
        "relative_gap": ANY,
        "dual_objective": float,
        "status": Annotated[str, Choice(("converged", "degenerate", "stalled"))],
        "n_passes": int,
        "usual": Usual | None,
    },
    where={"two_sided": lambda model: model.planes_.two_sided},
    give=_give_linear,
)
