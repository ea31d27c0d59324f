"""The records of the experiment on Pascal VOC, by method, kernel and threshold, and their medians over the classes."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

from slabsvm_reproduction.report.tables import pick
from slabsvm_reproduction.run.journal import Record
from slabsvm_reproduction.voc.experiment import KERNELS, OTHER_GAMMAS, SLAB, Kernel
from slabsvm_reproduction.voc.texture import BAND

THRESHOLDS = {"training": "thresholds at training scores", "auto": "thresholds at leave-one-out scores"}
# The gammas that follow from the features, from small to large.
BY_MULTIPLE = tuple(
    sorted((k for k in (*KERNELS, *OTHER_GAMMAS) if k.multiple is not None), key=lambda k: k.multiple or 0.0)
)


def kernels_of(records: Sequence[Record]) -> tuple[Kernel, ...]:
    """The rows of the tables: without the paper's gammas where the data are not VOC."""
    return KERNELS if any(record.get("printed") for record in records) else tuple(k for k in KERNELS if not k.printed)


def of_cell(records: Sequence[Record], method: str, kernel: Kernel, calibration: str) -> list[Record]:
    """The records of a method with a kernel, one for each class and fold."""
    gammas = {} if kernel.printed else {"gamma": kernel.gamma}
    return pick(
        records,
        method=method,
        kernel=kernel.name,
        multiple=kernel.multiple,
        printed=kernel.printed,
        calibration=calibration,
        **gammas,
    )


def by_class(cells: Sequence[Record], field: str = "mcc") -> dict[str, float]:
    """The mean of each class's folds."""
    values: dict[str, list[float]] = {}
    for cell in cells:
        values.setdefault(cell["known"], []).append(cell[field])
    return {known: fmean(of_folds) for known, of_folds in values.items()}


def typical(cells: Sequence[Record], field: str = "mcc") -> float:
    """The median over the classes of the mean of their folds."""
    return median(by_class(cells, field).values())


def auroc(records: Sequence[Record], method: str, kernel: Kernel) -> float:
    """How well a method ranks with a kernel, with thresholds at leave-one-out scores."""
    return typical(of_cell(records, method, kernel, "auto"), "auroc")


def band(records: Sequence[Record], field: str = "mcc") -> float:
    """What the band on one number is worth, typically."""
    return typical(pick(records, method=BAND), field)


def warned(cell: Record) -> bool:
    """Whether the fit warned its user."""
    return bool(cell["told"])


def best_kernel(records: Sequence[Record]) -> Kernel:
    """The kernel with which the slab's median at leave-one-out thresholds is highest."""
    return max(kernels_of(records), key=lambda kernel: typical(of_cell(records, SLAB, kernel, "auto")))
