"""What each detector answers rows with, as ONNX: scores, decisions, the reach of a kernel, and conformal p-values."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline

from slabsvm.conformal.detector import ConformalDetector
from slabsvm.conformal.far import BEYOND, least_mass, needs_mass
from slabsvm.conformal.p_values import LARGEST_SHARE, WHOLE, Ranking, unit_of, usual_size
from slabsvm.detectors.kernel_density import KernelDensityDetector
from slabsvm.detectors.kernel_pca import KernelPCADetector
from slabsvm.detectors.kernelized import KernelDetector
from slabsvm.detectors.one_class_svm import OneClassSVM
from slabsvm.detectors.slab import OneClassSlabSVM
from slabsvm.detectors.svdd import SVDD
from slabsvm.ensemble.auto import AutoDetector
from slabsvm.ensemble.known import OutlierClassifier
from slabsvm.ensemble.nearest import FARTHEST, Nearest
from slabsvm.ensemble.neighbours import NeighboursDetector
from slabsvm.ensemble.ranks import LARGEST, TIE, Surprise
from slabsvm.ensemble.readings import AROUND, FEW, LEAST_SURPRISE, NEAREST, WEIGHTS, View
from slabsvm.files.onnx import graph as op
from slabsvm.files.onnx.graph import Graph, ImpreciseError, Outputs, Tensor
from slabsvm.files.onnx.steps import Inputs, after, view_of
from slabsvm.files.onnx.sums import Position, Sums, dense, exponents, image, position, refusal, squared_lengths
from slabsvm.fitted.model import ROUNDING_UNITS
from slabsvm.fitted.planes import LOWEST, OUT_OF_REACH, TwoSided
from slabsvm.kernels.base import WeightVector
from slabsvm.kernels.expansion import Expansion
from slabsvm.kernels.rbf import RBF
from slabsvm.runtime.arrays import FloatArray


def _places(new: Tensor, ranking: Ranking) -> tuple[Tensor, Tensor]:
    """Return where scores, (n,), stand among held-out positives: how many they have passed, and the share beyond."""
    graph = new.graph
    size = op.absolute(new)
    finite = size <= float(np.finfo(graph.dtype).max)
    values = graph.constant(np.append(ranking.values, np.nan))
    slack = ROUNDING_UNITS * float(np.finfo(np.float64).eps)
    new = new + op.maximum(op.where(finite, size, 0.0), usual_size(ranking.values)) * slack
    counts = np.array([len(ranking.values)])
    place = op.searched(new.column, np.zeros(1, dtype=np.int64), counts, values).flat
    passed = op.take(np.concatenate([[0.0], np.cumsum(ranking.weights)]), place)
    below = op.take(values, op.maximum(place - np.array(1), np.array(0)))
    above = op.take(values, op.minimum(place, counts - 1))
    unit = unit_of(ranking.values)
    between = (new - below) / (above - below)
    beyond = 1.0 - 1.0 / ((new - below) / unit + 1.0)
    before_all = 1.0 / ((above - new) / unit + 1.0)
    share = op.where(op.equal(place, counts), beyond, between)
    share = op.where(op.equal(place, np.zeros(1, dtype=np.int64)), before_all, share)
    share = op.where(op.is_nan(share), 0.0, share)
    share = op.clip(share, 0.0, LARGEST_SHARE)
    # The weight that is passed is rounded up.
    return graph.node("Ceil", passed * (1.0 - WHOLE)), op.where(op.is_nan(new), np.nan, share)


# The score of rows whose distances overflow; a mean of some such numbers is one, too.
LEAST = {np.dtype(np.float32): -1e37, np.dtype(np.float64): LOWEST}
# A density's threshold is no less than this share of the largest number.
LEAST_LOG_DENSITY = -0.5


@singledispatch
def answer(detector: Any, _: Tensor) -> Outputs:
    """Return how a fitted detector answers rows, (n, d)."""
    raise refusal(detector)


@answer.register
def _(detector: Pipeline, rows: Tensor) -> Outputs:
    steps = [step for _, step in detector.steps]
    missing = any(isinstance(step, SimpleImputer) for step in steps)
    return _of_valid(rows, answer(steps[-1], after(steps[:-1], rows)), missing=missing)


@answer.register
def _(detector: ConformalDetector, rows: Tensor) -> Outputs:
    rows.graph.needs_doubles("scores that tie have to be told from scores that are less")
    found = answer(detector.estimator_, rows)
    scores = found.decision
    if found.log_mass is not None:
        scores = op.where(found.log_mass <= found.least, found.log_mass + BEYOND, scores)
    passed, share = _places(scores, detector.ranking_)
    step = 1.0 / (detector.n_calibration_ + 1)
    # The largest p-value that is rejected, in steps.
    rejected = float(round(detector.offset_ / step))
    p_value = op.minimum((1.0 + passed) * step, 1.0)
    score, decision = (passed + share) * step, (passed - rejected + share) * step
    score, decision, p_value = (op.where(op.is_nan(share), np.nan, one) for one in (score, decision, p_value))
    return Outputs(score, decision, p_values=p_value)


@answer.register
def _(detector: AutoDetector, rows: Tensor) -> Outputs:
    combination = detector.model_.combination
    views = [view_of(view.scaling, rows) for view in combination.views]
    parts = [of_view(view, of) for view, of in zip(combination.views, views, strict=True)]
    score = op.total(parts) * (-1.0 / len(parts))
    if combination.known is not None:
        known = combination.known
        of_known = op.maximum(surprise(known.surprise, -answer(known.classifier, views[-1]).score), LEAST_SURPRISE)
        score = score * (1.0 - known.share) - of_known * known.share
    return _of_valid(rows, Outputs(score, score - detector.offset_))


def of_view(view: View, rows: Tensor) -> Tensor:
    """Return the mean surprise of a view's readings, (n,)."""
    nearest = Neighbours(view.nearest, rows, NEAREST)
    ratio = (nearest.mean(FEW) + view.least) / (nearest.mean(AROUND, view.local) + view.least)
    readings = (nearest.mean(1), nearest.mean(NEAREST), ratio)
    said = [surprise(one, reading) for one, reading in zip(view.surprises, readings, strict=True)]
    return op.total([one * float(weight) for one, weight in zip(said, WEIGHTS / WEIGHTS.sum(), strict=True)])


