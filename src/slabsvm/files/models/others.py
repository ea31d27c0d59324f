"""How what stands around detectors is kept: what calibrates, trims or classifies by them, and monitors."""

from __future__ import annotations

from typing import Annotated, Any

from slabsvm.conformal.detector import ConformalDetector
from slabsvm.conformal.p_values import Ranking
from slabsvm.ensemble.windowed import Window, WindowedDetector
from slabsvm.files.models.estimators import Entry, Labels, Scalar, Values
from slabsvm.files.models.kinds import made
from slabsvm.monitoring.betting import COUNT, SEED
from slabsvm.monitoring.course import Course
from slabsvm.monitoring.scoring import HELD_OUT, LEFT_OUT
from slabsvm.openset.classifier import OpenSetClassifier
from slabsvm.openset.classwise import ClassRows, NormalisedMargin
from slabsvm.openset.joint import ByClassifier, folds_of
from slabsvm.runtime.fields import FOR_TRAINING, LATER, Array, Choice, FittedEstimator, Many, Number, Places

FITTED = Annotated[Any, FittedEstimator(answers="predict")]
ANY = Annotated[float, Number(finite=False)]
MEMBERS = Many(size="members", least=1)
WINDOWED = ("slabsvm.OneClassSlabSVM", "slabsvm.OneClassSVM", "slabsvm.SVDD")
OF_CLASS = FittedEstimator(("slabsvm.ConformalDetector", "slabsvm.openset.classwise.NormalisedMargin"))


def _give_conformal(model: ConformalDetector, parts: Values) -> None:
    if parts["estimators"] is None:
        parts["estimators"] = [model.estimator]
    if len(parts["estimators"]) != len(parts["rankings"]):
        raise ValueError("it has no calibration for each of its detectors")
    for detector, columns in zip(parts["estimators"], parts["columns"], strict=True):
        if not hasattr(detector, "predict"):
            raise ValueError("it has a detector that cannot predict")
        features = model.n_features_in_ if columns is None else len(columns)
        if getattr(detector, "n_features_in_", features) != features:
            raise ValueError(
                f"it has a detector of {detector.n_features_in_:,} features, where {features:,} are expected"
            )


def _of_naming(naming: ByClassifier, part: str) -> Any:
    return [fold.classifier for fold in naming.folds] if part == "classifiers" else getattr(naming, part)


JOINT = made(
    dict,
    _of_naming,
    classifiers=Annotated[list[FITTED], Many(size="folds", least=1)],
    confidence=Ranking,
    held_out=Annotated[list[Ranking], Many(size="folds")],
)


def _give_open_set(model: OpenSetClassifier, parts: Values) -> None:
    classes, models, joint = parts["classes"], parts["models"], parts.pop("joint")
    parts["rows"] = parts["rows"] or []
    if (joint is None) != (model.classifier is None):
        raise ValueError("it has a classifier without what this has learned, or the other way round")
    kept = NormalisedMargin if model.calibration == "margin" and joint is None else ConformalDetector
    if not all(type(one) is kept for one in models):
        raise ValueError(f"its models are not all {kept.__name__}, as calibration={model.calibration!r} makes them")
    if joint is None:
        model.naming_ = model.naming_type(models, classes)
        return
    model.classifiers_ = joint["classifiers"]
    if not all(hasattr(one, "classes_") for one in model.classifiers_):
        raise ValueError("its classifier has learned no classes")
    folds = folds_of(model.classifiers_, models, classes)
    model.naming_ = ByClassifier(models, classes, parts["rows"], folds, joint["confidence"], joint["held_out"])


def _give_windowed(model: WindowedDetector, parts: Values) -> None:
    del model
    estimator, window, n_seen = parts["estimator"], parts["window"], parts["n_seen"]
    if window is not None and (len(window) != estimator.n_samples_fit_ or window.numbers.max(initial=0) >= n_seen):
        raise ValueError("its rows are not those that its estimator has learned, of all that it has seen")
    # The next update starts from nothing.
    parts.update(offset=estimator.offset_, start=None)


WRAPPERS = (
    Entry(
        "slabsvm.ConformalDetector",
        {
            "estimators": Annotated[
                list[Annotated[Any, FittedEstimator(features="", answers="predict")]] | None, MEMBERS
            ],
            "calibration_scores": list[Annotated[Any, Array("scores", holds="numbers")]],
            "rankings": Annotated[list[Ranking], MEMBERS],
            "columns": Annotated[list[Annotated[Any, Places("columns", below="d")] | None], Many(size="members")],
            "held_out": Annotated[
                list[Annotated[Any, Array("held_out", dtype=("i8",))]] | None, Many(size="members"), FOR_TRAINING
            ],
            "n_calibration": int,
            "out_of_reach": float,
            "offset": float,
            "far_p_value": ANY,
            "repeats": Annotated[float | None, LATER],
        },
        # A detector that came fitted is kept once, as the parameter that it is.
        where={"estimators": lambda model: None if model.estimators_[0] is model.estimator else model.estimators_},
        give=_give_conformal,
    ),
    Entry(
        "slabsvm.TrimmedDetector",
        {
            "estimator": FITTED,
            "offset": float,
            "n_rounds": Annotated[int, Number(least=1)],
            "decisions": Annotated[Any | None, Array("rows", holds="numbers"), FOR_TRAINING],
            "trimmed": Annotated[Any | None, Places("trimmed", below="rows"), FOR_TRAINING],
        },
    ),
    Entry(
        "slabsvm.WindowedDetector",
        {
            "estimator": Annotated[Any, FittedEstimator(WINDOWED)],
            "n_seen": int,
            "window": Annotated[Window | None, FOR_TRAINING],
        },
        where={"window": "_window", "start": "_start"},
        give=_give_windowed,
    ),
    Entry(
        "slabsvm.OpenSetClassifier",
        {
            "classes": Annotated[Any, Labels("classes")],
            "unknown_label": Annotated[Any, Scalar()],
            "seed": Annotated[int, SEED],
            "models": Annotated[list[Annotated[Any, OF_CLASS]], Many(size="classes", least=1)],
            "joint": Annotated[ByClassifier | None, JOINT],
            "rows": Annotated[list[ClassRows] | None, FOR_TRAINING],
        },
        where={"joint": lambda model: model.naming_ if isinstance(model.naming_, ByClassifier) else None},
        give=_give_open_set,
    ),
    Entry(
        "slabsvm.openset.classwise.NormalisedMargin",
        {"estimator": FITTED, "depth": Annotated[float, Number(above=0.0)], "far_margin": ANY},
        features=False,
    ),
    Entry("slabsvm.DistinctKFold", {}),
    Entry(
        "slabsvm.DriftMonitor",
        {
            "reference": Annotated[str, Choice((HELD_OUT, LEFT_OUT))],
            "n_reference": Annotated[int, COUNT],
            "unit": Annotated[float, Number(above=0.0)],
            "course": Course,
        },
        features=False,
    ),
)
