"""The subcommand `tune`: search for a detector's parameters with good rows alone."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import click

from slabsvm.command.fit import GoodRows, carried_out, detector_of, expected_recall, recall_said, rejected_by
from slabsvm.command.options import FILE, column_options, reading_options, recall_option, table_argument
from slabsvm.command.terminal import STATUSES, named, steps

# gamma, as multiples of one over the number of coordinates that vary.
MULTIPLES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
# nu for all of 1 - recall, or for half of it, where a plane beyond all rows may be tighter.
SHARES = (1.0, 0.5)
DETECTORS = ("slab", "one-class-svm", "svdd")
CRITERIA = ("marginals", "volume", "recall")
MEASURED = "mean_"


@click.command(short_help="Choose gamma and nu with good rows alone.", epilog=STATUSES)
@table_argument
@click.option("-o", "--output", type=FILE, help="Write the best model here.")
@click.option("--detector", type=click.Choice(DETECTORS), default="slab", show_default=True, help="What is tuned.")
@click.option(
    "--criterion",
    type=click.Choice(CRITERIA),
    default="marginals",
    show_default=True,
    metavar="NAME",
    help=f"How candidates are compared: {', '.join(CRITERIA)} (docs/results/choosing-parameters.md).",
)
@recall_option
@click.option("--html", type=FILE, metavar="REPORT", help="Also write one page on what was tried, with a picture.")
@click.option("--folds", type=click.IntRange(min=2), metavar="N", help="Cross-validate. [default: leave-one-out]")
@column_options
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of synthetic outliers.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Threads to use.")
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Print what was measured, as JSON.")
def tune(
    *,
    table: Path,
    output: Path | None,
    detector: str,
    criterion: str,
    recall: float,
    html: Path | None,
    folds: int | None,
    seed: int,
    jobs: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Search for gamma and nu of a detector by TABLE, of good rows alone, and show what was seen.

    Each candidate answers good rows that it has not learned, and synthetic outliers made from them. The best one is
    learned from all rows.

    \b
    slabsvm tune good.csv -o model.slab --html tuned.html
    """

    def learn(good: GoodRows) -> tuple[Any, dict[str, Any], list[str]]:
        import numpy as np
        from sklearn.pipeline import Pipeline

        from slabsvm import LabelFreeSearchCV
        from slabsvm.display import require_matplotlib

        if html is not None:
            require_matplotlib()

        unfitted = Pipeline(detector_of(detector, recall, seed, None))
        varying = int(np.count_nonzero(np.ptp(good.rows, axis=0)))
        gammas = [multiple / varying for multiple in MULTIPLES]
        with steps("Searching") as progress:
            search = LabelFreeSearchCV(
                unfitted,
                {"detector__gamma": gammas, **_nus(unfitted[-1], rejected_by(recall))},
                criterion=_criterion(criterion, recall),
                cv="leave-one-out" if folds is None else folds,
                random_state=seed,
                n_jobs=jobs,
                progress=progress,
                widen="gamma",
            ).fit(good.rows, **({} if good.weights is None else {"sample_weight": good.weights}))
        usual = 1.0 / varying
        seen, best = _seen(search.cv_results_), _short_names(search.best_params_)
        model = Pipeline([("columns", good.encoder), *search.best_estimator_.steps])
        facts = {
            "criterion": criterion,
            "best": best,
            "expected_recall": expected_recall(model[-1]),
            "candidates": seen,
        }
        chosen = ", ".join(f"{name} {value:.4g}" for name, value in best.items())
        said = [f"Best by {criterion}: {chosen}.", *_compared(seen, criterion, usual), recall_said(model[-1], recall)]
        if html is not None:
            from slabsvm.data.files import write_whole

            write_whole(html, _page(f"{table.name}: what was tried", search, seen, said))
            said.append(f"Wrote {named(html)}.")
        return model, facts, [f"Tried {len(seen)} candidates, the best first:", *_shown(seen), *said]

    carried_out(table, output, options, learn, as_json=as_json, report=html)


