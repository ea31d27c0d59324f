"""How the detectors are kept: the parts of what each one's fit found, and the kernel and function that it decides by.

The function is sums over samples, or what an explicit or an additive kernel makes of them: a weight vector, or a table
for each feature, from which the samples cannot be put together again. Tables are read by compiled code that believes
them, so that whatever it takes for a place is checked here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from slabsvm.detectors.kernel_density import Density, DensityModel
from slabsvm.detectors.kernel_pca import Subspace
from slabsvm.ensemble.auto import CombinedModel
from slabsvm.ensemble.combination import Combination, Member
from slabsvm.ensemble.dependence import DependenceModel, Regressions
from slabsvm.ensemble.known import Trees
from slabsvm.ensemble.neighbours import Neighbourhood, NeighboursModel
from slabsvm.ensemble.surprise import Shares, Surprise
from slabsvm.files.models.archive import At, exactly
from slabsvm.files.models.estimators import Entry, Estimator, Values
from slabsvm.files.models.kinds import (
    FLOATS,
    Array,
    Earlier,
    Either,
    Flag,
    ForTraining,
    Kind,
    Later,
    Many,
    Maybe,
    Number,
    Places,
    Record,
    Rows,
    Text,
    Whole,
)
from slabsvm.fitted.explanation import Usual
from slabsvm.fitted.model import Support, SupportVectorModel
from slabsvm.fitted.planes import SlabPlanes, TwoSided
from slabsvm.kernels.additive import Chi2, Intersection
from slabsvm.kernels.base import Kernel
from slabsvm.kernels.expansion import Expansion
from slabsvm.kernels.landmarks import Landmarks
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


_CENTRE = Maybe(Array("d", dtype=FLOATS))
RADIAL = Record(RBF, {"gamma": Number(above=0.0), "centre": _CENTRE, "differences": Flag()})
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
        "weights": Record(
            lambda kernel, weights: (kernel, WeightVector.of_weights(kernel.prepare, weights)),
            {"kernel": EXPLICIT, "weights": Array("d")},
            take=lambda function, part: function[0] if part == "kernel" else function[1].weights,
        ),
        "knots": Record(
            _by_lines,
            {"counts": Array("d", dtype=("i8",)), "values": Array("knots"), "weights": Array("knots")},
            take=lambda function, part: function[1].knots[("counts", "values", "weights").index(part)],
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
            take=lambda function, part: function[1].error if part == "error" else getattr(function[1].table, part),
        ),
    },
    _how,
)


ANY = Number(finite=False)
LOO_SCORES = Array("rows", holds="any")
# What every fit finds.
FOUND: dict[str, Kind] = {
    "offset": Number(),
    "rounding": Number(),
    "loo_scores": ForTraining(LOO_SCORES),
    "infinity_warning": Text(),
}
TWO_SIDED = Maybe(
    Record(
        TwoSided,
        {
            "side": Number(),
            "inner": Number(),
            "outer": Number(),
            "peak": Number(),
            "local": Flag(),
            "depth": Number(),
            "least_unit": Number(above=0.0),
        },
    )
)
USUAL = Maybe(Record(Usual, {"means": Array("d"), "spreads": Array("d")}))
SUPPORT = Record(
    Support,
    {
        "rows": Places("n_SV", below="rows"),
        "coefficients": Array("n_SV"),
        "samples": Places("n_SV", below="n_SV"),
        "share": Number(),
    },
)


def _attributes(**parts: Kind) -> Record:
    """Return the kind of attributes, by their names with "_" behind them, that a fit keeps together."""

    def take(found: dict[str, Any], name: str) -> Any:
        return found["planes_"].two_sided if name == "two_sided" else found[f"{name}_"]

    return Record(_as_attributes, parts, take=take)


def _as_attributes(**found: Any) -> dict[str, Any]:
    """Return a fit's attributes by their names; planes and their score are one."""
    attributes = {f"{name}_": value for name, value in found.items() if name != "two_sided"}
    if "two_sided" in found:
        planes = SlabPlanes(found["rho_lower"], found["rho_upper"], found["two_sided"])
        if planes.offset != found["offset"]:
            raise ValueError("its offset is not that of its planes")
        attributes["planes_"] = planes
    return attributes


