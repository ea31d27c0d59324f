"""Measure where the planes should be put: at quantiles of training scores, or of leave-one-out scores.

    python benchmarks/offsets.py --data DIR [--page docs/results/offsets.md]
    python benchmarks/offsets.py --read

Every model learns one class from a random half of its samples. The share that it accepts of the other half is its
recall, which is set against the nominal recall, 1 - nu_lower - nu_upper; the samples of the other classes are novel.
Features are scaled by the training samples alone. docs/results/offsets.md explains the protocol and has the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import betabinom, wilcoxon
from sklearn.metrics import matthews_corrcoef

from class_data import ADDITIVE, MOST_TRAINING, Array, DataSet, Split, data_sets, split
from harness import JOBS, Benchmark, Case, Document, Options, Record, means, table
from samples import DATA, has_letter
from slabsvm import OneClassSlabSVM

CALIBRATIONS = ("training", "auto")
# The rule that is the default, and multiples of gamma="scale".
GAMMAS = ("neighbours", 0.1, 1.0, 10.0, 100.0)
SMALL_GAMMAS = (1.0, 10.0)
N_SPLITS = 3

# Differences below this are ties.
TIE = 0.005

# Other points of the trade between recall and false acceptance.
NU_LOWERS = (0.1, 0.3, 0.5, 0.7)

SMALL_SIZES = (20, 50, 100, 200)
SMALL_SPLITS = 20
SMALL_SETS = ("blobs 2", "blobs 16", "heavy tails", "histograms", "letter")

DECISIONS = ("bias", "recall_error", "unavoidable", "mcc", "balanced_accuracy", "false_acceptance")
MEASURED = ("m", "expected_recall", *DECISIONS)


@dataclass(frozen=True)
class Model:
    """What a fit depends on, but for its data and its calibration; gamma is a rule, or in units of gamma="scale"."""

    kernel: str
    gamma: float | str | None
    nu_lower: float
    nu_upper: float
    epsilon: float

    @property
    def nominal_recall(self) -> float:
        return 1 - self.nu_lower - (self.nu_upper if self.epsilon else 0.0)

    def fit(self, train: Array, calibration: str) -> OneClassSlabSVM:
        gamma = self.gamma if isinstance(self.gamma, str) else "scale"
        if isinstance(self.gamma, float) and train.var() > 0:
            gamma = self.gamma / (train.shape[1] * train.var())
        return OneClassSlabSVM(
            kernel=self.kernel,
            gamma=gamma,
            nu_lower=self.nu_lower,
            nu_upper=self.nu_upper,
            epsilon=self.epsilon,
            calibration=calibration,
        ).fit(train)


DEFAULT_MODEL = Model("rbf", "neighbours", 0.1, 0.01, 2 / 3)


# Measurement


def operating_points() -> list[Model]:
    """Return the default model with lower and lower nominal recalls."""
    return [replace(DEFAULT_MODEL, nu_lower=nu_lower) for nu_lower in NU_LOWERS]


def models(additive: bool) -> list[Model]:
    """Return what is measured: kernels by nu and epsilon. Without an upper plane nu_upper means nothing."""
    kernels: list[tuple[str, float | str | None]] = [("rbf", gamma) for gamma in GAMMAS]
    kernels += [(name, None) for name in (("linear", *ADDITIVE) if additive else ("linear",))]
    slabs = ((0.1, 0.01, 2 / 3), (0.1, 0.05, 2 / 3), (0.1, 0.01, 0.0))
    return [Model(kernel, gamma, *slab) for kernel, gamma in kernels for slab in slabs]


def measure(data: DataSet, known: Any) -> Iterator[Record]:
    """Fit all models, with both calibrations, on each split of one class, and report how each decides."""
    for seed in range(N_SPLITS):
        parts = split(data, known, seed)
        scaled = {kernel: parts.scaled(kernel) for kernel in ("rbf", "linear", *(ADDITIVE if data.additive else ()))}
        for section, some in (("fits", models(data.additive)), ("points", operating_points())):
            for model in some:
                for calibration in CALIBRATIONS:
                    slab = model.fit(scaled[model.kernel].train, calibration)
                    yield {
                        "section": section,
                        "data": data.name,
                        **asdict(model),
                        "calibration": calibration,
                        "degenerate": slab.status_ == "degenerate",
                        "converged": slab.status_ in ("converged", "degenerate"),
                        "expected_recall": slab.training_recall_bound_,
                        **judged(model, scaled[model.kernel], lambda X, slab=slab: slab.predict(X) > 0),
                    }


def judged(model: Model, parts: Split, accept: Callable[[Array], Array]) -> Record:
    """Report the decisions of `accept` on held-out and novel samples."""
    held_out, novel = accept(parts.held_out), accept(parts.novel)
    recall, false_acceptance = float(held_out.mean()), float(novel.mean())
    known = np.arange(len(held_out) + len(novel)) < len(held_out)
    m, n = len(parts.train), len(parts.held_out)
    return {
        "m": m,
        "bias": recall - model.nominal_recall,
        "recall_error": abs(recall - model.nominal_recall),
        "unavoidable": unavoidable_error(model.nominal_recall, m, n),
        "mcc": float(matthews_corrcoef(known, np.concatenate([held_out, novel]))),
        "balanced_accuracy": 0.5 * (recall + 1 - false_acceptance),
        "false_acceptance": false_acceptance,
    }


def unavoidable_error(nominal: float, m: int, n: int) -> float:
    """Return E|recall - nominal| when only chance is at work.

    A plane at the r-th of m scores of which none was pulled accepts a share of new samples that is Beta(m + 1 - r, r),
    and n held-out samples see it through a binomial.
    """
    accepted = np.arange(n + 1)
    share = betabinom(n, nominal * (m + 1), (1 - nominal) * (m + 1)).pmf(accepted)
    return float(share @ np.abs(accepted / n - nominal))


def measure_small(data: DataSet, m: int) -> Iterator[Record]:
    """Fit on few samples and put the planes by four rules, of which two correct for the number of samples."""
    small = [model for model in models(False) if model.gamma in SMALL_GAMMAS and model.epsilon]
    for seed in range(SMALL_SPLITS):
        parts = split(data, data.known[seed % len(data.known)], seed, m).scaled("rbf")
        for model in small:
            trained, left_out = (model.fit(parts.train, calibration) for calibration in CALIBRATIONS)
            scores, tails = left_out.calibration_scores_, (model.nu_lower, model.nu_upper)
            planes = {
                "training": (trained.rho_lower_, trained.rho_upper_),
                "leave-one-out": (left_out.rho_lower_, left_out.rho_upper_),
                "rank nu (m + 1)": between_ranks(scores, *tails),
                "conformal": conformal(scores, *tails),
            }
            for rule, ends in planes.items():
                decisions = judged(model, parts, partial(within, left_out, ends))
                yield {"section": "small", "data": data.name, **asdict(model), "rule": rule, **decisions}


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


def sizes(data: DataSet) -> Record:
    halves = [min(int(np.sum(data.y == k)) // 2, MOST_TRAINING) for k in data.known]
    return {
        "section": "data",
        "data": data.name,
        "samples": len(data.X),
        "features": data.X.shape[1],
        "known": len(data.known),
        "training": data.n_training or round(np.mean(halves)),
    }


def cases(options: Options) -> Iterator[Case]:
    for data in data_sets(options):
        yield f"{data.name}, sizes", partial(sizes, data)
        for known in data.known:
            yield f"{data.name}, {known}", partial(measure, data, known)
        if data.name in SMALL_SETS:
            for m in SMALL_SIZES:
                yield f"{data.name}, {m} samples", partial(measure_small, data, m)


# Records


def document(records: list[Record]) -> Document:
    """Return the means of what was measured; a list is a table, with the fields' names first and one record a line."""
    found: dict[str, list[Record]] = {section: [] for section in ("data", "fits", "points", "small")}
    for record in records:
        found[record["section"]].append({name: value for name, value in record.items() if name != "section"})
    fits = found["fits"]
    # A fit whose optimal w is 0 has no direction for planes to be put along, wherever they are put.
    sound = [record for record in fits if record["converged"] and not record["degenerate"]]
    every_gamma = [{**record, "gamma": None} for record in found["small"]]
    rules = ("m", "gamma", "nu_upper", "rule")
    lists = {
        "data": found["data"],
        "records": means(sound, ("data", *asdict(DEFAULT_MODEL), "calibration"), MEASURED),
        "points": means(found["points"], ("data", "nu_lower", "calibration"), MEASURED),
        "small": means([*found["small"], *every_gamma], rules, DECISIONS),
    }
    return {
        "fits": len(fits),
        "degenerate": len(fits) - len(sound),
        "not_converged": sum(not record["converged"] for record in fits),
        **{name: [list(some[0]), *(list(r.values()) for r in some)] if some else [] for name, some in lists.items()},
    }


