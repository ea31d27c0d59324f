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
from slabsvm.files.models.archive import At
from slabsvm.files.models.estimators import Entry, Values
from slabsvm.files.models.kinds import KINDS, Either, Kind, Made, Parts, Record, doubt
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

_KERNELS = {name: Record(kernel) for name, kernel in NAMED.items()}
_NAMES = {kernel: name for name, kernel in NAMED.items()}


def _name_of(kernel: Kernel) -> str:
    return _NAMES.get(type(kernel), f"a kernel of the class {type(kernel).__name__}")


KINDS[Kernel] = Either(_KERNELS, _name_of)
EXPLICIT = Either({name: kind for name, kind in _KERNELS.items() if NAMED[name].explicit}, _name_of)


def refuse_unlike(kernel: Kernel, samples: Any) -> None:
    """Raise ValueError where a kernel was made for rows of another layout."""
    if sp.issparse(samples) and (getattr(kernel, "centre", None) is not None or getattr(kernel, "differences", False)):
        raise ValueError("a kernel that has a centre, or sums differences, takes dense samples")


def _over_samples(kernel: Kernel, samples: Any, coefficients: FloatArray) -> Function:
    refuse_unlike(kernel, samples)
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


def _of_fractions(function: Function, part: str) -> Any:
    table = function[1].table
    none = np.zeros_like(table.counts)
    polynomials = {"lows": none, "n_pieces": none, "shift": 0, "pieces": np.zeros((0, PIECE_WIDTH)), "error": 0.0}
    return polynomials[part] if part in polynomials else getattr(table, part)


def _how(function: Function) -> str:
    kernel, made = function
    if isinstance(made, Expansion):
        return "columns" if kernel is None else "samples"
    how: dict[type, str] = {WeightVector: "weights", IntersectionTable: "knots", Chi2Table: "pieces"}
    return how[type(made)]


def _of_sums(function: Function, part: str) -> Any:
    return getattr(function[1], part)


def _sums(shape: str) -> dict[str, Kind]:
    """Return the kinds of sums over samples, with coefficients of this shape."""
    coefficients = Annotated[FloatArray, Array(shape)]
    columns = Annotated[IntArray, Places("samples", below="d")]
    return {
        "samples": Made(
            *(_over_samples, _of_sums),
            kernel=Kernel,
            samples=Annotated[Any, Rows("samples")],
            coefficients=coefficients,
        ),
        "columns": Made(
            *(lambda **sums: (None, Expansion(None, **sums)), _of_sums), samples=columns, coefficients=coefficients
        ),
    }


_FLOATS, _COUNTS = Annotated[FloatArray, Array("d")], Annotated[IntArray, Array("d", dtype=("i8",))]
_KNOTS = Annotated[FloatArray, Array("knots")]
# Several sums, of which none can do without the samples.
SUMS = Either(_sums("samples sums"), _how)
# One sum, by what the kernel makes of it.
SUM = Either(
    {
        **_sums("samples"),
        "weights": Made(
            lambda kernel, weights: (kernel, WeightVector(kernel.prepare, weights)),
            lambda function, part: function[0] if part == "kernel" else function[1].weights,
            kernel=Annotated[Kernel, EXPLICIT],
            weights=_FLOATS,
        ),
        "knots": Made(
            _by_lines,
            lambda function, part: function[1].knots[("counts", "values", "weights").index(part)],
            counts=_COUNTS,
            values=_KNOTS,
            weights=_KNOTS,
        ),
        "pieces": Made(
            _by_fractions,
            _of_fractions,
            counts=_COUNTS,
            scales=_FLOATS,
            knots=_KNOTS,
            weights=_KNOTS,
            lows=_COUNTS,
            n_pieces=_COUNTS,
            shift=Annotated[int, Number(most=62)],
            pieces=Annotated[FloatArray, Array("pieces width")],
            error=float,
        ),
    },
    _how,
)


class KernelRecord(Record):
    """A kernel's model by its fields, of which the kernel and the expansion are one part: the function."""

    def __init__(self, made: type[KernelModel], sums: Kind, **others: Kind) -> None:
        super().__init__(made, without=("kernel", "expansion", *others))
        self.own += others
        self.parts = {"function": sums, **self.parts, **others}

    def taken(self, value: KernelModel, at: At) -> dict[str, Any]:
        """Return the fields, and the function."""
        return {**super().taken(value, at), "function": (value.kernel, value.expansion)}

    def made_of(self, parts: dict[str, Any]) -> Any:
        """Return the model."""
        kernel, expansion = parts.pop("function")
        return super().made_of({**parts, "kernel": kernel, "expansion": expansion})


KINDS[Subspace] = KernelRecord(Subspace, SUMS)


def _boundary_of(detector: type[SupportVectorDetector]) -> Kind:
    """Return how a detector's boundary is kept: by the attributes that its class says of a fit, and by its offset."""
    known = get_type_hints(detector, include_extras=True)
    own = {name[:-1]: known[name] for name in get_annotations(detector) if name.endswith("_")}
    if own.pop("planes", None) is not None:
        own["two_sided"] = TwoSided | None
    return Made(_as_attributes, _of_attributes, **own, offset=float)


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


@doubt.register
def _(model: SupportVectorModel) -> str:
    expansion, planes = model.expansion, model.boundary.get("planes_")
    by_mass = isinstance(expansion, Expansion) and model.kernel is not None and model.kernel.local
    if planes is not None and planes.scores_by_mass and not by_mass:
        return "its score is that of a local kernel, and its kernel is another"
    if isinstance(expansion, Expansion) and model.support.samples.max(initial=0) >= len(expansion.coefficients):
        return "a support vector is not among its samples"
    return ""


