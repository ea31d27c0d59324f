"""Outliers among the training rows: what they cost a detector, and what a `TrimmedDetector` around it gains.

    python benchmarks/contaminated.py --data DIR [--page docs/how-to/contaminated-data.md]

At most 400 good rows are learned behind a scaler, with outliers from one half of a table's; the other half is judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from harness import Benchmark, Case, Document, Options, Record, means, table
from samples import read_table, table_files
from slabsvm import AutoDetector, OneClassSlabSVM, TrimmedDetector

SHARES = (0.0, 0.1, 0.2)
MODELS = {"OneClassSlabSVM": OneClassSlabSVM, "AutoDetector": AutoDetector}
# Good rows that are learned, at most, and rows of each kind that are judged.
N_GOOD, N_JUDGED = 400, 500
# More than the share of outliers is trimmed by this much.
MORE = 0.1


def measure(file: Path) -> Iterator[Record]:
    """Give the AUROC of each model, plain and trimmed, for each share of outliers; none if there are too few."""
    train, test, is_normal = read_table(file)
    rng = np.random.default_rng(0)
    good, outliers = rng.permutation(train)[:N_GOOD], rng.permutation(test[~is_normal])
    learned, judged = np.array_split(outliers, 2)
    if len(learned) < len(good) * SHARES[-1] / (1 - SHARES[-1]):
        return
    new = np.concatenate([rng.permutation(test[is_normal])[:N_JUDGED], judged[:N_JUDGED]])
    is_good = np.arange(len(new)) < len(new) - len(judged[:N_JUDGED])
    for share in SHARES:
        rows = np.concatenate([good, learned[: round(len(good) * share / (1 - share))]])
        record: Record = {"table": file.stem, "share": share}
        for name, model in MODELS.items():
            for way, detector in {"plain": model(), "trimmed": TrimmedDetector(model(), trim=share + MORE)}.items():
                fitted = make_pipeline(StandardScaler(), detector).fit(rows)
                record[f"{name}, {way}"] = round(float(roc_auc_score(is_good, fitted.decision_function(new))), 4)
        yield record


def cases(options: Options) -> Iterator[Case]:
    for file in table_files(options):
        yield file.stem, partial(measure, file)


def report(document: Document) -> str:
    columns = [f"{name}, {way}" for name in MODELS for way in ("plain", "trimmed")]
    found = means(document["records"], ("share",), columns)
    rows = [" | ".join([f"{one['share']:g}", *(f"{one[name]:.3f}" for name in columns)]) for one in found]
    head = " | ".join(["outliers", *columns])
    return f"Mean AUROC of {found[0]['fits']} tables.\n\n{table(head, rows, 'r' * (1 + len(columns)))}"


if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, report, keys=("table", "share"), alone=()).main()