# Report


def report(document: Document) -> str:
    """Return the tables, in Markdown, to be read below a heading of the second level."""
    records, points, small = (
        [dict(zip(document[name][0], row, strict=True)) for row in document[name][1:]]
        for name in ("records", "points", "small")
    )
    kernels = sorted({(r["kernel"], r["gamma"]) for r in records}, key=_kernel_order)
    slabs = sorted({(r["nu_upper"], r["epsilon"]) for r in records}, key=lambda s: (-s[1], s[0]))
    groups = {
        "every kernel and nu": records,
        f"but {_kernel_name('rbf', GAMMAS[-1])}": [r for r in records if r["gamma"] != GAMMAS[-1]],
        "the default": _with(records, **asdict(DEFAULT_MODEL)),
        **{_kernel_name(*k): _with(records, kernel=k[0], gamma=k[1]) for k in kernels},
        **{_slab_name(*s): _with(records, nu_upper=s[0], epsilon=s[1]) for s in slabs},
    }
    chosen = _with(records, nu_upper=DEFAULT_MODEL.nu_upper, epsilon=DEFAULT_MODEL.epsilon)
    best = _best(chosen)
    lost = [
        f"{name} ({pair['training']['mcc']:.3f} and {pair['auto']['mcc']:.3f})"
        for name, pair in best.items()
        if pair["training"]["mcc"] > pair["auto"]["mcc"]
    ]
    parts = {
        "Means over the data sets": "\n\n".join(
            [_by(groups), f"Recall error, every kernel and nu: {_tests(_means(records), 'recall_error', -1)}."]
        ),
        "The best kernel and gamma for each data set and each of the two, nu .1/.01, epsilon 2/3": "\n\n".join(
            [
                f"MCC: {_tests(best)}. Lost (training, leave-one-out): {', '.join(lost)}.",
                f"The default model at the best of nu_lower = .1, .3, .5, .7 instead: {_tests(_best(points))}.",
            ]
        ),
        "Few samples": _few(small),
    }
    first = (
        "{fits} fits on {date}, in {seconds} s on {machine[cores]} cores. {not_converged} did not converge; "
        "{degenerate} were degenerate (w = 0). Both are left out."
    ).format(**document)
    return "\n\n".join([first, *(f"### {title}\n\n{text}" for title, text in parts.items())])