def _nus(detector: Any, rejection: float) -> dict[str, list[float]]:
    """Return the grid of the detector's nu."""
    name = "nu_lower" if hasattr(detector, "nu_lower") else "nu"
    above = getattr(detector, "nu_upper", 0.0)
    return {f"detector__{name}": [share * rejection - (above if name == "nu_lower" else 0.0) for share in SHARES]}


def _criterion(name: str, recall: float) -> Any:
    """Return a criterion, which asks for this recall where it asks for one."""
    from copy import copy

    from slabsvm.selection.criteria import NAMED

    found: Any = copy(NAMED[name])
    if hasattr(found, "recall"):
        found.recall = recall
    return found


def _seen(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what was seen of each candidate, the best first."""
    measured = [name for name in results if name.startswith(MEASURED) and not name.endswith(("_time", "test_score"))]
    order = sorted(range(len(results["params"])), key=lambda place: int(results["rank_test_score"][place]))
    return [
        {
            "rank": int(results["rank_test_score"][place]),
            **_short_names(results["params"][place]),
            **{name.removeprefix(MEASURED): float(results[name][place]) for name in measured},
            "score": float(results["mean_test_score"][place]),
        }
        for place in order
    ]


# What a candidate is better by, and in which words.
WORDS_OF_CRITERIA = {
    "marginals": ("acceptance", "It accepts {best:.1%} of the synthetic outliers, where {other} accepts {value:.1%}"),
    "volume": ("log_volume", "The logarithm of the volume that it accepts is {best:.4g}, and of {other} {value:.4g}"),
    "recall": ("recall", "It accepts {best:.1%} of the good rows that it had not learned, and {other} {value:.1%}"),
}


def _compared(seen: list[dict[str, Any]], criterion: str, usual: float) -> list[str]:
    """Return how much better the best candidate is than the one with the usual gamma, and than the second."""
    name, words = WORDS_OF_CRITERIA[criterion]
    best = seen[0]
    if name not in best:
        return []
    found = []
    default = next((one for one in seen if one["gamma"] == usual), None)
    if default is not None and default is not best:
        other = f"the usual gamma, {usual:.4g},"
        found.append(words.format(best=best[name], other=other, value=default[name]) + ".")
    elif default is best:
        found.append(f"That is the usual gamma, {usual:.4g}: nothing is gained by another one.")
    gap = best["score"] - seen[1]["score"]
    behind = f"is behind by {gap:.3g}" if gap > 0 else "is as good"
    return [*found, f"By the score the second, with gamma {seen[1]['gamma']:.4g}, {behind}."]


def _short_names(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name.rpartition("__")[2]: value for name, value in parameters.items()}


def _shown(seen: list[dict[str, Any]]) -> list[str]:
    """Return a table for a terminal."""
    names = list(seen[0])
    cells = [[f"{row[name]:.4g}" for name in names] for row in seen]
    widths = [max(len(name), *(len(row[place]) for row in cells)) for place, name in enumerate(names)]
    lines = [names, *cells]
    return ["  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True)) for line in lines]


def _page(title: str, search: Any, seen: list[dict[str, Any]], said: list[str]) -> str:
    """Return the page as HTML: what is best and by how much, a picture, and all candidates."""
    from slabsvm.command.report import document, table
    from slabsvm.display import draw_search
    from slabsvm.display.figures import hidden_figure, svg

    drawn = draw_search(search, parameter="gamma", figure=hidden_figure(9.0, 3.6))
    rows = [[f"{value:.4g}" for value in row.values()] for row in seen]
    body = [
        f"<h1>{escape(title)}</h1>",
        *(f"<p>{escape(line)}</p>" for line in said),
        "<h2>What was measured, against gamma; the best candidate is ringed</h2>",
        f'<div class="paper">{svg(drawn, "0")}</div>',
        *table(f"All {len(seen)} candidates", list(seen[0]), rows),
    ]
    return document(title, body)
