"""Compiled roots of the secular equation: the spectrum of a diagonal matrix less a rank-one matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

FAST = {"nnan", "nsz", "reassoc", "contract"}
# Steps of the rational iteration, which converges quadratically; the bracket halves at least every other one.
STEPS = 80


@njit(cache=True, nogil=True, fastmath=FAST)
def leading_mass(poles: Any, squares: Any, n_leading: int, least: float, out: Any) -> None:
    """Write, for each row y^2 of squares, the part of |y|^2 along the leading eigenvectors of diag(poles) - y y'.

    poles : (r + 1,) descending, the last of them below every eigenvalue; squares : (m, r), all > 0; out : (m,).
    Eigenvalues up to least count as none.

    The k-th eigenvalue mu lies between the k-th pole and the next, where 1 = sum_j y_j^2 / (pole_j - mu); its
    eigenvector has the entries y_j / (pole_j - mu), so that y's part along it is 1 / sum_j y_j^2 / (pole_j - mu)^2.
    With t the distance of mu below the k-th pole, the sums over the poles above and below mu are each replaced by a
    constant and one pole that agree in value and slope (Bunch, Nielsen, Sorensen 1978), which leaves a quadratic in t.
    """
    m, r = squares.shape
    for i in range(m):
        y2 = squares[i]
        total = 0.0
        for k in range(n_leading):
            width = poles[k] - poles[k + 1]
            if width <= 1e-15 * poles[0]:
                continue
            low, high, t = 0.0, width, 0.5 * width
            slope = 1.0
            for _ in range(STEPS):
                above = above_slope = 0.0
                for j in range(k + 1):
                    ratio = y2[j] / (poles[j] - poles[k] + t)
                    above += ratio
                    above_slope += ratio / (poles[j] - poles[k] + t)
                below = below_slope = 0.0
                for j in range(k + 1, r):
                    ratio = y2[j] / (poles[j] - poles[k] + t)
                    below += ratio
                    below_slope += ratio / (poles[j] - poles[k] + t)
                slope = above_slope + below_slope
                rest = 1.0 - above - below
                if abs(rest) <= 4e-16 * (1.0 + above - below):
                    break
                # Above the root in t the sum is too small: rest grows with t.
                if rest < 0:
                    low = t
                else:
                    high = t
                if high - low <= 2e-16 * width:
                    break
                near, far = t * t * above_slope, (width - t) * (width - t) * below_slope
                constant = 1.0 - (above - near / t) - (below + far / (width - t))
                middle = constant * width + near + far
                root = np.sqrt((constant * width - near + far) ** 2 + 4.0 * near * far)
                step = 2.0 * near * width / (middle + root) if middle > 0 else (middle - root) / (2.0 * constant)
                t = step if low < step < high else 0.5 * (low + high)
            if poles[k] - t > least:
                total += 1.0 / slope
        out[i] = total