def _with(records: Iterable[Record], **values: Any) -> list[Record]:
    """Return the records that have these values."""
    return [record for record in records if all(record[name] == value for name, value in values.items())]


def _kernel_order(kernel: tuple[str, float | str | None]) -> tuple[int, int]:
    return ("rbf", "linear", *ADDITIVE).index(kernel[0]), (None, *GAMMAS).index(kernel[1])


def _kernel_name(kernel: str, gamma: float | str | None) -> str:
    return kernel if gamma is None else f"{kernel}, {gamma if isinstance(gamma, str) else f'{gamma:g} x scale'}"


def _slab_name(nu_upper: float, epsilon: float) -> str:
    return f"slab, nu .1/{nu_upper:g}" if epsilon else "one-class SVM, nu .1"


def _means(records: Iterable[Record]) -> dict[str, dict[str, Record]]:
    """Return the means of each data set's records, by data set and calibration."""
    found: dict[str, dict[str, Record]] = {}
    for record in means(records, ("data", "calibration"), MEASURED):
        found.setdefault(record["data"], {})[record["calibration"]] = record
    return found


def _overall(found: dict[str, dict[str, Record]]) -> list[Record]:
    """Return the mean over the data sets, for each of the calibrations."""
    return [
        {name: float(np.mean([pair[o][name] for pair in found.values()])) for name in MEASURED} for o in CALIBRATIONS
    ]


