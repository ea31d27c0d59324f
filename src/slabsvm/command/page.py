"""One page about a saved model, with everything in it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slabsvm import __version__
from slabsvm.command.facts import facts, short, summary

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse }
th, td { text-align: left; padding: .2rem 1rem .2rem 0; border-bottom: 1px solid #ddd }
pre { background: #f6f6f6; padding: 1rem; overflow-x: auto }
.warning { border-left: 4px solid #b30; padding-left: 1rem } svg { max-width: 100%; height: auto }
"""


def page(model: Pipeline, path: Path) -> str:
    """Return the page as HTML."""
    found = facts(model, path)
    rows = f"{found['rows']:,} rows"
    share = found["expected_recall"]
    lead = "" if share is None else f" It is expected to accept {share:.1%} of new good rows."
    columns = [(column["name"], column["statement"]) for column in found["columns"]]
    body = [
        f"<h1>{escape(path.name)}</h1>",
        f"<p>{escape(found['detector'])}, learned from {rows}.{lead}</p>",
        *(f'<p class="warning">{escape(text)}</p>' for text in found["warnings"]),
        *_pictures(model[-1]),
        "<h2>Columns</h2>",
        _table(("column", "how it is taken"), columns),
        f"<p>Left out: {escape(', '.join(found['left_out']) or 'none')}. Empty cells: {escape(found['missing'])}.</p>",
        "<h2>Fit</h2>",
        f"<pre>{escape(chr(10).join(summary(model[-1])))}</pre>",
        "<h2>Support vectors, planes and certificates</h2>",
        _parts(found["parts"]),
        "<h2>Parameters</h2>",
        _table(("parameter", "value"), [(name, repr(value)) for name, value in found["parameters"].items()]),
        f"<p><small>Made by slabsvm {escape(__version__)}.</small></p>",
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(path.name)}</title>'
        f"<style>{STYLE}</style></head>\n<body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _pictures(detector: Any) -> list[str]:
    """Return the pictures of what has leave-one-out scores."""
    from slabsvm.detectors.pipelines import final_detector
    from slabsvm.display.scores import scores_svg

    drawn: list[str] = []
    for one in map(final_detector, (detector, *getattr(detector, "estimators_", ()))):
        if hasattr(one, "loo_scores_"):
            drawn.append(scores_svg(one, str(len(drawn))))
    title = "<h2>Where the learned rows are, each without itself, and what is accepted</h2>"
    return [title, *drawn] if drawn else []


def _parts(parts: list[dict[str, Any]]) -> str:
    """Return a table with a column for each part."""
    names = list(dict.fromkeys(name for part in parts for name in part))
    rows = [(name.replace("_", " "), *(short(part.get(name)) for part in parts)) for name in names]
    return _table(("", *(str(number + 1) for number in range(len(parts)))), rows)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = ["<tr>" + "".join(f"<th>{escape(name)}</th>" for name in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    return "<table>" + "\n".join(lines) + "</table>"
