"""Measure where the planes should be put: at quantiles of training scores, or of leave-one-out scores.

    .venv/bin/python benchmarks/offsets.py [--data DIR]       # measure, write the records, print the tables
    .venv/bin/python benchmarks/offsets.py --read             # print the tables of the records that are there

Every model learns one class from a random half of its samples. The share that it accepts of the other half is its
recall, which is set against the nominal recall, 1 - nu_lower - nu_upper; the samples of the other classes are novel.
Features are scaled by the training samples alone. docs/offsets.md explains the protocol and reads the tables.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import warnings
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import scipy
import sklearn
from joblib import Parallel, cpu_count, delayed
from scipy.stats import betabinom, wilcoxon
from sklearn import datasets as bundled
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from slabsvm import OneClassSlabSVM, __version__
from slabsvm_reproduction.letter.data import load_letters
from slabsvm_reproduction.run.counts import Counts

RECORDS = Path(__file__).parent / "results" / "offsets.json"
MARKS = ("<!-- tables -->", "<!-- end of tables -->")
LETTER_FILE = Path("letter") / "letter-recognition.data"

OFFSETS = ("training", "leave-one-out")
GAMMA_MULTIPLES = (0.1, 1.0, 10.0, 100.0)
ADDITIVE = ("intersection", "hellinger", "chi2")
N_SPLITS = 3
MOST_TRAINING, MOST_HELD_OUT, MOST_NOVEL = 250, 400, 600

# Differences below this are ties.
TIE = 0.005

# Other points of the trade between recall and false acceptance.
NU_LOWERS = (0.1, 0.3, 0.5, 0.7)

SMALL_SIZES = (20, 50, 100, 200)
SMALL_SPLITS = 20
SMALL_SETS = ("blobs 2", "blobs 16", "heavy tails", "histograms", "letter")

Record = dict[str, Any]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class DataSet:
    """Samples of several classes, some of which are learned, one at a time.

    Attributes
    ----------
    name : str
    X : (n, d) array
    y : (n,) array, the classes
    known : tuple, the classes that are learned
    additive : bool, whether the features are amounts, fit for additive kernels
    n_training : int or None, training samples; None is half of the class
    """

    name: str
    X: Array
    y: Array
    known: tuple[Any, ...]
    additive: bool = False
    n_training: int | None = None


@dataclass(frozen=True)
class Model:
    """What a fit depends on, but for its data and its offsets; gamma_multiple is in units of gamma="scale"."""

    kernel: str
    gamma_multiple: float | None
    nu_lower: float
    nu_upper: float
    epsilon: float

    @property
    def nominal_recall(self) -> float:
        return 1 - self.nu_lower - (self.nu_upper if self.epsilon else 0.0)

    def fit(self, train: Array, offsets: str) -> OneClassSlabSVM:
        gamma: float | str = "scale"
        if self.gamma_multiple is not None and train.var() > 0:
            gamma = self.gamma_multiple / (train.shape[1] * train.var())
        return OneClassSlabSVM(
            kernel=self.kernel,
            gamma=gamma,
            nu_lower=self.nu_lower,
            nu_upper=self.nu_upper,
            epsilon=self.epsilon,
            offsets=offsets,
        ).fit(train)


DEFAULT_MODEL = Model("rbf", 1.0, 0.1, 0.01, 2 / 3)


# Data


def data_sets(letter_file: Path | None) -> list[DataSet]:
    """Return all data sets, Letter among them where its file is given."""
    sets = [*_bundled(), *_generated()]
    if letter_file is not None:
        letters = load_letters(letter_file)
        sets.insert(4, DataSet("letter", letters.X, letters.y, tuple("ADGJMPSV"), additive=True))
    return sets


def _bundled() -> Iterable[DataSet]:
    for name, load in {
        "digits": bundled.load_digits,
        "wine": bundled.load_wine,
        "breast cancer": bundled.load_breast_cancer,
        "iris": bundled.load_iris,
    }.items():
        X, y = load(return_X_y=True)
        yield DataSet(name, X, y, tuple(np.unique(y).tolist()), additive=True)


def _generated() -> Iterable[DataSet]:
    """Yield generated data sets, all far enough from the origin for a linear kernel to see one side of them."""
    for name, make in {
        "blobs 2": _blobs(2, 2.5),
        "blobs 16": _blobs(16, 3.5),
        "clusters 8": _clusters,
        "heavy tails": _heavy_tails,
    }.items():
        X, y = make(_rng(name))
        yield DataSet(name, X, y, tuple(np.unique(y).tolist()))
    X, y = bundled.make_moons(900, noise=0.1, random_state=0)
    yield DataSet("moons", X + 10, y, (0, 1))
    X, y = _ring(_rng("ring"))
    yield DataSet("ring", X, y, (0,))
    X, y = _wide(_rng("wide"))
    yield DataSet("wide 200", X, y, (0, 1), n_training=40)
    X, y = _counts(_rng("counts"))
    yield DataSet("counts", X, y, (0, 1, 2), additive=True)
    X, y = _histograms(_rng("histograms"))
    yield DataSet("histograms", X, y, (0, 1, 2), additive=True)
    X, y = _documents(_rng("documents"))
    yield DataSet("documents", X, y, (0, 1, 2), additive=True)
    X, y = _skewed(_rng("skewed"))
    yield DataSet("skewed", X, y, (0, 1), additive=True)


def _rng(*key: object) -> np.random.Generator:
    """Return a generator of random numbers that is the same on every run."""
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def _stack(*classes: Array) -> tuple[Array, Array]:
    return np.concatenate(classes), np.repeat(np.arange(len(classes)), [len(samples) for samples in classes])


def _blobs(d: int, distance: float) -> Callable[[np.random.Generator], tuple[Array, Array]]:
    """Return a maker of three spherical Gaussians whose centres are about this distance apart."""

    def make(rng: np.random.Generator) -> tuple[Array, Array]:
        centres = rng.normal(size=(3, d)) * distance / np.sqrt(2 * d)
        return _stack(*(10 + centre + rng.normal(size=(500, d)) for centre in centres))

    return make


def _clusters(rng: np.random.Generator) -> tuple[Array, Array]:
    """Two classes of five tight clusters each, in 8 dimensions."""
    centres = 10 + 1.5 * rng.normal(size=(2, 5, 8))
    return _stack(*(some[rng.integers(0, 5, 500)] + 0.7 * rng.normal(size=(500, 8)) for some in centres))


def _heavy_tails(rng: np.random.Generator) -> tuple[Array, Array]:
    """Student's t with 2 degrees of freedom in 8 dimensions, and the same two units off in each."""
    return _stack(*(10 + shift + rng.standard_t(2, size=(500, 8)) for shift in (0.0, 2.0)))


