"""The subcommand `inspect`: it says what a model file holds, as text, as JSON or as a page."""

from __future__ import annotations

from dataclasses import asdict
from html import escape
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slabsvm.command.options import FILE
from slabsvm.command.terminal import PLAN_HEAD, STATUSES, named, plain_errors, plan_lines, say, say_json, warn
from slabsvm.runtime.caller import counted

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

# What the values of --missing do with empty cells.
MISSING_CELLS = {
    "indicate": "numbers get the median, texts no category, and a coordinate marks the gap",
    "impute": "numbers get the median, texts the most frequent category",
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
        from slabsvm.command.model import loaded

        pipeline = loaded(model)
        facts = facts_of(pipeline, model)
        if html is not None:
            from slabsvm.data.files import write_whole
            from slabsvm.display import require_matplotlib

            require_matplotlib()
            write_whole(html, model_page(pipeline, model, facts))
        if as_json:
            say_json(facts)
            return
        encoder, detector = pipeline[0], pipeline[-1]
        say(f"{named(model)}: {type(detector).__name__}, learned from {counted(encoder.n_rows_, 'row')}\n")
        say("\n".join([*plan_lines(encoder.plan()), f"  Empty cells: {MISSING_CELLS[encoder.missing]}", ""]))
        say("\n".join([*summary(detector), ""]))
        usual = {name: repr(one.default) for name, one in signature(type(detector).__init__).parameters.items()}
        given = facts["parameters"].items()
        changed = [f"{name}={one!r}" for name, one in given if one is not None and repr(one) != usual[name]]
        say(f"Parameters that are not the default: {', '.join(changed) or 'none'}")
        warn(facts["warnings"])
        if html is not None:
            say(f"Wrote {named(html)}.")


def facts_of(model: Pipeline, path: Path) -> dict[str, Any]:
    """Return what `inspect --json` says."""
    from slabsvm.command.model import expected_recall, left_out

    encoder, detectors = model[0], detectors_of(model[-1])
    warnings = [getattr(one, "warning_", "") for one in detectors]
    return {
        "model": str(path),
        "detector": type(detectors[0]).__name__,
        "parameters": detectors[0].get_params(deep=False),
        "rows": encoder.n_rows_,
        "columns": [
            {"kind": type(column).__name__.lower(), **asdict(column), "statement": column.statement()}
            for column in encoder.columns_
        ],
        "left_out": left_out(encoder),
        "missing": encoder.missing,
        "expected_recall": expected_recall(detectors[0]),
        "threshold": detectors[0].offset_,
        "parts": [kernel_facts(detectors[-1])],
        "warnings": list(dict.fromkeys(filter(None, warnings))),
    }


def detectors_of(detector: Any) -> list[Any]:
    """Return a detector, and those inside it that others calibrate, the innermost last."""
    from slabsvm.detectors.answers import final_detector

    inner = detectors_of(final_detector(detector.estimator_)) if hasattr(detector, "estimator_") else []
    return [detector, *inner]


def summary(detector: Any) -> list[str]:
    """Return what a detector says of its fit, or what its attributes say."""
    from slabsvm.command.model import expected_recall

    if hasattr(detector, "summary"):
        return str(detector.summary()).splitlines()
    lines = [f"{type(detector).__name__}: rows with a score of at least {detector.offset_:.4g} are accepted"]
    if hasattr(detector, "n_calibration_"):
        held, least = counted(detector.n_calibration_, "row"), detector.smallest_p_value_
        lines.append(f"  calibrated on {held} that were held out; the smallest p-value is {least:.3g}")
    share = expected_recall(detector)
    lines += [] if share is None else [f"  recall           {share:.1%} expected"]
    found = list(kernel_facts(detector).items())[1:]
    lines += [f"  {name.replace('_', ' '):<16} {_short(value)}" for name, value in found]
    for inner in detectors_of(detector)[1:2]:
        lines += [f"  {line}" for line in summary(inner)]
    return lines


def kernel_facts(detector: Any) -> dict[str, Any]:
    """Return what a kernel model says of itself by its attributes: kernel, planes and certificate."""
    names = ("gamma_", "nu_", "radius_", "bandwidth_", "n_components_", "rho_", "rho_lower_", "rho_upper_")
    certificate = ("status_", "n_iter_", "dual_objective_", "duality_gap_", "relative_gap_")
    found: dict[str, Any] = {"model": type(detector).__name__}
    if hasattr(detector, "support_"):
        found["support_vectors"] = len(detector.support_)
    there = [name for name in ("kernel", *names, *certificate) if hasattr(detector, name)]
    return found | {name.removesuffix("_"): getattr(detector, name) for name in there}


def _short(value: Any) -> str:
    """Return a fact with four digits; one that is None is empty."""
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def model_page(model: Pipeline, path: Path, facts: dict[str, Any]) -> str:
    """Return the page as HTML."""
    from slabsvm.command.report import document, table
    from slabsvm.display import draw_scores
    from slabsvm.display.figures import hidden_figure, svg

    drawn: list[str] = []
    for one in detectors_of(model[-1])[:2]:
        if hasattr(one, "calibration_scores_"):
            picture = draw_scores(one, figure=hidden_figure(8.0, 3.6))
            drawn.append(f'<div class="paper">{svg(picture, str(len(drawn)))}</div>')
    title = "<h2>Where the learned rows are, each without itself, and what is accepted</h2>"
    (part,), share = facts["parts"], facts["expected_recall"]
    lead = "" if share is None else f" It is expected to accept {share:.1%} of new good rows."
    heads, cells = [name.replace("_", " ") for name in part], [_short(value) for value in part.values()]
    parameters = [(name, repr(value)) for name, value in facts["parameters"].items() if value is not None]
    body = [
        f"<h1>{escape(path.name)}</h1>",
        f"<p>{escape(facts['detector'])}, learned from {facts['rows']:,} rows.{lead}</p>",
        *(f'<p class="warning">{escape(text)}</p>' for text in facts["warnings"]),
        *([title, *drawn] if drawn else []),
        *table("Columns", PLAN_HEAD, model[0].plan().lines()),
        f"<p>Empty cells: {MISSING_CELLS[facts['missing']]}.</p>",
        "<h2>Fit</h2>",
        f'<pre tabindex="0">{escape(chr(10).join(summary(model[-1])))}</pre>',
        *(table("Support vectors, planes and certificates", heads, [cells]) if len(heads) > 1 else []),
        *table("Parameters", ("parameter", "value"), parameters),
    ]
    return document(path.name, body)
