"""The recall that rows of new groups keep, with groups and without.

    python benchmarks/groups.py [--only WORD] [--page docs/results/groups.md]

That page says what is measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits

from harness import Benchmark, Case, Options, Record, Table, tables
from slabsvm import AutoDetector, ConformalDetector, KernelDensityDetector, OneClassSlabSVM, OneClassSVM

MODELS = {
    "slab": OneClassSlabSVM(),
    "one-class SVM": OneClassSVM(),
    "kernel density": KernelDensityDetector(),
    "AutoDetector": AutoDetector(),
    "conformal": ConformalDetector(OneClassSVM(), alpha=0.1),
}
# Groups, rows in each, features, and how far rows of a group are apart beside groups.
CLOUDS = ((30, 8, 3, 0.1), (100, 5, 3, 0.1), (100, 5, 16, 0.2), (100, 5, 6, 0.5))
N_DRAWS = 8


def drawn(setting: tuple[int, int, int, float], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, the numbers of their groups, and new rows, each of a group of its own."""
    n_groups, size, d, spread = setting
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), size)
    rows = rng.normal(size=(n_groups, d))[groups]
    new = rng.normal(size=(500, d))
    return rows + spread * rng.normal(size=rows.shape), groups, new + spread * rng.normal(size=new.shape)


def shifted_digits(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return threes with four copies each that are shifted by a pixel, the images' numbers, and other threes."""
    digits, labels = load_digits(return_X_y=True)
    images = np.random.default_rng(seed).permutation(digits[labels == 3]).reshape(-1, 8, 8)
    learned, new = images[:90], images[90:]
    moves = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0))
    copies = np.stack([np.roll(learned, move, axis=(1, 2)) for move in moves], axis=1)
    # Which shift a new image has is as likely any of them.
    places = np.random.default_rng(seed).integers(0, len(moves), len(new))
    new = np.stack([np.roll(image, moves[place], axis=(0, 1)) for image, place in zip(new, places, strict=True)])
    return copies.reshape(-1, 64), np.repeat(np.arange(90), len(moves)), new.reshape(-1, 64)


def recall(name: str, label: str) -> Record:
    """Return the recall of new groups' rows with and without groups, the mean of draws."""
    found = []
    for seed in range(N_DRAWS):
        data = shifted_digits(seed) if label == "digits, shifted" else drawn(CLOUDS[int(label[-1]) - 1], seed)
        X, groups, new = data
        alone, whole = clone(MODELS[name]).fit(X), clone(MODELS[name]).fit(X, groups=groups)
        found.append([(alone.predict(new) == 1).mean(), (whole.predict(new) == 1).mean()])
    rows, by_groups = np.mean(found, axis=0)
    spread = np.std(found, axis=0, ddof=1)[1] / np.sqrt(N_DRAWS)
    asked = 0.89 if name == "slab" else 0.9
    return {"data": label, "model": name, "asked": asked, "rows": rows, "by_groups": by_groups, "error": spread}


def cases(_: Options) -> Iterator[Case]:
    for label in (*(f"cloud {number + 1}" for number in range(len(CLOUDS))), "digits, shifted"):
        for name in MODELS:
            yield f"{label}, {name}", partial(recall, name, label)


TABLE = Table(
    "data | model | asked | without groups | with groups | +-",
    "{data} | {model} | {asked:.2f} | {rows:.3f} | {by_groups:.3f} | {error:.3f}".format_map,
    align="llrrrr",
)


if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, tables(TABLE), keys=("data", "model"), alone=()).main()
