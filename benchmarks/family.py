"""The one-class models side by side: the recall that their thresholds keep, and how well they rank.

    python benchmarks/family.py --data DIR [--page docs/results/family.md]

That page says what is measured.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import betabinom
from sklearn.datasets import make_moons
from sklearn.metrics import matthews_corrcoef, roc_auc_score
from sklearn.preprocessing import StandardScaler

from harness import Benchmark, Case, Document, Options, Record, means, table
from samples import bundled, letters
from slabsvm import SVDD, KernelDensityDetector, KernelPCADetector, OneClassSlabSVM, OneClassSVM

NU = 0.1
# The rule that is the default, and multiples of gamma="scale".
GAMMAS = ("neighbours", 0.1, 1.0, 10.0)
MEASURED = ("recall_error", "bias", "chance", "mcc", "auroc")
CALIBRATIONS = ("training", "auto")
N_SPLITS = 3
MOST_TRAINING, MOST_HELD_OUT, MOST_NOVEL = 250, 400, 600

PAPER = "slab, paper's score"

Maker = Callable[..., Any]
Array = np.ndarray[Any, Any]

KERNEL_MODELS: dict[str, Maker] = {
    "slab": partial(OneClassSlabSVM, nu_lower=NU - 0.01, nu_upper=0.01),
    PAPER: partial(OneClassSlabSVM, nu_lower=NU - 0.01, nu_upper=0.01, ranking="centre"),
    "one-class SVM": partial(OneClassSVM, nu=NU),
    "SVDD": partial(SVDD, nu=NU),
    "kernel PCA": partial(KernelPCADetector, nu=NU),
}


# Data


@dataclass(frozen=True)
class DataSet:
    """Rows of several classes, of which the known ones are learned, one at a time; n_training: None is half of them."""

    name: str
    X: Array
    y: Array
    known: tuple[Any, ...]
    n_training: int | None = None


def data_sets(options: Options) -> list[DataSet]:
    sets = [DataSet(name, X, y, tuple(np.unique(y).tolist())) for name, X, y in bundled()]
    return [*sets, DataSet("letter", *letters(options), tuple("ADGJMPSV")), *_generated()]


def _rng(*key: object) -> np.random.Generator:
    """Return a generator of random numbers that is the same on every run."""
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def _generated() -> Iterator[DataSet]:
    for name, make in GENERATED.items():
        classes = list(make(_rng(name.removesuffix(" 200"))))
        y = np.repeat(np.arange(len(classes)), [len(rows) for rows in classes])
        known = (0,) if name == "ring" else tuple(range(len(classes)))
        yield DataSet(name, np.concatenate(classes), y, known, 40 if name == "wide 200" else None)


def _blobs(rng: np.random.Generator, d: int, distance: float) -> Iterator[Array]:
    """Give three spherical Gaussians whose centres are about this distance apart."""
    centres = rng.normal(size=(3, d)) * distance / np.sqrt(2 * d)
    return (10 + centre + rng.normal(size=(500, d)) for centre in centres)


def _moons(_: np.random.Generator) -> Iterator[Array]:
    X, y = make_moons(900, noise=0.1, random_state=0)
    return (10 + X[y == label] for label in (0, 1))


def _ring(rng: np.random.Generator) -> list[Array]:
    """Return a ring of radius 3 to 4 (known); the disc within it and a wider ring around it (novel)."""
    radius = np.sqrt(np.concatenate([rng.uniform(9, 16, 600), rng.uniform(0, 9, 300), rng.uniform(16, 36, 300)]))
    angle = rng.uniform(0, 2 * np.pi, 1200)
    return np.split(10 + np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1), 2)


def _documents(rng: np.random.Generator) -> Iterator[Array]:
    """Give frequencies of 100 words in texts of 40, most of which a text does not have."""
    topics = rng.dirichlet(np.full(100, 0.2), size=3)
    of_texts = (rng.dirichlet(30 * topic + 0.05, size=500) for topic in topics)
    return (np.stack([rng.multinomial(40, p) for p in some]) / 40.0 for some in of_texts)


RATES = ((1, 2, 1, 3), (3, 1, 2, 1), (2, 4, 4, 1))
# The rows of each class, all far enough from the origin for a linear kernel to see one side of them.
GENERATED: dict[str, Callable[[np.random.Generator], Iterable[Array]]] = {
    "blobs 2": partial(_blobs, d=2, distance=2.5),
    "blobs 16": partial(_blobs, d=16, distance=3.5),
    # Five tight clusters in each class.
    "clusters 8": lambda rng: (
        some[rng.integers(0, 5, 500)] + 0.7 * rng.normal(size=(500, 8))
        for some in 10 + 1.5 * rng.normal(size=(2, 5, 8))
    ),
    "heavy tails": lambda rng: (10 + shift + rng.standard_t(2, size=(500, 8)) for shift in (0.0, 2.0)),
    "moons": _moons,
    "ring": _ring,
    # Ten latent factors of each class's own, and a little noise.
    "wide 200": lambda rng: (
        10 + rng.normal(size=(300, 10)) @ rng.normal(size=(10, 200)) + rng.normal(size=(300, 200)) for _ in range(2)
    ),
    # Small enough for most samples to occur more than once.
    "counts": lambda rng: (rng.poisson(rate, size=(500, 4)).astype(float) for rate in RATES),
    "histograms": lambda rng: (rng.dirichlet(3 * rng.gamma(1.0, size=32), size=500) for _ in range(3)),
    "documents": _documents,
    "skewed": lambda rng: (np.exp(shift + 0.8 * rng.normal(size=(500, 6))) for shift in (0.0, 0.9)),
}


@dataclass(frozen=True)
class Split:
    """A data set's samples with their parts: one class divided at random, the others all novel."""

    train: Array
    held_out: Array
    novel: Array

    def scaled(self, kernel: str) -> Split:
        """Scale by what the training rows alone show; for a linear kernel about a mean that stays."""
        scaler = StandardScaler(with_mean=kernel != "linear").fit(self.train)
        return Split(*(scaler.transform(part) for part in (self.train, self.held_out, self.novel)))