class Neighbours:
    """The k nearest samples of rows."""

    def __init__(self, nearest: Nearest, rows: Tensor, k: int) -> None:
        graph = rows.graph
        graph.needs_doubles("distances of near rows are rounded as those of far ones are")
        samples = dense(nearest.samples)
        count = min(k, len(samples))
        _, near = op.smallest(_squares(samples, rows), count)
        # From differences, which have all their digits.
        apart = graph.node("Unsqueeze", rows, np.array([1])) - op.take(samples, near)
        squares, order = op.smallest(graph.node("ReduceSumSquare", apart, np.array([2]), keepdims=0), count)
        self.near = graph.node("GatherElements", near, order, axis=1)
        self.distances = op.minimum(op.sqrt(squares), FARTHEST)
        self.passed = graph.node("CumSum", op.take(nearest.counts, self.near), np.array(1))
        self.before = graph.node("CumSum", op.take(nearest.counts, self.near), np.array(1), exclusive=1)

    def mean(self, k: int, values: FloatArray | None = None) -> Tensor:
        """Return the mean over the k nearest rows, (n,), of distances, or of values of samples, (m,)."""
        taken = op.minimum(self.passed, float(k)) - op.minimum(self.before, float(k))
        found = self.distances if values is None else op.take(values, self.near)
        return op.row_sums(found * taken) / op.row_sums(taken)


@answer.register
def _(detector: NeighboursDetector, rows: Tensor) -> Outputs:
    fit = detector.model_
    score = -Neighbours(fit.nearest, rows, fit.n_neighbours).mean(fit.n_neighbours)
    return _of_valid(rows, Outputs(score, score - detector.offset_))


@answer.register
def _(detector: OutlierClassifier, rows: Tensor) -> Outputs:
    trees, graph = detector.trees_, rows.graph
    if trees is None:
        raise refusal(detector)
    # The number of nodes from a root to the deepest leaf: at a leaf a row stays.
    depth, at = 0, trees.roots
    while len(at):
        inner = at[trees.left[at] > at]
        depth, at = depth + 1, np.unique(np.concatenate([trees.left[inner], trees.right[inner]]))
    single = graph.node("Cast", rows, to=Graph(np.float32).element_type)
    shape = graph.node("Concat", graph.node("Shape", rows, start=0, end=1), np.array([len(trees.roots)]), axis=0)
    places = graph.node("Expand", trees.roots[None], shape)
    single, thresholds = graph.cast(single, np.float32), trees.thresholds
    if graph.single:
        # A number of float32 is above a threshold if it is above the largest such number that is not.
        rounded = thresholds.astype(np.float32)
        thresholds = np.where(rounded > thresholds, np.nextafter(rounded, np.float32(-np.inf)), rounded)
    for _ in range(depth - 1):
        value = graph.node("GatherElements", single, op.take(trees.features, places), axis=1)
        high = value > op.take(thresholds, places)
        places = op.where(high, op.take(trees.right, places), op.take(trees.left, places))
    score = op.row_sums(op.take(trees.values, places)) / float(len(trees.roots))
    return _of_valid(rows, Outputs(score, score))


