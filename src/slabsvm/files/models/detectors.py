"""How the detectors are kept: by the fields of their fitted models, and by the function that a kernel's decide by.

The function is sums over samples, or what an explicit or an additive kernel makes of them: a weight vector, or a table
for each feature, from which the samples cannot be put together again. Tables are read by compiled code that believes
them, so that whatever it takes for a place is checked here.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from inspect import get_annotations
from typing import Annotated, Any, get_type_hints

import numpy as np

import slabsvm
from slabsvm.detectors.base import Detector
from slabsvm.detectors.kernel_pca import Subspace
from slabsvm.detectors.support_vectors import SupportVectorDetector
from slabsvm.ensemble.combination import Combination, CombinedModel, Member
from slabsvm.ensemble.known import Trees
from slabsvm.files.models.conditions import broken
from slabsvm.files.models.estimators import Entry, Values
from slabsvm.files.models.kinds import KINDS, Either, Kind, OneOf, Parts, made, record
from slabsvm.fitted.explanation import Usual
from slabsvm.fitted.model import KernelModel
from slabsvm.fitted.planes import SlabPlanes, TwoSided
from slabsvm.kernels.additive import Chi2, Intersection
from slabsvm.kernels.base import Kernel
from slabsvm.kernels.expansion import Expansion
from slabsvm.kernels.landmarks import Landmarks
from slabsvm.kernels.named import NAMED
from slabsvm.kernels.tables import Chi2Table, IntersectionTable, WeightVector
from slabsvm.runtime.arrays import FloatArray, IntArray
from slabsvm.runtime.fields import FOR_TRAINING, LATER, Array, Choice, FittedEstimator, Many, Number, Places, Rows

# Public classes whose import needs an extra.
NEED_EXTRAS = {"detectors.pyod"}
ANY = Annotated[float, Number(finite=False)]
FLOATS, COUNTS = Annotated[FloatArray, Array("d")], Annotated[IntArray, Array("d", dtype=("i8",))]

_KERNELS = {name: record(kernel) for name, kernel in NAMED.items()}


def _name_of(kernel: Kernel) -> str:
    names = [name for name, known in NAMED.items() if known is type(kernel)]
    return names[0] if names else f"a kernel of the class {type(kernel).__name__}"


KINDS[Kernel] = Either(_KERNELS, _name_of)
EXPLICIT = Either({name: kind for name, kind in _KERNELS.items() if NAMED[name].explicit}, _name_of)


def _of_chi2(table: Chi2Table, part: str) -> Any:
    """Return a part of a table; files have room for polynomials, which stood for long sums in earlier versions."""
    none = np.zeros_like(table.counts)
    polynomials = {"lows": none, "n_pieces": none, "shift": 0, "pieces": np.zeros((0, 8)), "error": 0.0}
    return polynomials[part] if part in polynomials else getattr(table, part)


def _chi2(counts: IntArray, scales: FloatArray, knots: FloatArray, weights: FloatArray, **_: Any) -> Chi2Table:
    return Chi2Table(counts, scales, knots, weights)


def _sums(shape: str) -> dict[str, Kind]:
    """Return the kinds of sums over samples, with coefficients of this shape."""
    coefficients = Annotated[FloatArray, Array(shape)]
    columns = Annotated[IntArray, Places("samples", below="d")]
    return {
        "samples": made(Expansion, kernel=Kernel, samples=Annotated[Any, Rows("samples")], coefficients=coefficients),
        "columns": made(partial(Expansion, None), samples=columns, coefficients=coefficients),
    }


def _how(function: Any) -> str:
    if isinstance(function, Expansion):
        return "columns" if function.kernel is None else "samples"
    how: dict[type, str] = {WeightVector: "weights", IntersectionTable: "knots", Chi2Table: "pieces"}
    return how[type(function)]


# Several sums, of which none can do without the samples.
SUMS = Either(_sums("samples sums"), _how)
# What a table of chi2 had besides, in earlier versions.
POLYNOMIALS = made(
    dict,
    lows=COUNTS,
    n_pieces=COUNTS,
    shift=Annotated[int, Number(most=62)],
    pieces=Annotated[FloatArray, Array("pieces width")],
    error=float,
)
# One sum, by what the kernel makes of it.
SUM = Either(
    {
        **_sums("samples"),
        "weights": made(WeightVector, kernel=Annotated[Kernel, EXPLICIT], weights=FLOATS),
        "knots": record(IntersectionTable),
        "pieces": Parts(_chi2, _of_chi2, record(Chi2Table).parts | POLYNOMIALS.parts),
    },
    _how,
)
# Of which kernel a table is.
KERNELS_OF_TABLES: dict[type, type[Kernel]] = {IntersectionTable: Intersection, Chi2Table: Chi2}


def _of_kernel(model: type[KernelModel], sums: Kind, **others: Kind) -> Parts:
    """Return the kind of a kernel's model: its fields, of which the kernel and the expansion are one: the function."""
    fields = record(model, without=("kernel", "expansion", *others), **others)

    def take(value: Any, name: str) -> Any:
        return value.expansion if name == "function" else fields.take(value, name)

    def make(function: Any, **found: Any) -> Any:
        table = KERNELS_OF_TABLES.get(type(function))
        return fields.make(kernel=table() if table else function.kernel, expansion=function, **found)

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


def _averaged(scaler: Any, members: list[Any], **parts: Any) -> CombinedModel:
    """Return the mean of slabs' decisions that AutoSlabSVM was in version 0.1."""
    alike = [Member(member, 0, None, 1.0 / len(members), None) for member in members]
    combination = Combination([scaler], alike)
    if text := broken(combination):
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
    made(_averaged, **_EARLIER),
    lambda one: not isinstance(one, dict) or "scaler" not in one,
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


def _give_linear(model: Any, parts: Values) -> None:
    model.planes_ = SlabPlanes(parts["rho_lower"], parts["rho_upper"], parts.pop("two_sided"))
    if parts["map"] is not None:
        model.gamma_ = parts["map"].gamma
    if model.planes_.scores_by_mass:
        raise ValueError("it has a score of local kernels, which it has none of")
    length = model.n_features_in_ if parts["map"] is None else parts["map"].n_features
    if parts["coef"].shape != (1, length):
        raise ValueError(f"it has no weight for each of {length:,} features")


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
    # What it was made by is not needed, and may be of any class.
    left_out=("classifier",),
)
LINEAR = Entry(
    "slabsvm.LinearOneClassSlabSVM",
    {
        "n_samples_fit": Annotated[int, Number(size="rows")],
        "warning": str,
        "map": Landmarks | None,
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