def _error(record: Record) -> str:
    return f"{record['recall_error']:.3f} ({record['bias']:+.3f})"


def _tests(found: dict[str, dict[str, Record]], name: str = "mcc", sign: int = 1) -> str:
    """Count the data sets on which leave-one-out planes are better by this measure, and test the differences."""
    gains = np.array([sign * (pair["auto"][name] - pair["training"][name]) for pair in found.values()])
    # Exact ranks have no ties. Versions of SciPy choose otherwise.
    method = "exact" if len({0.0, *np.abs(gains)}) > len(gains) else "approx"
    p = f"p = {wilcoxon(gains, method=method).pvalue:.2g}" if np.any(gains) else "no difference"
    won, tied, lost = np.sum(gains >= TIE), np.sum(np.abs(gains) < TIE), np.sum(gains <= -TIE)
    return f"won {won}, tied {tied}, lost {lost}; {p}"


def _best(records: Iterable[Record]) -> dict[str, dict[str, Record]]:
    """Return the best record by MCC for each data set and each of the two, chosen with the test samples in sight."""
    best: dict[str, dict[str, Record]] = {}
    for r in records:
        pair = best.setdefault(r["data"], {})
        if r["calibration"] not in pair or r["mcc"] > pair[r["calibration"]]["mcc"]:
            pair[r["calibration"]] = r
    return best


def _by(groups: dict[str, list[Record]]) -> str:
    """Tabulate the mean over the data sets for each group of records, and its wins, ties and losses in MCC."""
    rows = []
    for title, records in groups.items():
        found = _means(records)
        training, left_out = _overall(found)
        errors = [_error(training), _error(left_out), f"{left_out['unavoidable']:.3f}"]
        values = [f"{r['mcc']:.3f}" for r in (training, left_out)]
        rows.append([title, str(len(found)), f"{training['expected_recall']:.2f}", *errors, *values, _tests(found)])
    head = "recall error: training | leave-one-out | chance | MCC: training | leave-one-out | MCC by data set"
    return _table(["", "data sets", "1 - n_SV/m", head], rows)


def _few(small: Iterable[Record]) -> str:
    """Tabulate the rules for planes against the number of training samples."""
    rules = ("training", "leave-one-out", "rank nu (m + 1)", "conformal")
    cells = {(r["m"], r["nu_upper"], r["rule"]): r for r in small if r["gamma"] is None}
    rows = []
    for m, nu_upper in sorted({key[:2] for key in cells}, key=lambda key: (key[1], key[0])):
        some = [cells[m, nu_upper, rule] for rule in rules]
        rows.append([f"{m:.0f}", f".1/{nu_upper:g}", *map(_error, some), f"{some[0]['unavoidable']:.3f}"])
    return _table(["m", "nu", *(f"recall error: {r}" for r in rules), "chance"], rows)


def _table(head: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    line = " | ".join(head)
    return table(line, map(" | ".join, rows), "l" * (line.count(" | ") + 1))


if __name__ == "__main__":
    Benchmark(__file__, __doc__, cases, report, document, whole=has_letter, arguments=DATA | JOBS).main()
