"""Whether fits at the paper's gammas for Pascal VOC, with kernels that are nearly constant, are as near the optimum as
they say.

    python reproduction/benchmarks/tiny_gamma.py --data FOLDER       # FOLDER holds VOCdevkit/VOC2012
    python reproduction/benchmarks/tiny_gamma.py --read              # the table of the last measurement

Each fit of SVDD, the one-class SVM and the slab in `reproduce voc` with the RBF kernel at a class's printed gamma, at
2^-30, 2^-23 and 2^-16 is repeated, with thresholds at training scores. Its duality gap is then computed again in
extended precision: from the features, with K - 1 by expm1, and from the multipliers and their bounds alone, which are
public. (Sums of multipliers are fixed, so that what is taken off K moves all scores and offsets alike.) Spread is how
far the kernel's least value is from 1: a gap has to be small beside it, not beside 1.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from slabsvm_reproduction.run.methods import CERTIFIED
from slabsvm_reproduction.voc import experiment as pascal
from slabsvm_reproduction.voc.data import find_layout, read_voc
from slabsvm_reproduction.voc.experiment import AT_PRINTED, TINY_GAMMAS, RegionCell
from slabsvm_reproduction.voc.hog import class_features

# The harness is no part of any distribution: it stands beside the library's benchmarks.
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from harness import Benchmark, Case, Options, Record, Table, tables

CLASSES = ("cat", "cow", "dog", "horse", "person", "sheep")
KERNELS = (AT_PRINTED, *TINY_GAMMAS)
Extended = Any  # an array of long double


def is_measured(cell: RegionCell) -> bool:
    """Whether a cell has a certificate, and one of these gammas."""
    tiny = cell.printed or cell.gamma in {kernel.gamma for kernel in TINY_GAMMAS}
    return cell.method in CERTIFIED and cell.calibration == "training" and tiny


def squared_distances(X: Any) -> Extended:
    """Return |x - z|^2 between the rows of X in extended precision."""
    X = np.asarray(X, dtype=np.longdouble)
    products = X @ X.T
    norms = np.diag(products)
    return norms[:, None] + norms - 2 * products


def planes(detector: Any, m: int) -> list[tuple[int, Extended, Any, Any]]:
    """Return of each plane of a fit its sign, its samples' coefficients, the most that one may be, and their sum."""
    coefficients = np.zeros(m, dtype=np.longdouble)
    coefficients[detector.support_] = detector.dual_coef_[0]
    given, one = detector.get_params(), np.longdouble(1)
    if "nu_lower" not in given:
        return [(1, coefficients, one * given["C"] if given.get("C") else one / (one * given["nu"] * m), one)]
    lower, upper, epsilon = np.maximum(coefficients, 0), np.maximum(-coefficients, 0), one * given["epsilon"]
    return [
        (1, lower, one / (one * given["nu_lower"] * m), one),
        (-1, upper, epsilon / (one * given["nu_upper"] * m), epsilon),
    ]


def gap(detector: Any, kernel: Extended) -> float:
    """Return the duality gap of a fit, under a kernel matrix from which a constant may have been taken.

    With a plane at rho a multiplier should be 0 above it and at its upper bound below: the gap is how far it is from
    that, times its sample's height above or below, at the best rho, which is at a sample. A sample may have multipliers
    in both planes, of which the coefficient is the difference: the rest, in all what the coefficients lack of the
    planes' sums, adds its multiple of the planes' distance to the gap, whichever samples have it.
    """
    parts = planes(detector, len(kernel))
    scores = kernel @ sum(sign * held for sign, held, *_ in parts)
    found = np.longdouble(0)
    for sign, held, cap, total in parts:
        places = sign * scores
        heights = places[:, None] - places
        wrong = np.where(heights > 0, held[:, None] * heights, (held - cap)[:, None] * heights)
        found += (wrong.sum(axis=0) - (total - held.sum()) * places).min()
    return float(found)


def measure(folder: Path, label: str) -> list[Record]:
    """Fit all cells of a class, and compute their gaps again."""
    with tempfile.TemporaryDirectory() as cache:
        data = read_voc(find_layout(folder / "VOCdevkit"), n_jobs=1)
        # A fit sees no background.
        of_class = class_features(data, label, n_backgrounds=10, cache=Path(cache), n_jobs=1)
        squared = squared_distances(of_class.X[: len(of_class.objects)])
        shown = pascal.Shown({label: of_class})
        records = []
        for cell in filter(is_measured, pascal.region_cells([of_class], of_voc=True)):
            train, _, how = shown.of(cell)
            rows, _, _ = shown.rows(label, cell.fold)
            detector = cell.detector().fit(train)
            kernel = np.expm1(-np.longdouble(how["gamma_used"]) * squared[np.ix_(rows, rows)])
            records.append(
                {
                    "class": label,
                    "fold": cell.fold,
                    "method": cell.method,
                    "gamma": "printed" if cell.printed else f"2^{np.log2(how['gamma_used']):.0f}",
                    "gamma_used": how["gamma_used"],
                    "m": len(rows),
                    "spread": float(-kernel.min()),
                    "claimed": float(detector.duality_gap_),
                    "true": gap(detector, kernel),
                }
            )
        return records


def cases(options: Options) -> Iterator[Case]:
    if options.data is None:
        sys.exit("Name the folder of VOCdevkit with --data, or set SLABSVM_DATA.")
    if np.finfo(np.longdouble).eps > 1e-18:
        sys.exit("On this machine long double is no more than double.")
    for label in CLASSES:
        yield label, partial(measure, options.data, label)


def worst(records: list[Record]) -> list[Record]:
    """Return for each method and gamma, and for all, the largest differences and gaps."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record["method"], record["gamma"]), []).append(record)
    return [
        {
            "method": method,
            "gamma": gamma,
            "fits": len(group),
            "least": min(r["spread"] for r in group),
            "largest": max(r["spread"] for r in group),
            "difference": max(abs(r["true"] - r["claimed"]) for r in group),
            "true": max(r["true"] for r in group),
            "of_spread": max(r["true"] / r["spread"] for r in group),
        }
        for (method, gamma), group in [*groups.items(), (("all", "all"), records)]
    ]


TABLE = Table(
    "method | gamma | fits | 1 - least K | certificate off by at most | gap at most | gap / spread at most",
    (
        "{method} | {gamma} | {fits} | {least:.0e} to {largest:.0e} | {difference:.1e} | {true:.1e} | {of_spread:.1e}"
    ).format_map,
    "llrrrrr",
)

if __name__ == "__main__":
    folder = {
        "type": Path,
        "default": os.environ.get("SLABSVM_DATA") or None,
        "help": "holds VOCdevkit [$SLABSVM_DATA]",
    }
    Benchmark(
        __file__,
        __doc__,
        cases,
        lambda document: tables(TABLE)({"records": worst(document["records"])}),
        keys=("class", "fold", "method", "gamma"),
        arguments={"--data": folder},
    ).main()
