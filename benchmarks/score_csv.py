"""What `slabsvm score` costs on a large CSV file, against reading the file with the same reader in the same pieces.

    python benchmarks/score_csv.py

Tables of 20 correlated numbers. A model learns 1,000 rows (one 10,000), then scores a file: read, encoded, scored,
given p-values and written, with and without reasons for the rejected rows, which are a tenth. Seconds are of CPU, on
one thread, of passes that take turns. What is needed at most of memory is that of a process that does nothing else.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd

from harness import Benchmark, Case, Options, Record, Table, in_own_process, interleaved, tables
from slabsvm.command.fit import detector_of
from slabsvm.command.model import RowNames, loaded
from slabsvm.command.scoring import Run, Scorer, output_file, separated_lines
from slabsvm.files import save
from slabsvm.files.tables import Reading, pieces
from slabsvm.tables import TableEncoder

N_COLUMNS = 20
REPEATS = 3
TUNED_GAMMA = 0.5 / N_COLUMNS
# The detector, the rows that it learns, the rows that it scores, and the columns that say why a row is rejected.
CASES = (
    ("auto", 1000, 200_000, 0),
    ("auto", 1000, 200_000, 3),
    ("auto", 10_000, 50_000, 0),
    ("slab", 1000, 200_000, 0),
    ("slab, tuned", 1000, 200_000, 0),
    ("one-class-svm", 1000, 200_000, 0),
    ("svdd", 1000, 200_000, 0),
    ("one-class-svm", 1000, 1_000_000, 0),
    ("auto", 1000, 1_000_000, 0),
)


@cache
def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="slabsvm-score-"))


def rows(n_rows: int, seed: int) -> pd.DataFrame:
    mixing = np.eye(N_COLUMNS) + np.random.default_rng(9).normal(size=(N_COLUMNS, N_COLUMNS)) / 4
    drawn = np.random.default_rng(seed).normal(size=(n_rows, N_COLUMNS)) @ mixing
    return pd.DataFrame(drawn).add_prefix("c").round(5)


@cache
def table(n_rows: int) -> Path:
    path = folder() / f"{n_rows}.csv"
    rows(n_rows, 1).to_csv(path, index=False)
    return path


@cache
def model(detector: str, n_learned: int) -> Path:
    from sklearn.pipeline import make_pipeline

    path = folder() / f"{detector}-{n_learned}.skops"
    name, _, tuned = detector.partition(", ")
    steps = [step for _, step in detector_of(name, 0.9, 0, None)]
    if tuned:
        # What a search finds on this table.
        steps[-1].set_params(gamma=TUNED_GAMMA)
    save(make_pipeline(TableEncoder(), *steps).fit(rows(n_learned, 0)), path)
    return path


def score(model: Path, table: Path, output: Path, reasons: int) -> Run:
    pipeline = loaded(model)
    run = Run(Scorer(pipeline, None), reasons, RowNames(pipeline[0], None))
    with output_file(output) as file:
        run.write(pieces(table, Reading()), file, ",")
    return run


def peak_megabytes(model: Path, table: Path, output: Path, reasons: int) -> float:
    """Return the MB that a process needs which scores a table; in a process of its own."""
    score(model, table, output, reasons)
    # What getrusage says is no less than the process had before it became this one.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return float(status.split("VmHWM:")[1].split()[0]) / 1024


def parts(model: Path, table: Path) -> dict[str, float]:
    """Return the seconds of a pass that go into the detector's scores, and into writing."""
    scorer, seconds = Scorer(loaded(model), None), {"scores": 0.0, "writing": 0.0}
    for piece in pieces(table, Reading()):
        values = scorer.encoder.encoded(piece).values
        for _, step in scorer.between:
            values = step.transform(values)
        begin = time.process_time()
        scorer.detector.score_samples(values)
        seconds["scores"] += time.process_time() - begin
        answers = scorer.answers(piece)
        begin = time.process_time()
        separated_lines(range(len(piece)), answers, [([], [])] * len(piece), ",")
        seconds["writing"] += time.process_time() - begin
    return seconds


def read(table: Path) -> int:
    return sum(len(piece) for piece in pieces(table, Reading()))


def measure(detector: str, n_learned: int, n_rows: int, reasons: int) -> Record:
    fitted, path, output = model(detector, n_learned), table(n_rows), folder() / "scored.csv"
    score(fitted, table(1000), output, reasons)
    many = n_rows > 500_000
    seconds, answers = interleaved(
        {"read": lambda: read(path), "score": lambda: score(fitted, path, output, reasons)},
        1 if many else REPEATS,
        warm_up=False,
        clock=time.process_time,
    )
    within = parts(fitted, path) if not many else {}
    last = loaded(fitted)[-1]
    vectors = [len(getattr(part, "support_", ())) for part in getattr(last, "members_", [last])]
    read_seconds, all_seconds = (min(seconds[name]) for name in ("read", "score"))
    return {
        "detector": detector,
        "learned": n_learned,
        "rows": n_rows,
        "reasons": reasons,
        "support_vectors": sum(vectors),
        "rejected": round(answers["score"].share, 4),
        "read_seconds": round(read_seconds, 3),
        "seconds": round(all_seconds, 3),
        "ratio": round(all_seconds / read_seconds, 2),
        **{f"{name}_ratio": round(value / read_seconds, 2) for name, value in within.items()},
        "peak_mb": round(in_own_process(peak_megabytes, fitted, path, output, reasons)),
    }


def row(record: Record) -> str:
    shown = [f"{record[name]:.1f}" if name in record else "" for name in ("scores_ratio", "writing_ratio")]
    cells = [
        record["detector"],
        f"{record['learned']:,}",
        f"{record['support_vectors']:,}",
        f"{record['rows']:,}",
        str(record["reasons"]),
        f"{1e6 * record['read_seconds'] / record['rows']:.1f}",
        f"{record['ratio']:.1f}",
        *shown,
        str(record["peak_mb"]),
    ]
    return " | ".join(cells)


def cases(_: Options) -> Iterator[Case]:
    for case in CASES:
        detector, n_learned, n_rows, reasons = case
        yield f"{detector}, {n_learned} learned, {n_rows} rows, {reasons} reasons", partial(measure, *case)


TABLE = Table(
    "detector | learned | support vectors | rows | reasons | reading, us a row | all / reading | scores / reading | "
    "writing / reading | MB",
    row,
)

if __name__ == "__main__":
    Benchmark(
        __file__, __doc__, cases, tables(TABLE), keys=("detector", "learned", "rows", "reasons"), packages=("pandas",)
    ).main()