def _ring(rng: np.random.Generator) -> tuple[Array, Array]:
    """A ring of radius 3 to 4 (known); the disc within it and a wider ring around it (novel)."""
    radius = np.sqrt(np.concatenate([rng.uniform(9, 16, 600), rng.uniform(0, 9, 300), rng.uniform(16, 36, 300)]))
    angle = rng.uniform(0, 2 * np.pi, 1200)
    return 10 + np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1), np.repeat([0, 1], 600)


def _wide(rng: np.random.Generator) -> tuple[Array, Array]:
    """Correlated Gaussians in 200 dimensions: ten latent factors of their own, and a little noise."""
    return _stack(
        *(10 + rng.normal(size=(300, 10)) @ rng.normal(size=(10, 200)) + rng.normal(size=(300, 200)) for _ in range(2))
    )


def _counts(rng: np.random.Generator) -> tuple[Array, Array]:
    """Poisson counts in 4 dimensions, small enough for most samples to occur more than once."""
    return _stack(
        *(rng.poisson(rate, size=(500, 4)).astype(float) for rate in ((1, 2, 1, 3), (3, 1, 2, 1), (2, 4, 4, 1)))
    )


def _histograms(rng: np.random.Generator) -> tuple[Array, Array]:
    """Dirichlet histograms of 32 bins."""
    return _stack(*(rng.dirichlet(3 * rng.gamma(1.0, size=32), size=500) for _ in range(3)))


