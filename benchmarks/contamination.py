"""Training rows of which a share are outliers: what recall, ranking and power are left, and what trimming gives back.

    python benchmarks/contamination.py --data DIR [--only WORD] [--output FILE.json]

DIR/tabular holds tables as NAME.npz (benchmarks/tabular.py). Of the tables with 200 training rows, 200 anomalies and 60
features or fewer, every third. A detector learns 400 rows (or all), of which 0, 5, 10 or 20 % are anomalies of the test
rows; the others of these are what it is asked to tell. Each detector stands behind a StandardScaler.

"power" is the share of anomalies that is rejected, by the detector's own threshold. Conformal p-values are by a half of
the rows (outliers among them); "trimmed" are by the rows of that half that are left when as many of the lowest are
taken away as the share of outliers is (which one has to know). The bound is `slabsvm.contamination` of the training
rows, by p-values of 200 other rows that are known to be good.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from harness import Benchmark, Case, Document, Options, Record, Table, means, tables
from samples import DATA
from slabsvm import (
    ConformalDetector,
    KernelDensityDetector,
    OneClassSlabSVM,
    OneClassSVM,
    TrimmedDetector,
    conformal_p_values,
    contamination,
)

SHARES = (0.0, 0.05, 0.1, 0.2)
LEAST, FEATURES, ROWS, ASKED = 200, 60, 400, 600
ALPHA = 0.1


def scaled(detector: object) -> object:
    return make_pipeline(StandardScaler(), detector)


MODELS = {
    "slab": scaled(OneClassSlabSVM()),
    "one-class SVM": scaled(OneClassSVM()),
    "one-class SVM, gamma scale": scaled(OneClassSVM(gamma="scale")),
    "one-class SVM, gamma scale, nu .1 + share": scaled(OneClassSVM(gamma="scale")),
    "kernel density": scaled(KernelDensityDetector()),
    "trimmed slab": TrimmedDetector(scaled(OneClassSlabSVM())),
    "trimmed one-class SVM, gamma scale": TrimmedDetector(scaled(OneClassSVM(gamma="scale"))),
    "trimmed slab, trim .1": TrimmedDetector(scaled(OneClassSlabSVM()), trim=0.1),
    "trimmed slab, trim .3": TrimmedDetector(scaled(OneClassSlabSVM()), trim=0.3),
    "trimmed slab, judged by itself": TrimmedDetector(scaled(OneClassSlabSVM()), judge=scaled(OneClassSlabSVM())),
    "clean: slab": scaled(OneClassSlabSVM()),
    "clean: one-class SVM, gamma scale": scaled(OneClassSVM(gamma="scale")),
}


def drawn(file: Path, share: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training rows with which are good, rows to ask about with which are good, and other good rows."""
    table, rng = np.load(file), np.random.default_rng(0)
    train, test, is_good = table["train"], table["test"], table["test_is_normal"].astype(bool)
    train = train[rng.permutation(len(train))]
    held = min(LEAST, len(train) // 3)
    n = min(ROWS, len(train) - held)
    anomalies = rng.permutation(np.flatnonzero(~is_good))
    k = round(share * n)
    learned = np.concatenate([train[held : held + n - k], test[anomalies[:k]]])
    asked = np.concatenate([rng.permutation(np.flatnonzero(is_good))[:ASKED], anomalies[k:][:ASKED]])
    return learned, np.arange(n) < n - k, test[asked], is_good[asked], train[:held]


def answered(decisions: np.ndarray, is_good: np.ndarray) -> dict[str, float]:
    return {
        "auroc": float(roc_auc_score(is_good, decisions)),
        "recall": float((decisions[is_good] >= 0).mean()),
        "power": float((decisions[~is_good] < 0).mean()),
    }


def measure(file: Path, share: float) -> list[Record]:
    """Return a record for each model, each way to p-values, and the bound."""
    rows, is_learned_good, asked, is_good, known = drawn(file, share)
    if len(rows) < 3 or is_good.all():
        return []
    base = {"table": file.stem, "share": share}
    records = []
    for name, model in MODELS.items():
        detector, learned = clone(model), rows[is_learned_good] if name.startswith("clean") else rows
        if name.endswith("nu .1 + share"):
            detector.set_params(oneclasssvm__nu=0.1 + share)
        decisions = detector.fit(learned).decision_function(asked)
        records.append(base | {"section": "model", "label": name} | answered(decisions, is_good))
    wrapped = scaled(OneClassSlabSVM())
    plain = ConformalDetector(wrapped, alpha=ALPHA).fit(rows)
    trimmed = ConformalDetector(TrimmedDetector(wrapped), alpha=ALPHA).fit(rows)
    for name, detector in (("p-values", plain), ("p-values, trimmed detector", trimmed)):
        p = detector.p_values(asked)
        records.append(base | {"section": "p-values", "label": name} | answered(p - ALPHA - 1e-9, is_good))
    kept = trimmed.calibration_scores_[0][round(share * trimmed.n_calibration_) :]
    p = conformal_p_values(kept, trimmed.estimators_[0].decision_function(asked))
    name = "p-values, trimmed detector and calibration"
    records.append(base | {"section": "p-values", "label": name} | answered(p - ALPHA - 1e-9, is_good))
    # Known good rows calibrate, and learn nothing; the training rows are asked about, and were not learned either.
    reference = ConformalDetector(wrapped, method="split", alpha=ALPHA).fit(known)
    found = contamination(reference.p_values(rows), reference.n_calibration_)
    bound = {"section": "bound", "label": "bound", "least": found.least, "estimate": found.estimate}
    records.append(base | bound | {"holds": float(found.least <= share)})
    return records


def cases(options: Options) -> Iterator[Case]:
    files = sorted((options.data / "tabular").glob("*.npz")) if options.data else []
    fit = []
    for file in files:
        table = np.load(file)
        anomalies = int((~table["test_is_normal"].astype(bool)).sum())
        if len(table["train"]) >= LEAST and table["train"].shape[1] <= FEATURES and anomalies >= LEAST:
            fit.append(file)
    for file in fit[::3]:
        for share in SHARES:
            yield f"{file.stem}, {share:g}", partial(measure, file, share)


MEASURED = ("auroc", "recall", "power", "least", "estimate", "holds")
LINE = "{label} | {share:.0%} | {auroc:.3f} | {recall:.3f} | {power:.3f}".format_map
REPORT = tables(
    Table("detector | outliers | AUROC | recall | power", LINE, section="model"),
    Table("by | outliers | AUROC | recall | power", LINE, section="p-values"),
    Table(
        "outliers | bound, .95 | estimate | bound holds",
        "{share:.0%} | {least:.3f} | {estimate:.3f} | {holds:.0%}".format_map,
        align="rrrr",
        section="bound",
    ),
)


def report(document: Document) -> str:
    averages = means(document["records"], ("section", "label", "share"), MEASURED)
    return REPORT({"records": averages})


if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, report, keys=("table", "share", "label"), arguments=DATA).main()