def surprise(found: Surprise, readings: Tensor) -> Tensor:
    """Return what a `Surprise` gives readings, (n,)."""
    known, rows = found.readings, found.rows
    edges = readings.graph.constant(np.append(-known[::-1], np.nan))
    tied = readings - op.absolute(readings) * TIE
    above = op.searched(-tied.column, np.zeros(1, dtype=np.int64), np.array([len(known)]), edges).flat
    excess = op.minimum(op.maximum(readings - float(known[-1]), 0.0) / found.unit, LARGEST)
    return log1p(excess) - op.take(np.log((1.0 + rows) / (1.0 + rows[-1])), above)


def _squares(samples: FloatArray, rows: Tensor) -> Tensor:
    """Return squared distances between rows and samples, (n, m)."""
    ones = np.ones(len(samples))
    return -exponents(Expansion(RBF.at(1.0, samples, ones), samples, ones), rows)


@answer.register
def _(detector: OneClassSVM, rows: Tensor) -> Outputs:
    along = position(detector.model_.expansion, rows)
    return _with_reach(detector, rows, _offset(along, detector))


@answer.register
def _(detector: OneClassSlabSVM, rows: Tensor) -> Outputs:
    along = position(detector.model_.expansion, rows)
    log_mass = _log_mass(detector, rows) if detector.planes_.scores_by_mass else None
    return _with_reach(detector, rows, _between(detector, along, log_mass))


@answer.register
def _(detector: SVDD, rows: Tensor) -> Outputs:
    fit = detector.model_
    kernel, expansion = fit.kernel, fit.expansion
    if kernel is None:
        raise refusal(None)
    if isinstance(expansion, WeightVector):
        # |Phi(x)|^2 - 2 <Phi(x), a> + |a|^2, without the difference of large numbers.
        w = expansion.weights
        score = Position(-op.row_squares(image(kernel, rows) - w), float(w @ w) - fit.squared_norm)
    else:
        along, lengths = position(expansion, rows).times(2.0), squared_lengths(kernel, rows)
        constant = along.constant - fit.squared_norm
        if isinstance(lengths, Tensor):
            score = Position(along.varying - lengths, constant, along.size)
        else:
            score = Position(along.varying, constant - lengths, along.size)
    return _with_reach(detector, rows, _offset(score, detector))


@answer.register
def _(detector: KernelPCADetector, rows: Tensor) -> Outputs:
    fit = detector.model_
    if fit.kernel is None:
        raise refusal(None)
    sums, coefficients = Sums(fit.expansion, rows), fit.expansion.coefficients
    shares = coefficients[:, -1:]
    # Of the centred images: the mean is taken off the coefficients, once, in place of the projections.
    leading = coefficients[:, :-1] - shares * fit.sums
    projections = sums(leading) - (fit.shift - fit.squared_mean * fit.sums)
    # The squares' rounding is theirs times twice the projections, which are no longer than the rows.
    longest = float(np.sqrt(fit.squared_mean + np.abs(fit.kernel.diagonal(fit.expansion.samples)).max()))
    size = 2.0 * longest * float(np.sqrt(np.square(sums.size(leading)).sum(axis=1)).max())
    lengths = squared_lengths(fit.kernel, rows) - 2.0 * sums(shares).flat + fit.squared_mean
    errors = op.maximum(lengths - op.row_squares(projections), 0.0)
    # What is left of squares that overflow is infinitely far.
    errors = op.where(op.is_nan(errors), np.inf, errors)
    return _with_reach(detector, rows, _offset(Position(-errors, size=size), detector))


@answer.register
def _(detector: KernelDensityDetector, rows: Tensor) -> Outputs:
    density = detector.model_.density
    sums = Sums(density.expansion, rows)
    score = Position(sums.log(density.expansion.coefficients), -density.log_height)
    offset = max(detector.offset_, LEAST_LOG_DENSITY * float(np.finfo(rows.graph.dtype).max))
    return _of_valid(rows, Outputs(score.over(0.0), score.over(offset)))


