"""How well some hundreds of exact left-out scores put the planes of more than 1,000 rows, on real tables.

    python benchmarks/many_rows.py [--data DIR] [--only WORD]

DIR/tabular has the tables of `tabular.py`. 2,500 rows of each that has more, and 4,000 of every fourth, are learned,
standardised, where more than 2,000 are distinct. Every support vector is left out exactly, and the planes of these
scores are the truth. Where their own error leaves more than .005 of the rows in doubt, the fit does not count. "Off" is
the share of the rows whose exact scores other planes accept, less the share that the true ones do. The default fit
leaves some hundreds of them out; "closed" is the closed form alone. "Beyond" is the share of fits whose planes accept
other rows and are off by more than twice `loo_error_`. Seconds are processor time of one thread, timed once.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

from default_fits import MODELS, seconds, table_rows
from harness import Benchmark, Case, Document, Options, Record, Table
from samples import DATA, read_table, table_files
from slabsvm.detectors import support_vectors
from slabsvm.dual.leave_one_out import closed_form, leave_one_out
from slabsvm.dual.solution import Status
from slabsvm.dual.unlearning import EXACT

# Rows to learn, and of which share of the tables.
ROWS = {2500: 1, 4000: 4}
# Scores of all support vectors are no truth where their own error may accept so many more of the rows, or fewer.
SURE = 0.005


def measure(file: Path, n_rows: int, name: str) -> list[Record]:
    """Return how far planes are off on some rows of a table, or nothing where there is nothing to compare."""
    X = table_rows(file, n_rows)
    compared: Record = {}

    def left_out(dual: Any, gram: Any, solution: Any, **how: Any) -> Any:
        """Return what the fit takes, and compare it with what leaving every support vector out gives."""
        ours = leave_one_out(dual, gram, solution, **how)
        if dual.n_samples > EXACT and solution.status is not Status.DEGENERATE:
            every = leave_one_out(dual, gram, solution, exact=len(X), **how)
            exact, planes = every.scores, dual.offsets(every.scores)
            wider, narrower = (dual.accepts(exact, planes, sign * every.error) for sign in (1.0, -1.0))
            if np.average(wider & ~narrower, weights=dual.caps[0]) > SURE:
                return ours
            closed = closed_form(dual, gram, solution, **how).scores
            truth = accepted(dual, exact, exact)
            compared["ours"] = accepted(dual, ours.scores, exact) - truth
            compared["closed"] = accepted(dual, closed, exact) - truth
            planes_off = np.abs(dual.offsets(ours.scores) - planes).max()
            compared["beyond"] = bool(compared["ours"] != 0.0 and planes_off > 2.0 * ours.error)
        return ours

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with mock.patch.object(support_vectors, "leave_one_out", left_out):
            MODELS[name]().fit(X)
        if not compared:
            return []
        taken = {offsets: seconds(MODELS[name](offsets=offsets), X) for offsets in ("leave-one-out", "training")}
    return [{"table": file.stem, "model": name, "rows": n_rows, **compared, "seconds": taken}]


def accepted(dual: Any, of: np.ndarray, exact: np.ndarray) -> float:
    """Return the share of exact scores that the planes of some scores accept."""
    return float(np.average(dual.accepts(exact, dual.offsets(of), 0.0), weights=dual.caps[0]))


def cases(options: Options) -> Iterator[Case]:
    for n_rows, each in ROWS.items():
        for file in table_files(options)[::each]:
            if len(read_table(file)[0]) >= n_rows:
                for name in MODELS:
                    yield f"{file.stem}, {n_rows} rows, {name}", partial(measure, file, n_rows, name)


def summed(records: list[Record]) -> Iterator[Record]:
    """Return, for each model and number of rows, how far planes are off."""
    for n_rows in ROWS:
        for name in MODELS:
            some = [record for record in records if (record["model"], record["rows"]) == (name, n_rows)]
            if not some:
                continue
            found: Record = {"model": name, "rows": n_rows, "tables": len(some)}
            for way in ("ours", "closed"):
                off = np.array([record[way] for record in some])
                found |= {
                    f"{way}_mean": float(off.mean()),
                    f"{way}_rms": float(np.sqrt((off**2).mean())),
                    f"{way}_worst": float(off[np.abs(off).argmax()]),
                }
            found["beyond"] = float(np.mean([record["beyond"] for record in some]))
            for offsets in ("leave-one-out", "training"):
                found[offsets] = sum(record["seconds"][offsets] for record in some)
            yield found


COLUMNS = Table(
    "rows | model | tables | off: mean | root mean square | worst | beyond | closed form: mean | root mean square "
    "| worst | seconds in all | training planes",
    (
        "{rows} | `{model}` | {tables} | {ours_mean:+.4f} | {ours_rms:.4f} | {ours_worst:+.4f} | {beyond:.0%} "
        "| {closed_mean:+.4f} | {closed_rms:.4f} | {closed_worst:+.4f} | {leave-one-out:.1f} | {training:.1f}"
    ).format_map,
    "rl" + "r" * 10,
)


def report(document: Document) -> str:
    return COLUMNS.of(list(summed(document["records"])))


if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, report, arguments=DATA).main()
