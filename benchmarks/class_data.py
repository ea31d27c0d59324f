"""Data sets of several classes, of which one at a time is learned, and their splits: for offsets.py and family.py."""

from __future__ import annotations

import zlib
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import make_moons
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from samples import bundled, letters

ADDITIVE = ("intersection", "hellinger", "chi2")
MOST_TRAINING, MOST_HELD_OUT, MOST_NOVEL = 250, 400, 600

Array = np.ndarray[Any, Any]
Classes = tuple[Array, Array]


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


def data_sets(options: Namespace) -> list[DataSet]:
    """Return all data sets, Letter among them where its file is given."""
    sets = [DataSet(name, X, y, tuple(np.unique(y).tolist()), additive=True) for name, X, y in bundled()]
    found = letters(options)
    if found:
        sets.append(DataSet("letter", *found, tuple("ADGJMPSV"), additive=True))
    return [*sets, *_generated()]


def _generated() -> Iterator[DataSet]:
    """Give generated data sets, all far enough from the origin for a linear kernel to see one side of them."""
    for name, make, others in (
        ("blobs 2", _blobs(2, 2.5), {}),
        ("blobs 16", _blobs(16, 3.5), {}),
        ("clusters 8", _clusters, {}),
        ("heavy tails", _heavy_tails, {}),
        ("moons", _moons, {}),
        ("ring", _ring, {"known": (0,)}),
        ("wide 200", _wide, {"n_training": 40}),
        ("counts", _counts, {"additive": True}),
        ("histograms", _histograms, {"additive": True}),
        ("documents", _documents, {"additive": True}),
        ("skewed", _skewed, {"additive": True}),
    ):
        X, y = make(_rng(name.removesuffix(" 200")))
        yield DataSet(name, X, y, **{"known": tuple(np.unique(y).tolist())} | others)


def _rng(*key: object) -> np.random.Generator:
    """Return a generator of random numbers that is the same on every run."""
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def _stack(*classes: Array) -> Classes:
    return np.concatenate(classes), np.repeat(np.arange(len(classes)), [len(samples) for samples in classes])


def _blobs(d: int, distance: float) -> Callable[[np.random.Generator], Classes]:
    """Return a maker of three spherical Gaussians whose centres are about this distance apart."""

    def make(rng: np.random.Generator) -> Classes:
        centres = rng.normal(size=(3, d)) * distance / np.sqrt(2 * d)
        return _stack(*(10 + centre + rng.normal(size=(500, d)) for centre in centres))

    return make


def _clusters(rng: np.random.Generator) -> Classes:
    """Two classes of five tight clusters each, in 8 dimensions."""
    centres = 10 + 1.5 * rng.normal(size=(2, 5, 8))
    return _stack(*(some[rng.integers(0, 5, 500)] + 0.7 * rng.normal(size=(500, 8)) for some in centres))


def _heavy_tails(rng: np.random.Generator) -> Classes:
    """Student's t with 2 degrees of freedom in 8 dimensions, and the same two units off in each."""
    return _stack(*(10 + shift + rng.standard_t(2, size=(500, 8)) for shift in (0.0, 2.0)))


def _moons(_: np.random.Generator) -> Classes:
    X, y = make_moons(900, noise=0.1, random_state=0)
    return X + 10, y


def _ring(rng: np.random.Generator) -> Classes:
    """A ring of radius 3 to 4 (known); the disc within it and a wider ring around it (novel)."""
    radius = np.sqrt(np.concatenate([rng.uniform(9, 16, 600), rng.uniform(0, 9, 300), rng.uniform(16, 36, 300)]))
    angle = rng.uniform(0, 2 * np.pi, 1200)
    return 10 + np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1), np.repeat([0, 1], 600)


def _wide(rng: np.random.Generator) -> Classes:
    """Correlated Gaussians in 200 dimensions: ten latent factors of their own, and a little noise."""
    return _stack(
        *(10 + rng.normal(size=(300, 10)) @ rng.normal(size=(10, 200)) + rng.normal(size=(300, 200)) for _ in range(2))
    )


def _counts(rng: np.random.Generator) -> Classes:
    """Poisson counts in 4 dimensions, small enough for most samples to occur more than once."""
    return _stack(
        *(rng.poisson(rate, size=(500, 4)).astype(float) for rate in ((1, 2, 1, 3), (3, 1, 2, 1), (2, 4, 4, 1)))
    )


def _histograms(rng: np.random.Generator) -> Classes:
    """Dirichlet histograms of 32 bins."""
    return _stack(*(rng.dirichlet(3 * rng.gamma(1.0, size=32), size=500) for _ in range(3)))


def _documents(rng: np.random.Generator) -> Classes:
    """Frequencies of 100 words in texts of 40, most of which a text does not have."""
    topics = rng.dirichlet(np.full(100, 0.2), size=3)
    texts = (np.stack([rng.multinomial(40, p) for p in rng.dirichlet(30 * topic + 0.05, size=500)]) for topic in topics)
    return _stack(*(text / 40.0 for text in texts))


def _skewed(rng: np.random.Generator) -> Classes:
    """Log-normal in 6 dimensions, of two medians."""
    return _stack(*(np.exp(shift + 0.8 * rng.normal(size=(500, 6))) for shift in (0.0, 0.9)))


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