def two_sided_score(score: TwoSided, along: Position, log_mass: Tensor | None) -> Tensor:
    """Return what a `TwoSided` gives positions, (n,)."""
    dtype = along.varying.graph.dtype
    least_unit = min(score.unit, max(score.outer - score.peak, score.least_unit))
    # Positions on a plane are of its size, but for what is constant of them.
    size = max(abs(score.inner * score.side - along.constant), abs(score.outer * score.side - along.constant))
    along.varying.graph.needs(max(size, along.size), least_unit)
    at = along.times(score.side)
    over_inner, over_outer = at.over(score.inner), at.over(score.outer)
    rising = over_inner / score.unit
    falling = -over_outer / max(score.outer - score.peak, score.least_unit)
    excess = op.maximum(over_outer, 0.0)
    if not score.local:
        return op.where(over_outer > 0.0, -excess / score.unit, op.minimum(rising, falling))
    beyond = excess * -score.depth / (excess + (score.outer - score.inner))
    assert log_mass is not None
    least = OUT_OF_REACH * score.inner
    logs = log1p(op.maximum(over_inner / score.inner, OUT_OF_REACH - 1.0))
    further = at.over(least) / score.inner + op.minimum(log_mass - float(np.log(least)), 0.0)
    logs = logs + op.where(at.over(least) < 0.0, further, 0.0)
    below = op.maximum(logs * (score.inner / score.unit), LEAST[dtype])
    return op.where(over_outer > 0.0, beyond, op.where(over_inner < 0.0, below, op.minimum(rising, falling)))


def log1p(x: Tensor) -> Tensor:
    """Return op.log(1 + x), which is not 0 of a small x (Kahan's quotient)."""
    shifted = x + 1.0
    return op.where(op.equal(shifted, 1.0), x, x * (op.log(shifted) / (shifted - 1.0)))


def _between(detector: Any, along: Position, log_mass: Tensor | None) -> Outputs:
    """Return how a slab answers rows at these positions along w."""
    if np.isinf(detector.rho_upper_):
        return _offset(along, detector)
    score = detector.planes_.two_sided
    if score is None:
        middle = 0.5 * (detector.rho_lower_ + detector.rho_upper_)
        distance = op.absolute(along.over(middle))
        half = 0.5 * (detector.rho_upper_ - detector.rho_lower_)
        along.varying.graph.needs(max(along.size, abs(middle - along.constant)), half)
        return _offset(Position(-distance), detector)
    found = two_sided_score(score, along, log_mass)
    return Outputs(found, found)


def _offset(score: Position, detector: Any) -> Outputs:
    """Return scores, and the decisions that follow from the detector's offset."""
    spread = detector.model_.calibration_spread
    score.varying.graph.needs(score.size, spread if np.isfinite(spread) else abs(detector.offset_))
    return Outputs(score.over(0.0), score.over(detector.offset_))


def _log_mass(detector: KernelDetector, rows: Tensor) -> Tensor:
    expansion = detector.model_.expansion
    assert isinstance(expansion, Expansion)
    return Sums(expansion, rows).log(np.abs(expansion.coefficients.reshape(len(expansion.coefficients), -1)[:, -1]))


def _with_reach(detector: Any, rows: Tensor, found: Outputs) -> Outputs:
    """Return an answer with the kernel mass where scores alone do not order rows, and NaN for rows that are refused."""
    if needs_mass(detector):
        found = replace(found, log_mass=_log_mass(detector, rows), least=float(np.log(least_mass(detector))))
    kernel = detector.model_.kernel
    return _of_valid(rows, found, non_negative=kernel is not None and kernel.non_negative)


def _of_valid(rows: Tensor, found: Outputs, *, non_negative: bool = False, missing: bool = False) -> Outputs:
    """Return an answer that is NaN for rows with infinity or NaN (unless missing), or negative numbers where none are
    taken.
    """
    graph = rows.graph
    inside = op.absolute(rows) <= float(np.finfo(graph.dtype).max)
    inside = inside & (rows >= 0.0) if non_negative else inside
    inside = inside | op.is_nan(rows) if missing else inside
    valid = op.row_minima(graph.cast(inside)) > 0.5

    def of_valid(values: Tensor) -> Tensor:
        return op.where(valid, values, np.nan)

    p_values = None if found.p_values is None else of_valid(found.p_values)
    return replace(found, score=of_valid(found.score), decision=of_valid(found.decision), p_values=p_values)


def computed(model: Any, inputs: Inputs, prefix: str = "") -> tuple[Graph, dict[str, Tensor]]:
    """Return a fitted model's graph and its outputs by their names, numbers among them of the inputs' type."""
    dtype = inputs.dtype
    graph = Graph(dtype, prefix)
    try:
        return graph, answer(model, inputs.rows(graph)).outputs()
    except ImpreciseError:
        graph = Graph(np.float64, prefix)
    found = answer(model, inputs.rows(graph)).outputs()
    largest, element = float(np.finfo(dtype).max), Graph(dtype).element_type

    def narrowed(values: Tensor) -> Tensor:
        bounded = op.where(op.is_nan(values), values, op.clip(values, -largest, largest))
        return graph.node("Cast", bounded, to=element)

    return graph, {name: value if name == "label" else narrowed(value) for name, value in found.items()}
