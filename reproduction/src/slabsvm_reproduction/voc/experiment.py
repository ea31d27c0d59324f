"""The paper's second experiment: objects of Pascal VOC by their HOG, each class against regions of background.

A class is learned from two thirds of its objects, and faced with the others and with all of its backgrounds, three
times; the Matthews correlations of the three folds are averaged. Objects of one image stay in one fold: they share its
light and its scene, and may overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from math import log2
from threading import Lock
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slabsvm import bandwidth
from slabsvm.kernels import NAMED
from slabsvm_reproduction.letter import experiment as paper
from slabsvm_reproduction.letter import table_one
from slabsvm_reproduction.run import printed
from slabsvm_reproduction.run.journal import Record
from slabsvm_reproduction.run.methods import METHODS, TIE, measure_one_class
from slabsvm_reproduction.run.provenance import VERSION
from slabsvm_reproduction.voc.classes import N_FOLDS, folds
from slabsvm_reproduction.voc.coordinates import FloatArray, KernelTable, firsts
from slabsvm_reproduction.voc.hog import ClassFeatures
from slabsvm_reproduction.voc.surest import surest
from slabsvm_reproduction.voc.texture import BAND, SUM, measure_band, totals

CALIBRATIONS = ("training", "auto")
COLUMNS = tuple(method for method in METHODS if method != "KDE")
SLAB = "OCSSVM"


@dataclass(frozen=True)
class Kernel:
    """A kernel of the experiment, with the rule for its gamma.

    Attributes
    ----------
    name : str, one of paper.KERNELS, or SUM
    gamma : float or None
        A gamma that is given.
    multiple : float or None
        A gamma that follows from the training objects: so many times the median heuristic's.
    printed : bool
        Whether gamma is what the paper prints for the method and the class.
    """

    name: str
    gamma: float | None = None
    multiple: float | None = None
    printed: bool = False

    @property
    def title(self) -> str:
        """What it is called in a table."""
        if self.printed:
            return "rbf at the paper's gammas"
        if self.gamma is not None:
            return f"rbf at gamma 2^{log2(self.gamma):.0f}"
        if self.multiple is None:
            return self.name
        return "rbf at median gamma" if self.multiple == 1 else f"rbf at {self.multiple:g} x median gamma"


# The rows of the table. The paper has gammas for the classes of VOC alone.
AT_PRINTED, AT_MEDIAN = Kernel("rbf", printed=True), Kernel("rbf", multiple=1.0)
KERNELS = tuple(
    kernel for name in paper.KERNELS for kernel in ((AT_PRINTED, AT_MEDIAN) if name == "rbf" else (Kernel(name),))
)
# The range of the gammas that the paper prints for VOC, and its middle.
TINY_GAMMAS = tuple(Kernel("rbf", gamma=2.0**-power) for power in (30, 23, 16))
# The share of the variance that all components explain, but for rounding; and what a component explains at least,
# relative to the matrix.
ALL, FEWEST_VARIANCE = 1 - 1e-7, 1e-13
REPLACED = "There are fewer components than asked for: all are kept."
# The band's shares of training objects outside: the slab's.
SHARES = {"nu_lower": paper.NU_LOWER, "nu_upper": paper.NU_UPPER}
# Gammas beside that of the median heuristic, for those that have planes.
OTHER_GAMMAS = tuple(Kernel("rbf", multiple=multiple) for multiple in (0.25, 4.0, 16.0))
SWEPT = ("OCSVM", SLAB)
# Kernels that are made of one table are neighbours.
IN_TURN = sorted((*KERNELS, *OTHER_GAMMAS, *TINY_GAMMAS), key=lambda kernel: paper.KERNELS.index(kernel.name))


@dataclass(frozen=True)
class RegionCell:
    """One detector, learned from one fold's objects of a class.

    Attributes
    ----------
    data : str
        Start of the checksum of all that the features of the class depend on, backgrounds included.
    known : str
        The class.
    fold : int
    method : str, one of METHODS, or BAND, which is no model and has no detector
    kernel : str
        SUM for BAND.
    gamma, multiple, printed
        As of :class:`Kernel`, with gamma as a number where it is printed.
    calibration : str, one of CALIBRATIONS
    parameters : tuple of (name, value)
        The method's others.
    n_folds : int
    version : str
        Version of the code: a record made by another one is not taken for this cell's.
    """

    data: str
    known: str
    fold: int
    method: str
    kernel: str
    gamma: float | None
    multiple: float | None
    printed: bool
    calibration: str
    parameters: tuple[tuple[str, Any], ...]
    n_folds: int = N_FOLDS
    version: str = VERSION

    def detector(self) -> Any:
        """The method's estimator for what :class:`Shown` shows it of the rows."""
        return METHODS[self.method](
            kernel="precomputed" if self.kernel == "rbf" else "linear",
            calibration=self.calibration,
            **dict(self.parameters),
        )