PLANES = {"rho_lower": Number(), "rho_upper": ANY, "offset": Number(), "two_sided": TWO_SIDED}


def _support_vector_fit(**boundary: Kind) -> Record:
    def make(function: Any, **parts: Any) -> SupportVectorModel:
        kernel, expansion = function
        planes = parts["boundary"].get("planes_")
        by_mass = isinstance(expansion, Expansion) and kernel is not None and kernel.local
        if planes is not None and planes.scores_by_mass and not by_mass:
            raise ValueError("its score is that of a local kernel, and its kernel is another")
        if isinstance(expansion, Expansion) and parts["support"].samples.max(initial=0) >= len(expansion.coefficients):
            raise ValueError("a support vector is not among its samples")
        return SupportVectorModel(kernel=kernel, expansion=expansion, start=None, **parts)

    return Record(
        make,
        {
            "function": SUM,
            "support": SUPPORT,
            "boundary": _attributes(**boundary),
            **FOUND,
            "loo_error": Maybe(Number(finite=False)),
            "loo_log_mass": ForTraining(LOO_SCORES),
            "recall_error": Maybe(Number()),
            "squared_norm": Number(),
            "length": Number(),
            "recall_of_learned": Number(),
            "recall_of_repeats": Number(),
            "objective": Number(),
            "gap": ANY,
            "relative_gap": ANY,
            "iterations": Whole(),
            "status": Text("converged", "degenerate", "iteration limit", "slow", "cache limit", "stalled"),
            "usual": USUAL,
        },
        take=_with_function,
    )


def _with_function(fit: Any, part: str) -> Any:
    return (fit.kernel, fit.expansion) if part == "function" else getattr(fit, part)


def _subspace(function: Any, **parts: Any) -> Subspace:
    kernel, expansion = function
    if len(parts["sums"]) + 1 != expansion.coefficients.shape[1]:
        raise ValueError("it has as many sums as components and one more, of the mean")
    if kernel is None and parts["length"] is None:
        raise ValueError("the length of new samples is unknown")
    return Subspace(kernel=kernel, expansion=expansion, **parts)


SUBSPACE = Record(
    _subspace,
    {
        "function": SUMS,
        **FOUND,
        "length": Maybe(Number()),
        "shift": Array("components"),
        "sums": Array("components"),
        "squared_mean": Number(),
        "explained": Array("components"),
        "without_error": Flag(),
        "expected_recall": Number(),
    },
    take=_with_function,
)


def _density(kernel: RBF, samples: Any, log_shares: Any, bandwidth: float) -> Density:
    refuse_unlike(kernel, samples)
    return Density(kernel, samples, log_shares, bandwidth)


DENSITY = Record(
    DensityModel,
    {
        "density": Record(
            _density,
            {
                "kernel": RADIAL,
                "samples": Rows("samples", "d"),
                "log_shares": Array("samples"),
                "bandwidth": Number(above=0.0),
            },
        ),
        **FOUND,
        "one_point": Flag(),
        "expected_recall": Number(),
    },
)


NEIGHBOURS = Record(
    NeighboursModel,
    {
        **FOUND,
        "neighbourhood": Record(
            Neighbourhood,
            {"samples": Rows("samples", "d", dtype=("f8",)), "counts": Array("samples"), "n_neighbours": Whole(1)},
        ),
    },
)


def _surprise(scores: Any, rows: Any, excess: float) -> Surprise:
    if len(rows) != len(scores) + 1 or not len(scores) or (np.diff(scores) < 0).any() or (np.diff(rows) < 0).any():
        raise ValueError("its scores and numbers of rows are not in order")
    return Surprise(Shares(scores, rows), excess)


