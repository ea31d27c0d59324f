"""Data that several benchmarks share: scikit-learn's bundled sets, clouds, and UCI Letter from a folder."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn import datasets


def folder(options: Namespace) -> Path:
    return options.data or sys.exit("Name the folder of data sets: --data DIR, or $SLABSVM_DATA.")


def letters(options: Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Return Letter's features, whole numbers 0 to 15, and its classes, in the file's order."""
    text = np.loadtxt(folder(options) / "letter" / "letter-recognition.data", delimiter=",", dtype=str)
    return text[:, 1:].astype(float), text[:, 0]


def table_files(options: Namespace) -> list[Path]:
    """Return the files of the tables of novelty detection, DIR/tabular/NAME.npz."""
    return sorted((folder(options) / "tabular").glob("*.npz"))


def read_table(file: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a table's rows to learn, those to judge, and which of the latter are normal."""
    with np.load(file) as data:
        return data["train"].astype(float), data["test"].astype(float), data["test_is_normal"].astype(bool)


def bundled() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    for name in ("digits", "wine", "breast cancer", "iris"):
        yield name, *getattr(datasets, f"load_{name.replace(' ', '_')}")(return_X_y=True)


def clouds(m: int, d: int, seed: int = 0, centres: tuple[float, float] = (-4, 4)) -> np.ndarray:
    """Five Gaussian clouds of different widths: neither one ball nor noise."""
    deviations = [1.0, 1.5, 2.0, 2.5, 3.0]
    X, _ = datasets.make_blobs(m, d, centers=5, cluster_std=deviations, center_box=centres, random_state=seed)
    return X