def region_cells(features: Sequence[ClassFeatures], *, of_voc: bool) -> list[RegionCell]:
    """The cells, in an order in which neighbours share what is costly: class, kernel, fold.

    Classes of VOC have the parameters that the paper prints for them; others have those of `table_one.OURS`, and no
    gammas but those that follow from their features.
    """
    models = [
        (kernel, fold, method, calibration)
        for kernel in IN_TURN
        for fold in range(N_FOLDS)
        for method in (SWEPT if kernel in OTHER_GAMMAS else COLUMNS)
        for calibration in CALIBRATIONS
        if of_voc or not (kernel.printed or kernel.gamma)
    ]
    # The band learns no score, so that training and leave-one-out thresholds are the same.
    bands = [(Kernel(SUM), fold, BAND, "training") for fold in range(N_FOLDS)]
    return [
        _region_cell(of_class, kernel, fold, method, calibration, of_voc=of_voc)
        for of_class in features
        for kernel, fold, method, calibration in (*models, *bands)
    ]


def _region_cell(
    of_class: ClassFeatures, kernel: Kernel, fold: int, method: str, calibration: str, *, of_voc: bool
) -> RegionCell:
    known = of_class.label
    parameters = SHARES if method == BAND else _parameters(method, kernel.name, known, of_voc=of_voc)
    return RegionCell(
        data=of_class.key[:16],
        known=known,
        fold=fold,
        method=method,
        kernel=kernel.name,
        gamma=printed.gamma("voc", method, known) if kernel.printed else kernel.gamma,
        multiple=kernel.multiple,
        printed=kernel.printed,
        calibration=calibration,
        parameters=tuple(parameters.items()),
    )


def _parameters(method: str, kernel: str, known: str, *, of_voc: bool) -> dict[str, Any]:
    """All parameters of a method but its kernel and threshold."""
    if not of_voc and method in table_one.OURS:
        return table_one.OURS[method]
    given = printed.parameters("voc", method, kernel, known) if of_voc else printed.FOR_ALL[method]
    return {name: value for name, value in (given | table_one.CHOSEN[method]).items() if name != "gamma"}


class Shown:
    """What the cells' detectors are shown of the rows: an RBF kernel's matrices, coordinates of another's.

    What cells share is computed once, by whichever comes first.

    Parameters
    ----------
    features : mapping from class to its features
    """

    def __init__(self, features: Mapping[str, ClassFeatures]) -> None:
        self.features = features
        self._seconds = 0.0
        self._lock = Lock()
        # Threads work on neighbouring cells: two of each are in use where one class or kernel ends.
        self._table = lru_cache(2)(self._compute_table)
        self._fold = lru_cache(2)(self._compute_fold)
        self._folds = cache(lambda known: folds(self.features[known]))
        self._firsts = cache(lambda known: firsts(self.features[known].X[: len(self.features[known].objects)]))
        self._totals = cache(lambda known: totals(self.features[known].X))

    def rows(self, known: str, fold: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_]]:
        """Return the rows that a fold trains on, those that it tests with, and which of these are objects."""
        of_class = self.features[known]
        train, held_out = self._folds(known)[fold]
        rest = np.concatenate([held_out, np.arange(len(of_class.objects), len(of_class.X))])
        return train, rest, rest < len(of_class.objects)

    def of(self, cell: RegionCell) -> tuple[FloatArray, FloatArray, Record]:
        """Return what is shown of a fold's training objects and of the rest, and gamma and the seconds that it took."""
        with self._lock:
            before = self._seconds
            train, rest, gamma = self._fold(cell.known, cell.fold, Kernel(cell.kernel, cell.gamma, cell.multiple))
            # The largest distance of an RBF kernel's values from 1; less than their rounding is nothing.
            spread = None if gamma is None else float(1.0 - train.min())
            about = {"gamma_used": gamma, "kernel_spread": spread}
            return train, rest, about | {"kernel_seconds": round(self._seconds - before, 6)}

    def sums(self, known: str) -> tuple[FloatArray, Record]:
        """Return the sum of each row's values, and the seconds that it took."""
        with self._lock:
            begin = perf_counter()
            return self._totals(known), {"gamma_used": None, "kernel_seconds": round(perf_counter() - begin, 6)}

    def _compute_table(self, known: str, kernel: str) -> KernelTable:
        of_class = self.features[known]
        return KernelTable.of(NAMED[kernel](), of_class.X, len(of_class.objects))

    def _compute_fold(self, known: str, fold: int, kernel: Kernel) -> tuple[FloatArray, FloatArray, float | None]:
        begin = perf_counter()
        train, rest, _ = self.rows(known, fold)
        table, gamma = self._table(known, "linear" if kernel.name == "rbf" else kernel.name), kernel.gamma
        if kernel.multiple is not None:
            # The median is over training objects alone; their coordinates have the distances of their features.
            gamma = kernel.multiple * bandwidth.median_heuristic(table.coordinates(train, train[:0])[0])
        # Equal objects are one sample to a detector, which looks for rows that are equal to the last digit.
        _, first, group = np.unique(self._firsts(known)[train], return_index=True, return_inverse=True)
        same = first[group]
        if gamma is None:
            within, beyond = table.coordinates(train, rest)
            within = within[same]
        else:
            within, beyond = table.rbf(gamma).matrices(train, rest)
            within, beyond = within[np.ix_(same, same)], beyond[:, same]
        self._seconds += perf_counter() - begin
        return within, beyond, gamma


