"""What there is to know of a saved model, for a person and for a program."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slabsvm.command.learning import columns_said, expected_recall, left_out
from slabsvm.command.terminal import named, printable
from slabsvm.detectors.pipelines import final_detector
from slabsvm.runtime.counting import counted

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

# What a kernel model says of itself, by its attributes.
OF_A_SLAB = ("gamma_", "nu_", "radius_", "bandwidth_", "n_components_", "rho_", "rho_lower_", "rho_upper_")
CERTIFICATE = ("status_", "n_iter_", "dual_objective_", "duality_gap_", "relative_gap_")


def facts(model: Pipeline, path: Path) -> dict[str, Any]:
    """Return what `inspect --json` says."""
    encoder, detector = model[0], model[-1]
    return {
        "model": str(path),
        "detector": type(detector).__name__,
        "parameters": {name: _plain(value) for name, value in detector.get_params(deep=False).items()},
        "rows": encoder.n_rows_,
        "columns": [
            {"kind": type(column).__name__.lower(), **asdict(column), "statement": column.statement()}
            for column in encoder.columns_
        ],
        "left_out": left_out(encoder),
        "missing": encoder.missing,
        "expected_recall": expected_recall(detector),
        "threshold": detector.offset_,
        "parts": [_part(part) for part in parts(detector)],
        "warnings": warnings_of(detector),
    }


def parts(detector: Any) -> list[Any]:
    """Return the models that a detector asks, itself if it asks no others."""
    inner = getattr(detector, "members_", None) or getattr(detector, "estimators_", None)
    return [part for one in inner for part in parts(final_detector(one))] if inner else [detector]


def warnings_of(detector: Any) -> list[str]:
    """Return what the fits of a detector and its parts have warned of and kept, each once."""
    inner = map(final_detector, getattr(detector, "estimators_", None) or ())
    texts = [getattr(one, "warning_", "") for one in (detector, *inner)]
    return list(dict.fromkeys(text for text in texts if text))


def said(model: Pipeline, path: Path) -> list[str]:
    """Return the lines that `inspect` prints."""
    encoder, detector = model[0], model[-1]
    lines = [f"{named(path)}: {type(detector).__name__}, learned from {counted(encoder.n_rows_, 'row')}", ""]
    lines += ["Columns", *columns_said(encoder, len(encoder.columns_))]
    lines += [f"  left out: {', '.join(printable(left_out(encoder)))}"] if left_out(encoder) else []
    lines += [f"  empty cells: {encoder.missing}", ""]
    lines += [*summary(detector), ""]
    changed = [
        f"{name}={value!r}" for name, value in detector.get_params(deep=False).items() if _is_set(detector, name)
    ]
    lines.append(f"Parameters that are not the default: {', '.join(changed) or 'none'}")
    return lines


def summary(detector: Any) -> list[str]:
    """Return what a detector says of its fit, or what its attributes say."""
    if hasattr(detector, "summary"):
        return str(detector.summary()).splitlines()
    lines = [f"{type(detector).__name__}: rows with a score of at least {detector.offset_:.4g} are accepted"]
    if hasattr(detector, "n_calibration_"):
        held = counted(detector.n_calibration_, "row")
        lines.append(
            f"  calibrated on {held} that were held out; the smallest p-value is {detector.smallest_p_value_:.3g}"
        )
    share = expected_recall(detector)
    lines += [] if share is None else [f"  recall           {share:.1%} expected"]
    found = list(_part(detector).items())[1:]
    lines += [f"  {name.replace('_', ' '):<16} {short(value)}" for name, value in found]
    for inner in getattr(detector, "estimators_", ()):
        lines += [f"  {line}" for line in summary(final_detector(inner))]
    return lines


def _part(part: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"model": type(part).__name__}
    if hasattr(part, "support_"):
        found["support_vectors"] = len(part.support_)
    if hasattr(part, "kernel"):
        found["kernel"] = _plain(part.kernel)
    for name in (*OF_A_SLAB, *CERTIFICATE):
        if hasattr(part, name):
            found[name.removesuffix("_")] = _plain(getattr(part, name))
    return found


def short(value: Any) -> str:
    """Return a fact with four digits; what a part does not have is empty."""
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _is_set(detector: Any, name: str) -> bool:
    """Return whether a parameter is not its class's default."""
    import inspect

    default = inspect.signature(type(detector).__init__).parameters[name].default
    value = getattr(detector, name)
    return bool(value is not None and repr(value) != repr(default))


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.item() if hasattr(value, "item") else repr(value)
