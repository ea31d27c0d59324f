"""Awkward rows: how far the recall of new rows is from the expected one: docs/developers/layouts.md.

    python benchmarks/layouts.py [--only "AutoDetector, 300 rows"] [--page docs/developers/layouts.md]

A layout is a function that draws rows of one kind: drawn again they are new rows of the same kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from harness import Benchmark, Case, Document, Options, Record, table
from slabsvm import AutoDetector, KernelPCADetector, OneClassSlabSVM, OneClassSVM

Array = np.ndarray
Layout = Callable[[np.random.Generator, int], Array]

N_DRAWS, N_NEW, N_SCALED = 30, 4000, 2000
RECALL_ROWS, KERNEL_PCA_ROWS = (50, 100, 300), (200,)
# Further than this the expected recall is off; where no fit warned, it should be within three standard errors.
OFF, ERRORS = 0.015, 3
# Layouts that are nearer than this are named, and have no row of their own.
NEAR = 0.01
MODELS: dict[str, tuple[str, Callable[[], Any]]] = {
    "auto": ("AutoDetector", AutoDetector),
    "one-class": ("OneClassSVM", OneClassSVM),
    "slab": ("OneClassSlabSVM", OneClassSlabSVM),
    "kernel PCA": ("KernelPCADetector", KernelPCADetector),
}
# Centres, directions and topics are the same in each draw.
FIXED = 20
WORDS, TOPICS = 800, 6


def fixed(shape: tuple[int, ...]) -> Array:
    """Return normal numbers that are the same each time."""
    return np.random.default_rng(FIXED).normal(size=shape)


def ring(generator: np.random.Generator, n: int) -> Array:
    angle, radius = generator.uniform(0, 2 * np.pi, n), generator.normal(1, 0.03, n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def spirals(generator: np.random.Generator, n: int) -> Array:
    turn, arm = 3 * np.pi * np.sqrt(generator.random(n)), np.pi * generator.integers(0, 2, n)
    rows = np.column_stack([turn * np.cos(turn + arm), turn * np.sin(turn + arm)])
    return rows + generator.normal(scale=0.2, size=rows.shape)


def tiny_clusters(generator: np.random.Generator, n: int) -> Array:
    centres = 10 * fixed((20, 3))
    return centres[generator.integers(0, len(centres), n)] + generator.normal(scale=1e-3, size=(n, 3))


def uneven_clusters(generator: np.random.Generator, n: int) -> Array:
    which = generator.choice(4, n, p=[0.8, 0.15, 0.04, 0.01])
    centres, widths = 6 * fixed((4, 4)), np.array([1.0, 0.1, 0.5, 0.01])
    return centres[which] + widths[which, None] * generator.normal(size=(n, 4))


def correlated(generator: np.random.Generator, n: int) -> Array:
    return generator.normal(size=(n, 2)) @ fixed((2, 30)) + generator.normal(scale=0.1, size=(n, 30))


def booleans(generator: np.random.Generator, n: int, *, count: int) -> Array:
    return (generator.random((n, count)) < np.linspace(0.03, 0.5, count)).astype(float)


def one_hot(generator: np.random.Generator, n: int) -> Array:
    shares = np.arange(1, 9) / 36
    return np.hstack([np.eye(8)[generator.choice(8, n, p=shares)], generator.normal(size=(n, 4))])


def many_zeros(generator: np.random.Generator, n: int) -> Array:
    return np.where(generator.random((n, 5)) < 0.8, 0.0, generator.exponential(size=(n, 5)))


def word_counts(generator: np.random.Generator, n: int) -> Array:
    usual = 1.0 / np.arange(1, WORDS + 1)
    of_topics = usual * np.exp(2 * fixed((TOPICS, WORDS)))
    of_topics /= of_topics.sum(axis=1, keepdims=True)
    topics, lengths = generator.integers(0, TOPICS, n), generator.integers(20, 80, n)
    return generator.multinomial(lengths, of_topics[topics]).astype(float)


def unit_vectors(generator: np.random.Generator, n: int) -> Array:
    rows = fixed((6, 100))[generator.integers(0, 6, n)] + generator.normal(size=(n, 100))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def half_repeats(generator: np.random.Generator, n: int) -> Array:
    rows, known = generator.normal(size=(n, 4)), fixed((8, 4))
    repeats = generator.random(n) < 0.5
    rows[repeats] = known[generator.integers(0, len(known), repeats.sum())]
    return rows


def three_times(generator: np.random.Generator, n: int) -> Array:
    return np.repeat(generator.normal(size=(-(-n // 3), 4)), 3, axis=0)[:n]


def time_stamps(generator: np.random.Generator, n: int) -> Array:
    hours = generator.integers(0, 24 * 365, n)
    return np.column_stack([3600 * hours, hours % 24, hours // 24 % 7]).astype(float)


def constants(generator: np.random.Generator, n: int) -> Array:
    rare = generator.random(n) < 0.005
    return np.column_stack([generator.normal(size=(n, 3)), np.zeros(n), np.full(n, 7.3), rare])


LAYOUTS: dict[str, Layout] = {
    "normal, 5 features": lambda generator, n: generator.normal(size=(n, 5)),
    "normal, 50 features": lambda generator, n: generator.normal(size=(n, 50)),
    "normal, 300 features": lambda generator, n: generator.normal(size=(n, 300)),
    "one feature": lambda generator, n: generator.normal(size=(n, 1)),
    "uniform cube": lambda generator, n: generator.random((n, 6)),
    "correlated": correlated,
    "ring": ring,
    "spirals": spirals,
    "tiny clusters": tiny_clusters,
    "clusters of different size": uneven_clusters,
    "log-normal": lambda generator, n: generator.lognormal(0, 1.5, (n, 10)),
    "t, 2 degrees": lambda generator, n: generator.standard_t(2, (n, 8)),
    "Cauchy": lambda generator, n: generator.standard_cauchy((n, 4)),
    "counts": lambda generator, n: generator.poisson(np.geomspace(0.2, 40, 6), (n, 6)).astype(float),
    "Zipf": lambda generator, n: generator.zipf(2.0, (n, 3)).astype(float),
    "booleans, 10": partial(booleans, count=10),
    "booleans, 40": partial(booleans, count=40),
    "one-hot and numbers": one_hot,
    "many zeros": many_zeros,
    "word counts": word_counts,
    "unit vectors": unit_vectors,
    "mixed scales": lambda generator, n: generator.normal(size=(n, 7)) * 10.0 ** np.arange(-6, 8, 2),
    "extreme units": lambda generator, n: generator.normal(size=(n, 4)) * [1e-80, 1e-6, 1e12, 1e80],
    "half of the rows repeat": half_repeats,
    "each row three times": three_times,
    "rounded to a grid": lambda generator, n: np.round(2 * generator.normal(size=(n, 3))) / 2,
    "time stamps": time_stamps,
    "constant columns": constants,
}


def drawn(layout: str, model: str, generator: np.random.Generator, *counts: int) -> list[Array]:
    """Return rows of a layout, so many each time; for all but AutoDetector standardised by others."""
    rows = [LAYOUTS[layout](generator, count) for count in counts]
    if model == "auto":
        return rows
    others = StandardScaler().fit(LAYOUTS[layout](np.random.default_rng(10**6), N_SCALED))
    return [others.transform(some) for some in rows]


def recall(layout: str, model: str, n_rows: int) -> Record:
    """Return the recall of new rows and the expected one, the means over draws."""
    found, expected, warned = [], [], 0
    with threadpool_limits(limits=1):
        for seed in range(N_DRAWS):
            rows, new = drawn(layout, model, np.random.default_rng(seed), n_rows, N_NEW)
            detector = MODELS[model][1]().fit(rows)
            found.append(float((detector.predict(new) == 1).mean()))
            expected.append(float(detector.expected_recall_))
            warned += bool(detector.warning_)
    less = np.subtract(found, expected)
    return {
        "layout": layout,
        "model": model,
        "rows": n_rows,
        "draws": N_DRAWS,
        "found": round(float(np.mean(found)), 4),
        "expected": round(float(np.mean(expected)), 4),
        "less": round(float(less.mean()), 4),
        "error": round(float(less.std(ddof=1) / np.sqrt(N_DRAWS)), 4),
        "warned": warned,
    }


def cases(_: Options) -> Iterator[Case]:
    for model, (name, _) in MODELS.items():
        for n_rows in KERNEL_PCA_ROWS if model == "kernel PCA" else RECALL_ROWS:
            for layout in LAYOUTS:
                yield f"{name}, {n_rows} rows: {layout}", partial(recall, layout, model, n_rows)


def report(document: Document) -> str:
    found = pd.DataFrame(document["records"])
    found["beyond"] = found["less"].abs() > ERRORS * found["error"]
    found["model"] = pd.Categorical(found["model"], [*MODELS])
    columns = found.groupby(["model", "rows"], observed=True)
    named = {(MODELS[model][0], n_rows): some.set_index("layout") for (model, n_rows), some in columns}
    return f"{summary(named)}\n\n{by_layout(named)}"


def summary(columns: dict[tuple[str, int], pd.DataFrame]) -> str:
    """Return for each model and number of rows how many layouts are off, and how many are so unsaid."""
    rows = []
    for (name, n_rows), some in columns.items():
        off, silent = (some["less"].abs() > OFF).sum(), (some["beyond"] & (some["warned"] == 0)).sum()
        rows.append(f"{name} | {n_rows:,} | {off} | {silent}")
    head = f"model | rows | kinds off by more than {OFF} | kinds beyond {ERRORS} standard errors of which no fit warned"
    return table(head, rows)


def by_layout(columns: dict[tuple[str, int], pd.DataFrame]) -> str:
    """Return how far each layout is off with the most rows that each model has learned; those that are not by name."""
    most = dict(columns.keys())
    shown = {f"{name}, {most[name]:,}": columns[name, most[name]] for name in most}
    texts = pd.DataFrame({name: some.apply(difference, axis=1) for name, some in shown.items()}, LAYOUTS).fillna("")
    off = pd.Series(False, LAYOUTS)
    for some in shown.values():
        off |= (some["beyond"] | (some["less"].abs() > NEAR)).reindex(off.index, fill_value=False)
    rows = [" | ".join([layout, *cells]) for layout, cells in texts[off].iterrows()]
    others = f"Within {NEAR} and {ERRORS} standard errors for each of these models: {'; '.join(texts.index[~off])}."
    return f"{table(' | '.join(['accepted less expected', *shown]), rows)}\n\n{others}"


def difference(record: pd.Series) -> str:
    """Return a difference, bold beyond its standard errors, with a w where half of the fits warned, or more."""
    text = f"{record['less']:+.3f}"
    text = f"**{text}**" if record["beyond"] else text
    return f"{text}w" if 2 * record["warned"] >= record["draws"] else text


if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, report, keys=("layout", "model", "rows"), alone=()).main()