def _documents(rng: np.random.Generator) -> tuple[Array, Array]:
    """Frequencies of 100 words in texts of 40, most of which a text does not have."""
    topics = rng.dirichlet(np.full(100, 0.2), size=3)
    texts = (np.stack([rng.multinomial(40, p) for p in rng.dirichlet(30 * topic + 0.05, size=500)]) for topic in topics)
    return _stack(*(text / 40.0 for text in texts))


def _skewed(rng: np.random.Generator) -> tuple[Array, Array]:
    """Log-normal in 6 dimensions, of two medians."""
    return _stack(*(np.exp(shift + 0.8 * rng.normal(size=(500, 6))) for shift in (0.0, 0.9)))


# Measurement


@dataclass(frozen=True)
class Split:
    """A data set's samples with their parts: one class divided at random, the others all novel."""

    train: Array
    held_out: Array
    novel: Array

    def scaled(self, kernel: str) -> Split:
        """Scale as the kernel needs it, by what the training samples alone show.

        rbf: mean 0 and deviation 1; linear: deviation 1 about a mean that stays, since the slab separates the data from
        the origin; additive kernels: maximum 1, which keeps amounts amounts.
        """
        scaler = MaxAbsScaler() if kernel in ADDITIVE else StandardScaler(with_mean=kernel != "linear")
        scaler.fit(self.train)
        return Split(*(scaler.transform(part) for part in (self.train, self.held_out, self.novel)))


