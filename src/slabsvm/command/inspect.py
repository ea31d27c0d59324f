"""The subcommand `inspect`: what a model file holds, for a person, for a program, and as one page."""

from __future__ import annotations

from dataclasses import asdict
from html import escape
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slabsvm.command.check import HEAD, lines_of
from slabsvm.command.fit import expected_recall, left_out
from slabsvm.command.options import FILE
from slabsvm.command.terminal import STATUSES, named, plain_errors, say, say_json, warn
from slabsvm.runtime.caller import counted

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

# What a kernel model says of itself, by its attributes.
OF_A_SLAB = ("gamma_", "nu_", "radius_", "bandwidth_", "n_components_", "rho_", "rho_lower_", "rho_upper_")
CERTIFICATE = ("status_", "n_iter_", "dual_objective_", "duality_gap_", "relative_gap_")
EMPTY_CELLS = {
    "indicate": "filled with the median, and marked",
    "impute": "filled with the median or the most frequent category",
    "refuse": "an error",
}


@click.command(short_help="Say what a model has learned.", epilog=STATUSES)
@click.argument("model", type=FILE)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@click.option("--html", type=FILE, metavar="PAGE", help="Write one self-contained page with pictures, too.")
def inspect(*, model: Path, as_json: bool, html: Path | None) -> None:
    """Say what MODEL has learned: columns, recall, support vectors, planes, certificates, warnings.

    \b
    slabsvm inspect model.skops --html model.html
    """
    with plain_errors("page", model=model, page=html):
        from slabsvm.command.scoring import loaded

        found = loaded(model)
        if html is not None:
            from slabsvm.data.files import write_whole
            from slabsvm.display import require_matplotlib

            require_matplotlib()
            write_whole(html, page(found, model))
        if as_json:
            say_json(facts(found, model))
            return
        for line in said(found, model):
            say(line)
        warn(warnings_of(found[-1]))
        if html is not None:
            say(f"Wrote {named(html)}.")


def facts(model: Pipeline, path: Path) -> dict[str, Any]:
    """Return what `inspect --json` says."""
    encoder, detector = model[0], model[-1]
    return {
        "model": str(path),
        "detector": type(detector).__name__,
        "parameters": detector.get_params(deep=False),
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
    inner = _wrapped(detector)
    return [part for one in inner for part in parts(one)] if inner else [detector]


def _wrapped(detector: Any) -> list[Any]:
    """Return the detector that another one calibrates, or nothing."""
    from slabsvm.detectors.answers import final_detector

    return [final_detector(detector.estimator_)] if hasattr(detector, "estimator_") else []


def warnings_of(detector: Any) -> list[str]:
    """Return what the fits of a detector and its parts have warned of and kept, each once."""
    texts = [getattr(one, "warning_", "") for one in (detector, *_wrapped(detector))]
    return list(dict.fromkeys(text for text in texts if text))


def said(model: Pipeline, path: Path) -> list[str]:
    """Return the lines that `inspect` prints."""
    encoder, detector = model[0], model[-1]
    lines = [f"{named(path)}: {type(detector).__name__}, learned from {counted(encoder.n_rows_, 'row')}", ""]
    lines += [*lines_of(encoder.plan()), f"  Empty cells: {EMPTY_CELLS[encoder.missing]}", ""]
    lines += [*summary(detector), ""]
    usual = {name: repr(one.default) for name, one in signature(type(detector).__init__).parameters.items()}
    given = detector.get_params(deep=False).items()
    changed = [f"{name}={one!r}" for name, one in given if one is not None and repr(one) != usual[name]]
    lines.append(f"Parameters that are not the default: {', '.join(changed) or 'none'}")
    return lines


def summary(detector: Any) -> list[str]:
    """Return what a detector says of its fit, or what its attributes say."""
    if hasattr(detector, "summary"):
        return str(detector.summary()).splitlines()
    lines = [f"{type(detector).__name__}: rows with a score of at least {detector.offset_:.4g} are accepted"]
    if hasattr(detector, "n_calibration_"):
        held, least = counted(detector.n_calibration_, "row"), detector.smallest_p_value_
        lines.append(f"  calibrated on {held} that were held out; the smallest p-value is {least:.3g}")
    share = expected_recall(detector)
    lines += [] if share is None else [f"  recall           {share:.1%} expected"]
    found = list(_part(detector).items())[1:]
    lines += [f"  {name.replace('_', ' '):<16} {short(value)}" for name, value in found]
    for inner in _wrapped(detector):
        lines += [f"  {line}" for line in summary(inner)]
    return lines


def _part(part: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"model": type(part).__name__}
    if hasattr(part, "support_"):
        found["support_vectors"] = len(part.support_)
    if hasattr(part, "kernel"):
        found["kernel"] = part.kernel
    for name in (*OF_A_SLAB, *CERTIFICATE):
        if hasattr(part, name):
            found[name.removesuffix("_")] = getattr(part, name)
    return found


def short(value: Any) -> str:
    """Return a fact with four digits; what a part does not have is empty."""
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def page(model: Pipeline, path: Path) -> str:
    """Return the page as HTML."""
    from slabsvm.command.report import document, table
    from slabsvm.display import draw_scores
    from slabsvm.display.figures import hidden_figure, svg

    drawn: list[str] = []
    for one in (model[-1], *_wrapped(model[-1])):
        if hasattr(one, "calibration_scores_"):
            picture = draw_scores(one, figure=hidden_figure(8.0, 3.6))
            drawn.append(f'<div class="paper">{svg(picture, str(len(drawn)))}</div>')
    title = "<h2>Where the learned rows are, each without itself, and what is accepted</h2>"
    found = facts(model, path)
    parts, share = found["parts"], found["expected_recall"]
    names = dict.fromkeys(name for part in parts for name in part)
    heads = [name.replace("_", " ") for name in names]
    of_parts = [[short(part.get(name)) for name in names] for part in parts]
    lead = "" if share is None else f" It is expected to accept {share:.1%} of new good rows."
    parameters = [(name, repr(value)) for name, value in found["parameters"].items() if value is not None]
    body = [
        f"<h1>{escape(path.name)}</h1>",
        f"<p>{escape(found['detector'])}, learned from {found['rows']:,} rows.{lead}</p>",
        *(f'<p class="warning">{escape(text)}</p>' for text in found["warnings"]),
        *([title, *drawn] if drawn else []),
        *table("Columns", HEAD, model[0].plan().lines()),
        f"<p>Empty cells: {EMPTY_CELLS[found['missing']]}.</p>",
        "<h2>Fit</h2>",
        f'<pre tabindex="0">{escape(chr(10).join(summary(model[-1])))}</pre>',
        *(table("Support vectors, planes and certificates", heads, of_parts) if len(heads) > 1 else []),
        *table("Parameters", ("parameter", "value"), parameters),
    ]
    return document(path.name, body)