def region_measure(features: Sequence[ClassFeatures]) -> Callable[[RegionCell], Record]:
    """The function that measures one cell on these classes."""
    shown = Shown({of_class.label: of_class for of_class in features})

    def measure(cell: RegionCell) -> Record:
        learned_from, rows, known = shown.rows(cell.known, cell.fold)
        parameters = dict(cell.parameters)
        about = {"d": shown.features[cell.known].window.dimension, "tol": parameters.get("tol")}
        if cell.method == BAND:
            sums, how = shown.sums(cell.known)
            return about | how | measure_band(sums[learned_from], sums[rows], known, **parameters)
        train, test, how = shown.of(cell)

        feasible = _feasible(cell, train)

        def look(detector: Any, inside: NDArray[np.bool_]) -> Record:
            # The fit's warning, after a note where the parameters are not the cell's.
            warning_text = detector.warning_ if feasible is cell else f"{REPLACED} {detector.warning_}".rstrip()
            of_slab = _of_slab(detector, test, inside, known, rows) if cell.method == SLAB else {}
            return {"told": warning_text, **of_slab}

        # Where all kernel values are nearly one, scores differ by as little.
        tie = TIE * min(1.0, how["kernel_spread"] or 1.0)
        return about | how | measure_one_class(feasible, train, test, known, look, tie=tie)

    return measure


def _feasible(cell: RegionCell, train: FloatArray) -> RegionCell:
    """Return the cell, with all components in place of the paper's number where there are fewer."""
    parameters = dict(cell.parameters)
    wanted = parameters.get("n_components")
    if cell.method != "KPCA" or not isinstance(wanted, int):
        return cell
    matrix = train if cell.kernel == "rbf" else train @ train.T
    centred = matrix - matrix.mean(axis=0) - matrix.mean(axis=1)[:, None] + matrix.mean()
    variances = np.linalg.eigvalsh(centred)
    # `KernelPCADetector` does not count variances of the size of rounding as components.
    if np.count_nonzero(variances > FEWEST_VARIANCE * float(np.abs(matrix).max()) * len(matrix)) >= wanted:
        return cell
    return replace(cell, parameters=tuple((parameters | {"n_components": ALL}).items()))


def _of_slab(
    slab: Any, test: FloatArray, inside: NDArray[np.bool_], known: NDArray[np.bool_], rows: NDArray[np.intp]
) -> Record:
    planes = (slab.rho_lower_, slab.rho_upper_)
    return {"width": _width(slab), "sure_of": surest(slab.project(test), planes, inside, known, rows)}


def _width(slab: Any) -> float:
    """The distance of the planes, relative to the larger of their calibration; 0 where both planes are at 0."""
    largest = max(abs(slab.rho_lower_), abs(slab.rho_upper_))
    return float((slab.rho_upper_ - slab.rho_lower_) / largest) if largest else 0.0