SURPRISE = Record(
    _surprise,
    {"scores": Array("references"), "rows": Array("numbers"), "excess": Number(above=0.0)},
    take=lambda surprise, part: surprise.excess if part == "excess" else getattr(surprise.shares, part),
    apart=True,
)


def _dependence(**parts: Any) -> DependenceModel:
    if (parts["regressions"].scale <= 0).any():
        raise ValueError("a feature's deviation is not positive")
    return DependenceModel(**parts)


DEPENDENCE = Record(
    _dependence,
    {
        **FOUND,
        "regressions": Record(
            Regressions,
            {
                "centre": Array("d"),
                "scale": Array("d"),
                "samples": Array("samples", "d"),
                "targets": Places("targets", below="d"),
                "gammas": Array("targets"),
                "coefficients": Array("targets", "samples"),
            },
        ),
        "surprises": Many(SURPRISE, names="targets", least=1),
    },
)
CLASSIFIER = "slabsvm.ensemble.known.OutlierClassifier"
# Which classes a member of AutoSlabSVM may be of.
MEMBERS = (
    "slabsvm.OneClassSVM",
    "slabsvm.NeighboursDetector",
    "slabsvm.DependenceDetector",
    "slabsvm.OneClassSlabSVM",
    CLASSIFIER,
)
SCALER = Estimator("sklearn.preprocessing.StandardScaler", fitted=True)
# What every version of AutoSlabSVM keeps.
AUTO: dict[str, Kind] = {
    **FOUND,
    # p-values need them.
    "loo_scores": Maybe(LOO_SCORES),
    "by_folds": Flag(),
    "weights": Maybe(Array("rows")),
    "n_groups": Maybe(Whole(2)),
    "expected_recall": Number(),
    "sample": Maybe(Places("learned", below="rows")),
}


def _trees(**arrays: Any) -> Trees:
    numbers = np.arange(len(arrays["left"]))
    inner = (arrays["left"] > numbers) & (arrays["right"] > numbers)
    # A way down the numbers of which do not grow might have no end.
    if not (inner | ((arrays["left"] == numbers) & (arrays["right"] == numbers))).all():
        raise ValueError("a node leads to one before it")
    return Trees(**arrays)


TREES = Record(
    _trees,
    {
        "features": Places("nodes", below="d"),
        "thresholds": Array("nodes"),
        "left": Places("nodes", below="nodes"),
        "right": Places("nodes", below="nodes"),
        "values": Array("nodes"),
        "roots": Places("trees", below="nodes"),
    },
    apart=True,
)


def _doubt_classifier(model: Any) -> str:
    both = [getattr(model, name, None) for name in ("trees_", "classifier_")]
    return "" if "reference_" not in vars(model) or both.count(None) == 1 else "has trees and a classifier, or neither"


def _combined(views: list[Any], members: list[Member], **parts: Any) -> CombinedModel:
    for member in members:
        if member.view >= len(views):
            raise ValueError("a member takes a view that there is not")
        if not isinstance(getattr(getattr(member.detector, "model_", None), "kernel", RBF), RBF | type):
            raise ValueError("its members have the RBF kernel")
        if member.columns is not None and len(member.columns) != member.detector.n_features_in_:
            raise ValueError("a member takes another number of features")
    return CombinedModel(combination=Combination(views, members), **parts)


def _averaged(scaler: Any, members: list[Any], **parts: Any) -> CombinedModel:
    """Return the mean of slabs' decisions that AutoSlabSVM was in version 0.1."""
    alike = [Member(member, 0, None, 1.0 / len(members), None) for member in members]
    return _combined([scaler], alike, recall_error=None, one_point=False, **parts)


