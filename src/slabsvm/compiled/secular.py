"""Compiled roots of the secular equation: the spectrum of a diagonal matrix less a rank-one matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from slabsvm.runtime.compilation import compiler

STEPS = 80  # of the iteration, which mostly takes four; where it fails the bracket is halved
# The equation is solved to this share of its largest terms. Poles that are this near to each other, of the first, have
# no eigenvector between them that y has; nor have eigenvalues this near to a pole, relative to the next.
ROUNDING = 1e-13

_compiled = compiler()
# For what compiled code calls: a second copy, compiled on its own, may round otherwise (docs/developers/method.md).
_inlined = compiler(forceinline=True)


@_inlined
def _sums(poles: Any, squares: Any, mu_pole: float, below_it: float, first: int, last: int) -> tuple[float, float]:
    """Return sum_j y_j^2 / (pole_j - mu) and sum_j y_j^2 / (pole_j - mu)^2, with mu by its distance below a pole."""
    value = slope = 0.0
    for j in range(first, last):
        inverse = 1.0 / (poles[j] - mu_pole + below_it)
        ratio = squares[j] * inverse
        value += ratio
        slope += ratio * inverse
    return value, slope


@_compiled
def leading_mass(poles: Any, squares: Any, n_leading: int, least: float, out: Any) -> None:
    """Write, for each row y^2 of squares, the part of |y|^2 along the leading eigenvectors of diag(poles) - y y'.

    poles : (r + 1,) descending, the last of them below every eigenvalue; squares : (m, r); out : (m,).
    Eigenvalues up to least count as none.

    The k-th eigenvalue mu lies between the k-th pole and the next, where 1 = sum_j y_j^2 / (pole_j - mu); its
    eigenvector has the entries y_j / (pole_j - mu), so that y's part along it is 1 / sum_j y_j^2 / (pole_j - mu)^2.
    With t the distance of mu below the k-th pole, the sums over the poles above and below mu are each replaced by a
    constant and one pole that agree in value and slope (Bunch, Nielsen, Sorensen 1978), which leaves a quadratic in t.
    """
    n_rows, rank = squares.shape
    for i in range(n_rows):
        row = squares[i]
        total = 0.0
        for k in range(n_leading):
            pole, width = poles[k], poles[k] - poles[k + 1]
            if width <= ROUNDING * poles[0]:
                continue
            low, high, t, slope = 0.0, width, 0.5 * width, np.inf
            for _ in range(STEPS):
                above, above_slope = _sums(poles, row, pole, t, 0, k + 1)
                below, below_slope = _sums(poles, row, pole, t, k + 1, rank)
                slope = above_slope + below_slope
                rest = 1.0 - above - below
                if abs(rest) <= ROUNDING * (1.0 + above - below):
                    break
                # The equation's left side less its right grows with t.
                if rest < 0:
                    low = t
                else:
                    high = t
                if high <= ROUNDING * width or low >= (1.0 - ROUNDING) * width:
                    slope = np.inf
                    break
                near, far = t * t * above_slope, (width - t) * (width - t) * below_slope
                constant = 1.0 - (above - near / t) - (below + far / (width - t))
                middle = constant * width + near + far
                root = np.sqrt((constant * width - near + far) ** 2 + 4.0 * near * far)
                step = 0.0
                if middle > 0:
                    step = 2.0 * near * width / (middle + root)
                elif constant < 0:
                    step = (middle - root) / (2.0 * constant)
                t = step if low < step < high else 0.5 * (low + high)
            if pole - t > least:
                total += 1.0 / slope
        out[i] = total