def split(data: DataSet, known: Any, seed: int) -> Split:
    """Divide a data set at random, the same way whenever it is asked for."""
    rng = _rng(data.name, known, seed)
    own = rng.permutation(np.flatnonzero(data.y == known))
    novel = rng.permutation(np.flatnonzero(data.y != known))[:MOST_NOVEL]
    m = data.n_training or min(len(own) // 2, MOST_TRAINING)
    return Split(data.X[own[:m]], data.X[own[m : m + MOST_HELD_OUT]], data.X[novel])


def unavoidable_error(nominal: float, m: int, n: int) -> float:
    """Return E|recall - nominal| when only chance is at work.

    A plane at the r-th of m scores of which none was pulled accepts a share of new samples that is Beta(m + 1 - r, r),
    and n held-out samples see it through a binomial.
    """
    accepted = np.arange(n + 1)
    share = betabinom(n, nominal * (m + 1), (1 - nominal) * (m + 1)).pmf(accepted)
    return float(share @ np.abs(accepted / n - nominal))


# Measurement


def models(train: np.ndarray) -> Iterable[tuple[str, str, str, Maker]]:
    """Yield each model's name, its setting, the kernel whose scaling it wants, and what makes it."""
    for gamma in GAMMAS:
        rule = isinstance(gamma, str)
        value = gamma if rule else gamma / (train.shape[1] * train.var())
        for name, make in KERNEL_MODELS.items():
            yield name, f"rbf, {gamma if rule else f'{gamma:g} x scale'}", "rbf", partial(make, gamma=value)
    for name in ("slab", PAPER, "one-class SVM", "SVDD"):
        yield name, "linear", "linear", partial(KERNEL_MODELS[name], kernel="linear")
    for rule in ("scott", "silverman"):
        yield "kernel density", rule, "rbf", partial(KernelDensityDetector, nu=NU, bandwidth=rule)


def measure(data: DataSet, known: Any) -> Iterator[Record]:
    """Fit every model, with both calibration, on each split of one class, and report how it decides and ranks."""
    for seed in range(N_SPLITS):
        parts = split(data, known, seed)
        scaled = {kernel: parts.scaled(kernel) for kernel in ("rbf", "linear")}
        for name, setting, kernel, make in models(scaled["rbf"].train):
            for calibration in CALIBRATIONS:
                fitted = make(calibration=calibration).fit(scaled[kernel].train)
                what = {"data": data.name, "model": name, "setting": setting, "calibration": calibration}
                yield what | judged(fitted, scaled[kernel])


def judged(fitted: Any, parts: Split) -> Record:
    decision = fitted.decision_function(np.concatenate([parts.held_out, parts.novel]))
    known = np.arange(len(decision)) < len(parts.held_out)
    bias = float((decision[known] >= 0).mean()) - (1 - NU)
    return {
        "degenerate": getattr(fitted, "status_", "") == "degenerate",
        "bias": bias,
        "recall_error": abs(bias),
        "chance": unavoidable_error(1 - NU, len(parts.train), len(parts.held_out)),
        "mcc": float(matthews_corrcoef(known, decision >= 0)),
        "auroc": float(roc_auc_score(known, decision)),
    }


def cases(options: Options) -> Iterator[Case]:
    for data in data_sets(options):
        for known in data.known:
            yield f"{data.name}, {known}", partial(measure, data, known)


def document(records: list[Record]) -> Document:
    sound = [record for record in records if not record["degenerate"]]
    return {
        "fits": len(records),
        "degenerate": len(records) - len(sound),
        "cells": means(sound, ("data", "model", "setting", "calibration"), MEASURED),
    }


def report(document: Document) -> str:
    """Return both tables as Markdown. A data set counts once, whatever its number of classes."""
    cells = pd.DataFrame(document["cells"])
    overall = cells.groupby(["model", "setting", "calibration"])[[*MEASURED]].mean().round(4).unstack()
    n_sets = cells[cells["calibration"] == "auto"].groupby(["model", "setting"]).size()
    rows = []
    for name, one in overall.iterrows():
        recalls, errors, mccs, aurocs = (one[what] for what in ("bias", "recall_error", "mcc", "auroc"))
        shown = [1 - NU + recalls, errors, [one["chance", "auto"]], mccs, aurocs]
        values = [f"{value:.3f}" for some in shown for value in reversed([*some])]
        rows.append(" | ".join([*name, str(n_sets[name]), *values]))
    head = "model | setting | data sets | " + " | ".join(
        f"{what}: training | leave-one-out" + (" | chance" if what == "recall error" else "")
        for what in ("recall", "recall error", "MCC", "AUROC")
    )
    first = "{fits} fits on {date} ({degenerate} with w = 0, left out).".format(**document)
    return f"{first}\n\n{table(head, rows, 'l' * 12)}\n\n{by_data(cells)}"


def by_data(cells: pd.DataFrame) -> str:
    """Return each model's best AUROC on each data set, with leave-one-out thresholds, and the slab's best MCC."""
    left_out = cells[cells["calibration"] == "auto"]
    of_rbf = left_out[(left_out["model"] == "slab") & left_out["setting"].str.startswith("rbf")]
    names = [name for name in dict.fromkeys(cells["model"]) if name != PAPER]
    best = left_out.pivot_table("auroc", "data", "model", "max", sort=False)[names]
    mcc = of_rbf.groupby("data")["mcc"].max()
    rows = [" | ".join([data, *(f"{auroc:.3f}" for auroc in aurocs)]) for data, aurocs in best.iterrows()]
    first = (
        f"The slab's MCC with the best of the {len(GAMMAS)} gammas for each data set is {mcc.mean():.3f} on average."
    )
    return f"{first} The best AUROC:\n\n{table(' | '.join(['data set', *names]), rows, 'l' * (1 + len(names)))}"


if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, report, document, alone=()).main()
