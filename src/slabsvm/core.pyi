"""The compiled core: arrays and scalars in and out, and the GIL released. Its sources lie in the folder core.

Arrays that are written to are never converted: TypeError if one has another type than is said, ValueError if it has
another shape or layout. What arguments are stands in the headers of core.
"""

import numpy as np
import numpy.typing as npt

from slabsvm.runtime.arrays import AnyFloatArray, BoolArray, FloatArray, IntArray

LANES: int

def descend(
    gram: AnyFloatArray,
    scores: AnyFloatArray,
    values: FloatArray,
    upper_bounds: FloatArray,
    signs: AnyFloatArray,
    objective: float,
    smallest: float,
    tol: float,
    share: float,
    floor: float,
    max_steps: int,
    *,
    at_once: int = ...,
) -> tuple[int, float]: ...

# Of float64 alone, though the type of products of rows is not known as closely.
def exponentials(values: AnyFloatArray) -> None: ...
def rbf_gram(Z: FloatArray, norms: FloatArray, K: FloatArray) -> None: ...
def kth_least(values: FloatArray, k: int, out: FloatArray) -> None: ...
def intersection_rows(
    indptr: npt.NDArray[np.int32 | np.int64],
    indices: npt.NDArray[np.int32 | np.int64],
    data: AnyFloatArray,
    right: AnyFloatArray,
    out: AnyFloatArray,
) -> None: ...
def chi2_rows(
    indptr: npt.NDArray[np.int32 | np.int64],
    indices: npt.NDArray[np.int32 | np.int64],
    data: AnyFloatArray,
    right: AnyFloatArray,
    out: AnyFloatArray,
) -> None: ...
def fit(
    K: FloatArray,
    upper_bounds: FloatArray,
    totals: FloatArray,
    linear: FloatArray,
    *,
    tol: float,
    smallest: float,
    floor: float,
    max_steps: int = ...,
    most_work: float = ...,
    optimum: bool = ...,
    stays: FloatArray | None = ...,
    groups: tuple[IntArray, IntArray, BoolArray] | None = ...,
) -> tuple[FloatArray, FloatArray, int, float, bool, FloatArray, float, dict[str, int]]: ...
def instruction_sets() -> list[str]: ...
def use_instructions(name: str) -> None: ...
def instructions() -> str: ...
