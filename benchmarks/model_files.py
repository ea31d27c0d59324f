"""Ten thousand damaged, foreign and hostile model files: what reading each takes, and what comes of it.

    python benchmarks/model_files.py

Six models of 40 rows (an RBF, an intersection and a chi2 slab, AutoSlabSVM, a calibrated pipeline, an open set with a
classifier) are saved, and their files changed in the ways of tests/damage.py, each file by a seed of its own. Every
changed file is either refused with ModelFileError or read; what is read answers 40 rows. Accidents, which change bytes,
must leave what decides to the last bit as the model that was saved. Malice writes archives whose check sums are right:
what is read of these decides otherwise, or refuses rows with a ValueError.
Anything else ends the benchmark with an error. Times are of one load, in a process that has loaded and compiled all
before; memory is the peak that Python and NumPy allocate in one.

And what compressing the members would save: sizes, and processor times of saving and loading, the least of some turns.
"""

from __future__ import annotations

import sys
import tempfile
import time
import tracemalloc
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from harness import Benchmark, Case, Options, Record, Table, tables
from slabsvm import AutoSlabSVM, ConformalDetector, OneClassSlabSVM, OpenSetClassifier
from slabsvm.files import ModelFileError, load, save

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from damage import ACCIDENTS, MALICE

FILES_OF_A_KIND = 910
TURNS = 9
X = np.random.default_rng(0).gamma(2.0, size=(40, 3))
MODELS = (
    OneClassSlabSVM(),
    OneClassSlabSVM(kernel="intersection"),
    OneClassSlabSVM(kernel="chi2"),
    AutoSlabSVM(),
    ConformalDetector(make_pipeline(StandardScaler(), OneClassSlabSVM(kernel="linear"))),
    OpenSetClassifier(classifier=SVC()),
)


@cache
def saved() -> list[tuple[bytes, np.ndarray]]:
    """Return each model's file, and its decisions."""
    warnings.simplefilter("ignore")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.slab"
        for model in MODELS:
            save(model.fit(X, np.arange(40) % 2), path)
            load(path).decision_function(X)
            found.append((path.read_bytes(), model.decision_function(X)))
    return found


def answered(path: Path, decisions: np.ndarray, *, alike: bool) -> str:
    """Return what comes of a file."""
    try:
        model = load(path)
    except ModelFileError:
        return "refused"
    try:
        found = model.decision_function(X)
    except ValueError:
        assert not alike, "an accident left a model that cannot decide"
        return "refuses_rows"
    if np.array_equal(found, decisions):
        return "decides_as_before"
    assert not alike, "an accident left a model that decides otherwise"
    return "decides_otherwise"


def measure(kind: str) -> Record:
    make, alike = (ACCIDENTS | MALICE)[kind], kind in ACCIDENTS
    found: Record = {"section": "damage", "kind": kind, "files": FILES_OF_A_KIND, "slowest_ms": 0.0, "largest_mb": 0.0}
    found |= dict.fromkeys(("refused", "decides_as_before", "decides_otherwise", "refuses_rows"), 0)
    models = saved()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "damaged.slab"
        for seed in range(FILES_OF_A_KIND):
            content, decisions = models[seed % len(models)]
            path.write_bytes(make(content, np.random.default_rng([seed, *kind.encode()])))
            found[answered(path, decisions, alike=alike)] += 1
            found["slowest_ms"] = max(found["slowest_ms"], 1e3 * _seconds(path))
            found["largest_mb"] = max(found["largest_mb"], _bytes(path) / 1e6)
    return {name: round(value, 1) if isinstance(value, float) else value for name, value in found.items()}


def rows_of(name: str) -> np.ndarray:
    if name == "normal":
        return np.random.default_rng(0).normal(size=(5000, 50))
    loader = {"digits": load_digits, "breast cancer": load_breast_cancer}[name]
    return np.asarray(loader().data, dtype=np.float64)


def measure_size(data: str) -> Record:
    """Measure a model's file as it is, and how long its bytes take to be deflated and inflated."""
    warnings.simplefilter("ignore")
    model = OneClassSlabSVM().fit(rows_of(data))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.slab"
        saving = least_time(lambda: save(model, path))
        loading = least_time(lambda: load(path))
        content = path.read_bytes()
    deflated = zlib.compress(content)
    return {
        "section": "size",
        "kind": data,
        "bytes": len(content),
        "deflated": round(len(deflated) / len(content), 2),
        "saving_ms": round(1e3 * saving, 2),
        "loading_ms": round(1e3 * loading, 2),
        "deflating_ms": round(1e3 * least_time(lambda: zlib.compress(content)), 2),
        "inflating_ms": round(1e3 * least_time(lambda: zlib.decompress(deflated)), 2),
    }


def least_time(action: Callable[[], object]) -> float:
    """Return the least processor time of some turns, in seconds."""
    turns = []
    for _ in range(TURNS):
        start = time.process_time()
        action()
        turns.append(time.process_time() - start)
    return min(turns)


def _loaded(path: Path) -> None:
    with suppress(ModelFileError):
        load(path)


def _seconds(path: Path) -> float:
    start = time.perf_counter()
    _loaded(path)
    return time.perf_counter() - start


def _bytes(path: Path) -> int:
    tracemalloc.start()
    _loaded(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def cases(_: Options) -> Iterator[Case]:
    for kind in (*ACCIDENTS, *MALICE):
        yield kind, partial(measure, kind)
    for data in ("breast cancer", "digits", "normal"):
        yield f"size {data}", partial(measure_size, data)


def row(record: Record) -> str:
    counts = (record[name] for name in ("files", "refused", "decides_as_before", "decides_otherwise", "refuses_rows"))
    costs = (f"{record['slowest_ms']:.0f}", f"{record['largest_mb']:.1f}")
    return " | ".join([record["kind"], *(f"{count:,}" for count in counts), *costs])


HEAD = "what was done | files | refused | read: decide as before | otherwise | refuse rows | slowest, ms | memory, MB"
DAMAGE = Table(HEAD, row, "lrrrrrrr", section="damage")
SIZE = Table(
    "slab of | file, kB | deflated | save, ms | deflate besides | load, ms | inflate besides",
    lambda record: (
        f"{record['kind']} | {record['bytes'] / 1e3:,.0f} | {record['deflated']:.0%} | {record['saving_ms']:.1f} | "
        f"{record['deflating_ms']:.1f} | {record['loading_ms']:.1f} | {record['inflating_ms']:.1f}"
    ),
    section="size",
)

if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, tables(DAMAGE, SIZE), keys=("kind",)).main()
