"""Closed-form leave-one-out scores: what each training sample would score under the model trained without it.

A training sample has pulled its own score towards the planes, so planes put at quantiles of training scores reject too
many new samples. With M the bordered matrix of the solution's face (`slabsvm.faces`), removing the part r_i of beta_i
that belongs to sample i changes its score, measured from the plane it supports, by -r_i S_i^2 with

    S_i^2 = 1 / (M^-1)_ii                                              for a free sample
    S_i^2 = K_ii - k_i'M^-1 k_i,  k_i = (K_iF, membership of i)        for a sample at its bound

S_i is the distance of Phi(x_i) from the span of the free ones (Vapnik and Chapelle 2000, the span bound; Opper and
Winther 2000). This is exact as long as the removal leaves the face what it is: every free multiplier inside its box,
and every other sample on its side of its plane. A sample that is no support vector changes nothing.

The boxes stay what they were when a sample is left out. A sample of weight above 1 stands for that many equal ones, of
which one is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slabsvm.dual import Dual, FloatArray, Solution
from slabsvm.faces import Face
from slabsvm.gram import Gram


@dataclass(frozen=True)
class LeaveOneOut:
    """What leaving each sample out does, by the closed form.

    Attributes
    ----------
    scores : (m,) array
        The score of each sample without it, measured from the plane it supports: what `Dual.offsets` takes.
    removed : (m,) array
        r_i: the part of beta_i that is left out.
    spans : (m,) array
        S_i^2, for support vectors; 0 for the others, where it is not needed.
    """

    scores: FloatArray
    removed: FloatArray
    spans: FloatArray


def leave_one_out(dual: Dual, gram: Gram, solution: Solution, weights: FloatArray) -> LeaveOneOut:
    """Return the leave-one-out scores of a solution.

    Parameters
    ----------
    dual, gram, solution
        The problem and its optimum; the nearer to the optimum, the better the closed form.
    weights : (m,) array
        The samples' weights, in units of one sample.
    """
    multipliers = solution.multipliers
    one = dual.caps * np.minimum(1.0, 1.0 / weights)
    removed = dual.beta(np.maximum(0.0, multipliers - (dual.caps - one)))
    face = Face(dual, multipliers, _free_or_next(dual, solution))
    spans = np.zeros(dual.n_samples)
    if len(face.samples):
        face.factor(gram.block(face.samples, face.samples))
        spans[face.samples] = _free_spans(face)
        touched = removed != 0
        touched[face.samples] = False
        bound = np.flatnonzero(touched)
        if len(bound):
            spans[bound] = _bound_spans(face, gram, bound)
    return LeaveOneOut(solution.scores - removed * spans, removed, spans)


def _free_or_next(dual: Dual, solution: Solution) -> npt.NDArray[np.bool_]:
    """Return which multipliers are free, with one more in a plane that has none: the next to take what is left out."""
    multipliers = solution.multipliers
    free = (multipliers > 0) & (multipliers < dual.caps)
    slopes = dual.signs[:, None] * solution.scores
    for plane in np.flatnonzero(~free.any(axis=1)):
        idle = np.flatnonzero(multipliers[plane] == 0)
        if len(idle):
            free[plane, idle[slopes[plane, idle].argmin()]] = True
    return free


def _free_spans(face: Face) -> FloatArray:
    """Return 1 / (M^-1)_ii of the free samples, shape (f,)."""
    inverse_root = face.inverse_root()
    coupling = inverse_root.T @ face.border
    diagonal = np.einsum("ij,ij->j", inverse_root, inverse_root)
    diagonal -= np.einsum("ij,jk,ik->i", coupling, face.schur, coupling)
    # A lone free sample can neither lose nor pass on its mass: its removal is beyond the closed form.
    tiny = 1e-10 / face.lift
    return np.where(diagonal > tiny, 1.0 / np.maximum(diagonal, tiny), 0.0)


def _bound_spans(face: Face, gram: Gram, bound: npt.NDArray[np.intp]) -> FloatArray:
    """Return K_ii - k_i'M^-1 k_i of samples at their bounds, shape (b,)."""
    member = face.memberships[bound]
    rows = np.asarray(gram.block(bound, face.samples), dtype=np.float64)
    half = face.half_solve((rows + face.lift * (member @ face.memberships[face.samples].T)).T)
    rest = face.border.T @ half - member.T
    spans = gram.diagonal[bound] + face.lift * np.einsum("ij,ij->i", member, member)
    spans -= np.einsum("ij,ij->j", half, half)
    spans += np.einsum("ij,ik,kj->j", rest, face.schur, rest)
    return np.asarray(np.maximum(spans, 0.0))