@doubt.register
def _(model: Subspace) -> str:
    if len(model.sums) + 1 != model.expansion.coefficients.shape[1]:
        return "it has as many sums as components and one more, of the mean"
    return "the length of new samples is unknown" if model.kernel is None and model.length is None else ""


@doubt.register
def _(density: Density) -> str:
    refuse_unlike(density.kernel, density.samples)
    return ""


@doubt.register
def _(surprise: Surprise) -> str:
    scores, rows = surprise.shares.scores, surprise.shares.rows
    in_order = (
        len(rows) == len(scores) + 1 and len(scores) and (np.diff(scores) >= 0).all() and (np.diff(rows) >= 0).all()
    )
    return "" if in_order else "its scores and numbers of rows are not in order"


@doubt.register
def _(model: DependenceModel) -> str:
    if (model.regressions.scale <= 0).any():
        return "a feature's deviation is not positive"
    n_targets = len(model.regressions.targets)
    return (
        "" if len(model.surprises) == n_targets else f"it has {len(model.surprises)} surprises of {n_targets} targets"
    )


@doubt.register
def _(trees: Trees) -> str:
    numbers = np.arange(len(trees.left))
    inner = (trees.left > numbers) & (trees.right > numbers)
    # A way down the numbers of which do not grow might have no end.
    fine = (inner | ((trees.left == numbers) & (trees.right == numbers))).all()
    return "" if fine else "a node leads to one before it"


@doubt.register
def _(combined: Combination) -> str:
    for member in combined.members:
        if member.view >= len(combined.views):
            return "a member takes a view that there is not"
        if not isinstance(getattr(getattr(member.detector, "model_", None), "kernel", RBF), RBF | type):
            return "its members have the RBF kernel"
        if member.columns is not None and len(member.columns) != member.detector.n_features_in_:
            return "a member takes another number of features"
    return ""


class Earlier(Kind):
    """A value that files of earlier schemas hold in other parts: `before` is the kind of one with a part of a name."""

    def __init__(self, now: Parts, **before: Kind) -> None:
        self.now, self.before = now, before

    def write(self, value: Any, at: At) -> Any:
        return self.now.write(value, at)

    def read(self, node: Any, at: At) -> Any:
        found = [kind for part, kind in self.before.items() if isinstance(node, dict) and part in node]
        return (found[0] if found else self.now).read(node, at)


def _averaged(scaler: Any, members: list[Any], **parts: Any) -> CombinedModel:
    """Return the mean of slabs' decisions that AutoSlabSVM was in version 0.1."""
    alike = [Member(member, 0, None, 1.0 / len(members), None) for member in members]
    combination = Combination([scaler], alike)
    if text := doubt(combination):
        raise ValueError(text)
    return CombinedModel(combination=combination, recall_error=None, one_point=False, **parts)


_COMBINED = get_type_hints(CombinedModel, include_extras=True)
KINDS[CombinedModel] = Earlier(
    Record(CombinedModel),
    scaler=Made(
        *(_averaged, getattr),
        scaler=Annotated[Any, FittedEstimator(("sklearn.preprocessing.StandardScaler",))] | None,
        members=Annotated[list[Annotated[Any, FittedEstimator(("slabsvm.OneClassSlabSVM",))]], Many(least=1)],
        **{name: _COMBINED[name] for name in _COMBINED if name not in ("combination", "recall_error", "one_point")},
    ),
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
        model = Annotated[model, KernelRecord(model, SUM, boundary=_boundary_of(detector))]
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


def _landmarks(gamma: float, rows: Any, kernel: RBF, basis: Any) -> Landmarks:
    refuse_unlike(kernel, rows)
    return Landmarks(gamma, rows, kernel, basis)


_MAP = Made(
    *(_landmarks, getattr),
    gamma=Annotated[float, Number(above=0.0)],
    rows=Annotated[Any, Rows("landmarks")],
    kernel=RBF,
    basis=Annotated[FloatArray, Array("landmarks images")],
)


def _give_linear(model: Any, parts: Values) -> None:
    model.planes_ = SlabPlanes(parts["rho_lower"], parts["rho_upper"], parts.pop("two_sided"))
    if parts["map"] is not None:
        model.gamma_ = parts["map"].gamma


def _doubt_linear(model: Any) -> str:
    if "coef_" not in vars(model):
        return ""
    if model.planes_.scores_by_mass:
        return "has a score of local kernels, which it has none of"
    length = model.n_features_in_ if model.map_ is None else model.map_.n_features
    return "" if model.coef_.shape == (1, length) else f"has no weight for each of {length:,} features"


def _doubt_classifier(model: Any) -> str:
    both = [getattr(model, name, None) for name in ("trees_", "classifier_")]
    return "" if "reference_" not in vars(model) or both.count(None) == 1 else "has trees and a classifier, or neither"


CLASSIFIER = Entry(
    "slabsvm.ensemble.known.OutlierClassifier",
    {
        "trees": Trees | None,
        "classifier": Annotated[Any, FittedEstimator()] | None,
        "typical": _FLOATS,
        "usual": _FLOATS,
        "reference": float,
        "offset": float,
    },
    doubt=_doubt_classifier,
    # What it was made by is not needed, and may be of any class.
    left_out=("classifier",),
)
ANY = Annotated[float, Number(finite=False)]
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
    doubt=_doubt_linear,
)
