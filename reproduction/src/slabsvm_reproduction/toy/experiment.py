"""The paper's toy experiment at the parameters that it prints, and under other readings of what it does not say.

1,500 points of a bivariate normal distribution; the share of them inside the slab, for five epsilons. The paper does
not give the mean, the covariance, the seed, where the planes stand, and how a point on a plane counts: each choice of
these is a reading. The mean here is far from the origin, since the best linear w is zero where epsilon times the cloud
meets the cloud; the RBF kernel does not depend on the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slabsvm import OneClassSlabSVM
from slabsvm_reproduction.run import printed
from slabsvm_reproduction.run.journal import Record
from slabsvm_reproduction.run.methods import TIE
from slabsvm_reproduction.run.provenance import VERSION

N_POINTS: int = printed.TOY["n_points"]
NU_LOWER: float = printed.TOY["nu_lower"]
NU_UPPER: float = printed.TOY["nu_upper"]
GAMMA: float = printed.TOY["gamma"]
EPSILONS = tuple(printed.TOY_SHARES["linear"])
KERNELS = tuple(printed.TOY_SHARES)

# Covariances of the points, the mean of each feature, and how many draws of each there are.
SHAPES = {"round": ((1.0, 0.0), (0.0, 1.0)), "long": ((4.0, 0.0), (0.0, 1.0)), "tilted": ((1.0, 0.8), (0.8, 1.0))}
MEAN = 20.0
DRAWS, FEWER_DRAWS = range(100), range(20)

AS_PRINTED = "as printed"


@dataclass(frozen=True)
class Reading:
    """A choice where the paper names none.

    Attributes
    ----------
    name : str
    changes : tuple of (name, value)
        What a cell has in place of the fields' defaults.
    kernels : tuple of str
        Those that it makes a difference to.
    """

    name: str
    changes: tuple[tuple[str, Any], ...] = ()
    kernels: tuple[str, ...] = KERNELS


READINGS = (
    Reading(AS_PRINTED),
    Reading("planes at leave-one-out scores", (("calibration", "auto"),)),
    Reading("nu_upper .01, as in the other experiments", (("nu_upper", printed.FOR_ALL["OCSSVM"]["nu_upper"]),)),
    Reading("features standardised", (("standardised", True),)),
    Reading("mean at the origin", (("mean", 0.0),), ("linear",)),
)

SETTING = (
    f"{N_POINTS:,} points of a bivariate normal distribution; nu_lower {NU_LOWER:g}, nu_upper {NU_UPPER:g}, gamma "
    f"{GAMMA:g} for the RBF kernel, epsilon 1/6 to 5/6: all as the paper prints them. Mean ({MEAN:g}, {MEAN:g}), "
    f"covariances and draws are ours, since it gives none: {len(DRAWS)} draws of each of {len(SHAPES)} covariances "
    "(round; long, variances 4 and 1; tilted, correlation .8). Planes stand at training scores, and a point on a plane "
    f"counts as inside, unless a reading says otherwise; the other readings have {len(FEWER_DRAWS)} draws. By its "
    f"parameters the slab leaves {NU_LOWER + NU_UPPER:.0%} of the points outside."
)


@dataclass(frozen=True)
class ToyCell:
    """One slab on one draw of the toy data: everything that the share of points inside depends on."""

    kernel: str
    epsilon: float
    seed: int
    shape: str = "round"
    n_points: int = N_POINTS
    mean: float = MEAN
    standardised: bool = False
    nu_lower: float = NU_LOWER
    nu_upper: float = NU_UPPER
    gamma: float = GAMMA
    calibration: str = "training"
    tol: float = 1e-10
    version: str = VERSION


def cells_of(reading: Reading) -> list[ToyCell]:
    """The cells of a reading: kernels by epsilons by covariances by draws."""
    return [
        ToyCell(kernel, epsilon, seed, shape, **dict(reading.changes))
        for kernel in reading.kernels
        for epsilon in EPSILONS
        for shape in SHAPES
        for seed in (DRAWS if reading.name == AS_PRINTED else FEWER_DRAWS)
    ]


def toy_cells() -> list[ToyCell]:
    """The cells of all readings, in their order."""
    return [cell for reading in READINGS for cell in cells_of(reading)]


def toy_points(cell: ToyCell) -> NDArray[np.float64]:
    """Draw the cell's points; shape (n_points, 2)."""
    X = np.random.default_rng(cell.seed).multivariate_normal([cell.mean] * 2, SHAPES[cell.shape], cell.n_points)
    return (X - X.mean(axis=0)) / X.std(axis=0) if cell.standardised else X


def toy_fit(cell: ToyCell) -> tuple[OneClassSlabSVM, NDArray[np.float64]]:
    """Fit the cell's slab; also return its points, of shape (n_points, 2)."""
    X = toy_points(cell)
    slab = OneClassSlabSVM(
        kernel=cell.kernel,
        gamma=cell.gamma,
        nu_lower=cell.nu_lower,
        nu_upper=cell.nu_upper,
        epsilon=cell.epsilon,
        calibration=cell.calibration,
        tol=cell.tol,
    )
    return slab.fit(X), X


def toy_measure(cell: ToyCell) -> Record:
    """Measure the shares of the training points inside the slab, strictly inside, and not below the lower plane."""
    slab, X = toy_fit(cell)
    scores = slab.project(X)
    lower, upper = float(slab.rho_lower_), float(slab.rho_upper_)
    tie = TIE * abs(lower)
    return {
        "share_inside": float(np.mean((scores >= lower - tie) & (scores <= upper + tie))),
        "share_strictly_inside": float(np.mean((scores > lower + tie) & (scores < upper - tie))),
        "share_not_below": float(np.mean(scores >= lower - tie)),
        "rho_lower": lower,
        "rho_upper": upper,
        "n_support": len(slab.support_),
        "status": slab.status_,
        "dual_objective": float(slab.dual_objective_),
        "duality_gap": float(slab.duality_gap_),
    }


def mahalanobis_distances(n_features: int, seed: int = 0, n_points: int = 20_000) -> NDArray[np.float64]:
    """Draw the distances of standard normal samples from their mean; shape (n_points,)."""
    samples = np.random.default_rng(seed).normal(size=(n_points, n_features))
    distances: NDArray[np.float64] = np.sqrt(np.sum(samples**2, axis=1))
    return distances
