"""How near models in ONNX are to those in Python, how large they are, and how fast.

    python benchmarks/exported.py --data DIR [--only WORD]
    python benchmarks/exported.py --read [--page docs/how-to/onnx.md]

DIR/tabular holds tables as NAME.npz: `train` (normal rows), `test` and `test_is_normal`. A case is a model on a table
of ADBench: it learns at most 500 rows, and answers at most 1,000. A difference is the largest of any row's
decision_function, as a share of the range of the middle 90 % of normal rows' decisions, or of the row's own where that
is more. Seconds are processor time of one thread, of onnxruntime and of Python in turns. Needs
`pip install ".[test]"`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from threadpoolctl import threadpool_limits

from harness import Benchmark, Case, Document, Options, Record, interleaved, table
from samples import DATA, read_table, table_files
from slabsvm import (
    SVDD,
    AutoDetector,
    ConformalDetector,
    KernelDensityDetector,
    KernelPCADetector,
    OneClassSlabSVM,
    OneClassSVM,
)
from slabsvm.files import to_onnx

LEARNED, ANSWERED = 500, 1000
REPEATS = 3
TYPES = {"float32": np.float32, "float64": np.float64}
HISTOGRAMS = ("intersection", "hellinger", "chi2")
MODELS: dict[str, Any] = {
    "slab": OneClassSlabSVM(),
    'slab, gamma="scale"': OneClassSlabSVM(gamma="scale"),
    "slab, linear": OneClassSlabSVM(kernel="linear"),
    **{f"slab, {kernel}": OneClassSlabSVM(kernel=kernel) for kernel in HISTOGRAMS},
    "AutoDetector": AutoDetector(),
    "one-class SVM": OneClassSVM(),
    "SVDD": SVDD(),
    "kernel PCA": KernelPCADetector(),
    "kernel PCA, chi2": KernelPCADetector(kernel="chi2"),
    "kernel density": KernelDensityDetector(),
    "calibrated slab": ConformalDetector(OneClassSlabSVM()),
}


def measure(path: Path, name: str) -> Iterator[Record]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    learned, new, normal = read_table(path)
    learned = learned[:LEARNED]
    order = np.random.default_rng(0).permutation(len(new))[:ANSWERED]
    new, normal = new[order], normal[order]
    scaler = MinMaxScaler(clip=True) if any(kernel in name for kernel in HISTOGRAMS) else StandardScaler()
    model = make_pipeline(scaler, MODELS[name]).fit(learned)
    for type_name, dtype in TYPES.items():
        rows = new.astype(dtype)
        graph = to_onnx(model, dtype=dtype).SerializeToString()
        session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        with threadpool_limits(1):
            seconds, answers = interleaved(
                {
                    "onnx": partial(session.run, ["label", "scores"], {"X": rows}),
                    "python": partial(model.decision_function, rows.astype(np.float64)),
                },
                REPEATS,
                clock=time.process_time,
            )
        (labels, scores), decisions = answers["onnx"], answers["python"]
        unit = float(np.subtract(*np.quantile(decisions[normal], [0.95, 0.05])))
        clear = np.abs(decisions) > np.finfo(dtype).eps * unit
        yield {
            "table": path.stem,
            "model": name,
            "type": type_name,
            "features": learned.shape[1],
            "difference": float(f"{(np.abs(scores - decisions) / np.maximum(unit, np.abs(decisions))).max():.2g}"),
            "other_labels": int((labels != np.where(decisions >= 0, 1, -1))[clear].sum()),
            "bytes": len(graph),
            "ratio": round(float(np.median(seconds["onnx"]) / np.median(seconds["python"])), 2),
        }


def cases(options: Options) -> Iterator[Case]:
    for path in table_files(options):
        for name in MODELS:
            if path.stem.startswith("adbench-"):
                yield f"{name}: {path.stem}", partial(measure, path, name)


def report(document: Document) -> str:
    """Return a row for each model: the worst over tables of what should be small, and medians of the rest."""

    def cells(name: str, type_name: str) -> list[str]:
        some = [record for record in document["records"] if (record["model"], record["type"]) == (name, type_name)]
        size, ratio = (np.median([record[field] for record in some]) for field in ("bytes", "ratio"))
        worst, wrong = max(record["difference"] for record in some), sum(record["other_labels"] for record in some)
        return [f"{worst:.1g}", f"{wrong}", f"{size / 1000:,.0f}", f"{ratio:.1f}"]

    names = dict.fromkeys(record["model"] for record in document["records"])
    head = " | ".join(f"{name}: difference | other labels | kB | time / Python's" for name in TYPES)
    return table(
        f"model | {head}", (" | ".join([name, *cells(name, "float32"), *cells(name, "float64")]) for name in names)
    )


if __name__ == "__main__":
    Benchmark(
        __file__,
        __doc__,
        cases,
        report,
        keys=("table", "model", "type"),
        arguments=DATA,
        packages=("onnx", "onnxruntime"),
    ).main()