def split(data: DataSet, known: Any, seed: int, n_training: int | None = None) -> Split:
    """Divide a data set at random, the same way whenever it is asked for."""
    rng = _rng(data.name, known, seed)
    own = rng.permutation(np.flatnonzero(data.y == known))
    novel = rng.permutation(np.flatnonzero(data.y != known))[:MOST_NOVEL]
    m = n_training or data.n_training or min(len(own) // 2, MOST_TRAINING)
    return Split(data.X[own[:m]], data.X[own[m : m + MOST_HELD_OUT]], data.X[novel])


def operating_points() -> list[Model]:
    """Return the default model with lower and lower nominal recalls."""
    return [replace(DEFAULT_MODEL, nu_lower=nu_lower) for nu_lower in NU_LOWERS]


def models(additive: bool) -> list[Model]:
    """Return what is measured: kernels by nu and epsilon. Without an upper plane nu_upper means nothing."""
    kernels: list[tuple[str, float | None]] = [("rbf", multiple) for multiple in GAMMA_MULTIPLES]
    kernels += [(name, None) for name in (("linear", *ADDITIVE) if additive else ("linear",))]
    slabs = ((0.1, 0.01, 2 / 3), (0.1, 0.05, 2 / 3), (0.1, 0.01, 0.0))
    return [Model(kernel, multiple, *slab) for kernel, multiple in kernels for slab in slabs]


def measure(data: DataSet, known: Any, seed: int, some_models: Sequence[Model]) -> list[Record]:
    """Fit models on one split, with both offsets, and report how each decides."""
    parts = split(data, known, seed)
    scaled = {kernel: parts.scaled(kernel) for kernel in ("rbf", "linear", *(ADDITIVE if data.additive else ()))}
    records = []
    for model in some_models:
        some = scaled[model.kernel]
        for offsets in OFFSETS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what they warn of is what is measured
                slab = model.fit(some.train, offsets)
            decisions = judged(model, some, partial(accepted, slab))
            records.append(
                {
                    "data": data.name,
                    **asdict(model),
                    "offsets": offsets,
                    "degenerate": slab.status_ == "degenerate",
                    "converged": slab.status_ in ("converged", "degenerate"),
                    "expected_recall": slab.expected_recall_,
                    **decisions,
                }
            )
    return records


def accepted(slab: OneClassSlabSVM, X: Array) -> Array:
    """Return which rows the slab accepts."""
    return slab.predict(X) > 0


def judged(model: Model, parts: Split, accept: Callable[[Array], Array]) -> Record:
    """Report the decisions of `accept` on held-out and novel samples."""
    inside = np.concatenate([accept(parts.held_out), accept(parts.novel)])
    counts = Counts.of(inside, np.arange(len(inside)) < len(parts.held_out))
    m, n = len(parts.train), len(parts.held_out)
    return {
        "m": m,
        "bias": counts.recall - model.nominal_recall,
        "recall_error": abs(counts.recall - model.nominal_recall),
        "unavoidable": unavoidable_error(model.nominal_recall, m, n),
        "mcc": counts.mcc,
        "balanced_accuracy": 0.5 * (counts.recall + 1 - counts.false_acceptance),
        "false_acceptance": counts.false_acceptance,
    }


def unavoidable_error(nominal: float, m: int, n: int) -> float:
    """Return E|recall - nominal| when only chance is at work.

    A plane at the r-th of m scores of which none was pulled accepts a share of new samples that is Beta(m + 1 - r, r),
    and n held-out samples see it through a binomial.
    """
    accepted = np.arange(n + 1)
    share = betabinom(n, nominal * (m + 1), (1 - nominal) * (m + 1)).pmf(accepted)
    return float(share @ np.abs(accepted / n - nominal))


def measure_small(data: DataSet, known: Any, seed: int) -> list[Record]:
    """Fit on few samples and put the planes by four rules, of which two correct for the number of samples."""
    records = []
    for m in SMALL_SIZES:
        parts = split(data, known, seed, m).scaled("rbf")
        for model in models(False):
            if model.gamma_multiple not in (1.0, 10.0) or model.epsilon == 0:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                trained, left_out = (model.fit(parts.train, offsets) for offsets in OFFSETS)
            scores = left_out.loo_scores_
            tails = (model.nu_lower, model.nu_upper)
            planes = {
                "training": (trained.rho_lower_, trained.rho_upper_),
                "leave-one-out": (left_out.rho_lower_, left_out.rho_upper_),
                "rank nu (m + 1)": between_ranks(scores, *tails),
                "conformal": conformal(scores, *tails),
            }
            for rule, ends in planes.items():
                decisions = judged(model, parts, partial(within, left_out, ends))
                records.append({"data": data.name, **asdict(model), "rule": rule, **decisions})
    return records


def within(slab: OneClassSlabSVM, ends: tuple[float, float], X: Array) -> Array:
    """Return which rows score between two planes."""
    scores = slab.project(X)
    return (scores >= ends[0]) & (scores <= ends[1])


def between_ranks(scores: Array, nu_lower: float, nu_upper: float) -> tuple[float, float]:
    """Return planes at ranks nu (m + 1), interpolated; at the extreme score where the rank is below 1."""
    lower, upper = np.quantile(scores, [nu_lower, 1 - nu_upper], method="weibull")
    return float(lower), float(upper)


def conformal(scores: Array, nu_lower: float, nu_upper: float) -> tuple[float, float]:
    """Return planes at ranks floor(nu (m + 1)), which never reject more than nu on average; none where that is 0."""
    ordered = np.concatenate([[-np.inf], np.sort(scores), [np.inf]])
    ranks = [int(nu * (len(scores) + 1) + 1e-9) for nu in (nu_lower, nu_upper)]
    return float(ordered[ranks[0]]), float(ordered[-1 - ranks[1]])


# Records


def summarised(records: Iterable[Record], by: Sequence[str]) -> list[Record]:
    """Return one record for each combination of the fields `by`, with the means of what was measured."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(record[name] for name in by), []).append(record)
    return [
        dict(zip(by, key, strict=True))
        | {"fits": len(group)}
        | {name: round(float(np.mean([r[name] for r in group])), 4) for name in group[0] if name in MEASURED}
        for key, group in groups.items()
    ]


MEASURED = (
    "m",
    "expected_recall",
    "bias",
    "recall_error",
    "unavoidable",
    "mcc",
    "balanced_accuracy",
    "false_acceptance",
)


def measured(letter_file: Path | None, n_jobs: int) -> Record:
    """Measure everything and return the document that is written."""
    begin = perf_counter()
    sets = data_sets(letter_file)
    run = Parallel(n_jobs=n_jobs)
    tasks = [(data, known, seed) for data in sets for known in data.known for seed in range(N_SPLITS)]
    fits = [r for some in run(delayed(measure)(*task, models(task[0].additive)) for task in tasks) for r in some]
    points = [r for some in run(delayed(measure)(*task, operating_points()) for task in tasks) for r in some]
    # A fit whose optimal w is 0 has no direction for planes to be put along, wherever they are put.
    sound = [record for record in fits if record["converged"] and not record["degenerate"]]
    small_tasks = [
        (replace(data, known=()), data.known[seed % len(data.known)], seed)
        for data in sets
        if data.name in SMALL_SETS
        for seed in range(SMALL_SPLITS)
    ]
    small = [record for some in run(delayed(measure_small)(*task) for task in small_tasks) for record in some]
    setting = tuple(asdict(DEFAULT_MODEL))
    return {
        "date": date.today().isoformat(),
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "cores": cpu_count(),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
            "slabsvm": __version__,
        },
        "seconds": round(perf_counter() - begin),
        "fits": len(fits),
        "degenerate": len(fits) - len(sound),
        "not_converged": sum(not record["converged"] for record in fits),
        "data": [
            {
                "data": data.name,
                "samples": len(data.X),
                "features": data.X.shape[1],
                "known": len(data.known),
                "training": data.n_training
                or round(np.mean([min(int(np.sum(data.y == k)) // 2, MOST_TRAINING) for k in data.known])),
            }
            for data in sets
        ],
        "records": summarised(sound, ("data", *setting, "offsets")),
        "points": summarised(points, ("data", "nu_lower", "offsets")),
        "small": summarised(small, ("m", "gamma_multiple", "nu_upper", "rule"))
        + summarised([{**r, "gamma_multiple": None} for r in small], ("m", "gamma_multiple", "nu_upper", "rule")),
    }


def written(document: Record) -> str:
    """Return the document as JSON; a list of records is a table, with the fields' names first and one record a line."""
    lines = []
    for name, value in document.items():
        if isinstance(value, list):
            rows = [list(value[0]), *(list(record.values()) for record in value)]
            inner = ",\n".join("  " + json.dumps(row, separators=(",", ":")) for row in rows)
            lines.append(f'"{name}": [\n{inner}\n]')
        else:
            lines.append(f'"{name}": {json.dumps(value)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read(text: str) -> Record:
    """Return the document that was written as this text."""
    document: Record = json.loads(text)
    for name, value in document.items():
        if isinstance(value, list):
            document[name] = [dict(zip(value[0], row, strict=True)) for row in value[1:]]
    return document


# Report


def report(document: Record) -> str:
    """Return the tables, in Markdown, to be read below a heading of the second level."""
    records = document["records"]
    default = [r for r in records if all(r[name] == value for name, value in asdict(DEFAULT_MODEL).items())]
    kernels = sorted({(r["kernel"], r["gamma_multiple"]) for r in records}, key=_kernel_order)
    slabs = sorted({(r["nu_upper"], r["epsilon"]) for r in records}, key=lambda s: (-s[1], s[0]))
    parts = [
        "{fits} fits on {date}, in {seconds} s on {cores} cores. {not_converged} did not converge; {degenerate} were "
        "degenerate (w = 0). Both are left out.\n".format(**document, cores=document["machine"]["cores"]),
        "### The data\n",
        _sizes(document["data"]),
        "### Every kernel and every nu\n",
        _per_data_set(records),
        "### The default model (rbf, gamma scale, nu .1/.01, epsilon 2/3)\n",
        _per_data_set(default),
        "### The best of the kernels and gammas for each data set and each of the two, nu .1/.01, epsilon 2/3\n",
        _best(
            [r for r in records if (r["nu_upper"], r["epsilon"]) == (DEFAULT_MODEL.nu_upper, DEFAULT_MODEL.epsilon)],
            lambda r: _kernel_name(r["kernel"], r["gamma_multiple"]),
        ),
        "### The default model at the best of nu_lower = .1, .3, .5, .7\n",
        _best(document["points"], lambda r: f"nu_lower {r['nu_lower']:g}"),
        "### By kernel\n",
        _by({_kernel_name(*k): [r for r in records if (r["kernel"], r["gamma_multiple"]) == k] for k in kernels}),
        "### By slab\n",
        _by({_slab_name(*s): [r for r in records if (r["nu_upper"], r["epsilon"]) == s] for s in slabs}),
        "### Few samples\n",
        _few(document["small"]),
    ]
    return "\n".join(parts)


def _sizes(data: Iterable[Record]) -> str:
    rows = [[d["data"], *(f"{d[name]}" for name in ("samples", "features", "known", "training"))] for d in data]
    return _table(["data set", "samples", "features", "classes learned", "training samples"], rows)


def _kernel_order(kernel: tuple[str, float | None]) -> tuple[int, float]:
    return ("rbf", "linear", *ADDITIVE).index(kernel[0]), kernel[1] or 0.0


def _kernel_name(kernel: str, multiple: float | None) -> str:
    return kernel if multiple is None else f"{kernel}, {multiple:g} x scale"


def _slab_name(nu_upper: float, epsilon: float) -> str:
    return f"slab, nu .1/{nu_upper:g}" if epsilon else "one-class SVM, nu .1"


def _means(records: Iterable[Record]) -> dict[str, dict[str, Record]]:
    """Return the means of each data set's records, by data set and offsets."""
    means: dict[str, dict[str, Record]] = {}
    for record in summarised(records, ("data", "offsets")):
        means.setdefault(record["data"], {})[record["offsets"]] = record
    return means


def _overall(means: dict[str, dict[str, Record]]) -> list[Record]:
    """Return the mean over the data sets, for each of the offsets."""
    return [{name: float(np.mean([p[o][name] for p in means.values()])) for name in MEASURED} for o in OFFSETS]


HEAD = (
    "recall error: training",
    "leave-one-out",
    "chance",
    "MCC: training",
    "leave-one-out",
    "balanced accuracy: training",
    "leave-one-out",
)


def _cells(training: Record, left_out: Record) -> list[str]:
    errors = [f"{r['recall_error']:.3f} ({r['bias']:+.3f})" for r in (training, left_out)]
    values = [f"{r[name]:.3f}" for name in ("mcc", "balanced_accuracy") for r in (training, left_out)]
    return [*errors, f"{left_out['unavoidable']:.3f}", *values]


def _per_data_set(records: Iterable[Record]) -> str:
    """Tabulate both offsets for each data set, and count and test the differences."""
    means = _means(records)
    rows = [[name, *_cells(pair["training"], pair["leave-one-out"])] for name, pair in means.items()]
    overall = _overall(means)
    rows.append(["**mean**", *_cells(*overall)])
    return _table(["data set", *HEAD], rows) + _tests(means)


def _tests(means: dict[str, dict[str, Record]]) -> str:
    lines = []
    for name, sign, title in (
        ("recall_error", -1, "recall error"),
        ("mcc", 1, "MCC"),
        ("balanced_accuracy", 1, "balanced accuracy"),
    ):
        gains = np.array([sign * (p["leave-one-out"][name] - p["training"][name]) for p in means.values()])
        lines.append(
            f"- {title}: leave-one-out {_score(gains)}, median gain {np.median(gains):+.3f}, {_p_value(gains)}"
        )
    return "\n" + "\n".join(lines) + "\n"


def _score(gains: Array) -> str:
    return f"wins {np.sum(gains >= TIE)}, ties {np.sum(np.abs(gains) < TIE)}, loses {np.sum(gains <= -TIE)}"


def _p_value(gains: Array) -> str:
    return f"Wilcoxon p = {wilcoxon(gains).pvalue:.2g}" if np.any(gains) else "no difference"


def _best(records: Iterable[Record], name_of: Callable[[Record], str]) -> str:
    """Tabulate the best record by MCC for each data set and each of the two, chosen with the test samples in sight."""
    best: dict[str, dict[str, Record]] = {}
    for r in records:
        pair = best.setdefault(r["data"], {})
        if r["offsets"] not in pair or r["mcc"] > pair[r["offsets"]]["mcc"]:
            pair[r["offsets"]] = r
    rows = []
    for name, pair in best.items():
        row = [name]
        for offsets in OFFSETS:
            r = pair[offsets]
            row += [name_of(r), f"{r['mcc']:.3f}", f"{r['bias']:+.3f}"]
        rows.append(row)
    return _table(["data set", *(f"{o}: {c}" for o in OFFSETS for c in ("best", "MCC", "recall - nominal"))], rows) + (
        _tests(best)
    )


def _by(groups: dict[str, list[Record]]) -> str:
    """Tabulate the mean over the data sets for each group of records, and its wins, ties and losses in MCC."""
    rows = []
    for title, records in groups.items():
        means = _means(records)
        pairs = _overall(means)
        gains = np.array([p["leave-one-out"]["mcc"] - p["training"]["mcc"] for p in means.values()])
        rows.append([title, str(len(means)), f"{pairs[0]['expected_recall']:.2f}", *_cells(*pairs), _score(gains)])
    return _table(["", "data sets", "1 - n_SV/m", *HEAD, "MCC by data set"], rows)


def _few(small: Iterable[Record]) -> str:
    """Tabulate the rules for planes against the number of training samples."""
    rules = ("training", "leave-one-out", "rank nu (m + 1)", "conformal")
    cells = {(r["m"], r["nu_upper"], r["rule"]): r for r in small if r["gamma_multiple"] is None}
    rows = []
    for m, nu_upper in sorted({key[:2] for key in cells}, key=lambda key: (key[1], key[0])):
        some = [cells[m, nu_upper, rule] for rule in rules]
        rows.append(
            [f"{m:.0f}", f".1/{nu_upper:g}"]
            + [f"{r['recall_error']:.3f} ({r['bias']:+.3f})" for r in some]
            + [f"{some[0]['unavoidable']:.3f}"]
            + [f"{r['mcc']:.3f}" for r in some]
        )
    return _table(["m", "nu", *(f"error: {r}" for r in rules), "chance", *(f"MCC: {r}" for r in rules)], rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def put_into(page: Path, tables: str) -> None:
    """Replace what stands between the two marks of a page."""
    before, rest = page.read_text(encoding="utf-8").split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    page.write_text(f"{before}{MARKS[0]}\n{tables}{MARKS[1]}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, help="folder that holds letter/letter-recognition.data [$SLABSVM_DATA]")
    parser.add_argument("--records", type=Path, default=RECORDS, help="file of the records [%(default)s]")
    parser.add_argument("--read", action="store_true", help="print the tables of the records that are there")
    parser.add_argument("--page", type=Path, help="page to put the tables into, between its marks")
    parser.add_argument("--jobs", type=int, default=2, help="processes [%(default)s]")
    arguments = parser.parse_args()
    if not arguments.read:
        folder = arguments.data or os.environ.get("SLABSVM_DATA")
        letter_file = Path(folder) / LETTER_FILE if folder else None
        if letter_file is None or not letter_file.exists():
            print("Letter is left out: its file is neither in --data nor in $SLABSVM_DATA.")
            letter_file = None
        document = measured(letter_file, arguments.jobs)
        arguments.records.parent.mkdir(parents=True, exist_ok=True)
        arguments.records.write_text(written(document), encoding="utf-8")
    tables = report(read(arguments.records.read_text(encoding="utf-8")))
    print(tables)
    if arguments.page:
        put_into(arguments.page, tables)


if __name__ == "__main__":
    main()