VIEW = Maybe(Estimator("sklearn.preprocessing.StandardScaler", "slabsvm.NormalScores", fitted=True))
MEMBER = Record(
    Member,
    {
        # Its features are all of the view's, or as many as there are columns.
        "columns": Maybe(Places("taken", below="d")),
        "detector": Estimator(*MEMBERS, fitted=True, features="taken"),
        "view": Whole(),
        "weight": Number(above=0.0),
        "surprise": Maybe(SURPRISE),
    },
    apart=True,
)
COMBINED = Record(
    _combined,
    {
        "views": Many(VIEW, least=1),
        "members": Many(MEMBER, least=1),
        **AUTO,
        "recall_error": Maybe(Number()),
        "one_point": Flag(),
    },
    take=lambda fit, part: getattr(fit.combination if part in {"views", "members"} else fit, part),
)
SLABS = Many(Estimator("slabsvm.OneClassSlabSVM", fitted=True), least=1)
AVERAGED = Record(_averaged, {**AUTO, "scaler": Maybe(SCALER), "members": SLABS})


def _detector(name: str, fit: Kind, *further: str, left_out: tuple[str, ...] = ()) -> Entry:
    """Return how a `Detector` is kept, whose fit and further numbers are these."""
    return Entry(
        name,
        {
            "n_samples_fit": Whole(names="rows"),
            "warning": Text(),
            "fit": fit,
            "learned": Later(ForTraining(Array("learned", dtype=("u8",)))),
            **{one: Number() for one in further},
        },
        where={"fit": "model_"},
        # What is seen of the fit.
        give=lambda model, parts: model.__dict__.update(parts["fit"].attributes()),
        left_out=left_out,
    )


def _landmarks(gamma: float, rows: Any, kernel: RBF, basis: Any) -> Landmarks:
    refuse_unlike(kernel, rows)
    return Landmarks.of_basis(gamma, rows, kernel, basis)


LINEAR: dict[str, Kind] = {
    "n_samples_fit": Whole(names="rows"),
    "warning": Text(),
    "map": Maybe(
        Record(
            _landmarks,
            {
                "gamma": Number(above=0.0),
                "rows": Rows("landmarks", "d"),
                "kernel": RADIAL,
                "basis": Array("landmarks", "images"),
            },
        )
    ),
    "coef": Array("one", "images"),
    **PLANES,
    "duality_gap": ANY,
    "relative_gap": ANY,
    "dual_objective": Number(),
    "status": Text("converged", "degenerate", "stalled"),
    "n_passes": Whole(),
    "usual": USUAL,
}


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


DETECTORS = (
    _detector("slabsvm.OneClassSlabSVM", _support_vector_fit(**PLANES), "expected_recall"),
    _detector("slabsvm.OneClassSVM", _support_vector_fit(rho=Number(), offset=Number()), "expected_recall"),
    _detector(
        "slabsvm.SVDD",
        _support_vector_fit(offset=Number(), radius=Number(), nu=Number(above=0.0)),
        "expected_recall",
    ),
    _detector("slabsvm.KernelPCADetector", SUBSPACE),
    _detector("slabsvm.KernelDensityDetector", DENSITY),
    _detector("slabsvm.NeighboursDetector", NEIGHBOURS),
    _detector("slabsvm.DependenceDetector", DEPENDENCE),
    _detector("slabsvm.AutoSlabSVM", Earlier(COMBINED, scaler=AVERAGED), left_out=("progress",)),
    Entry(
        CLASSIFIER,
        {
            "trees": Maybe(TREES),
            "classifier": Maybe(Estimator(fitted=True)),
            "typical": Array("d"),
            "usual": Array("d"),
            "reference": Number(),
            "offset": Number(),
        },
        doubt=_doubt_classifier,
        # What it was made by is not needed, and may be of any class.
        left_out=("classifier",),
    ),
    Entry(
        "slabsvm.LinearOneClassSlabSVM",
        LINEAR,
        where={"two_sided": lambda model: model.planes_.two_sided},
        give=_give_linear,
        doubt=_doubt_linear,
    ),
)
