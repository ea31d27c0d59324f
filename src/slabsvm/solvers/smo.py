"""Sample, candidates, all: a working-set method around sequential minimal optimisation.

The problem is the Dual. Of a large one, a part is solved first; its scores tell which samples can become support
vectors; these candidates are solved next; then rounds over all samples close the gap. In a round, the working set is
every variable strictly inside its box (a smaller set was measured to converge 2 to 20 times slower, or not at all) and
the samples that violate optimality most; its block of K is handed to the compiled descent, and one product brings the
scores of all samples up to date. The promise: the multipliers are feasible, and the gap that is reported comes from the
scores of all samples, whatever happened on the way.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from slabsvm.dual import Dual, FloatArray, Solution, Status, certified
from slabsvm.faces import Face
from slabsvm.gram import Gram, Samples

# Up to this many samples the whole of K is the working set's.
SMALL = 500
# A larger problem first solves one sample in RATIO, to SLACK times the tolerance.
RATIO = 4
SLACK = 10.0
# Candidates: that part's share of support vectors on each side, and half as many again.
MARGIN = 1.5
# The samples that join the working set: at least this many, or as many as are free, over four for each of the four sides.
NEWCOMERS = 256
# The pool of members is made anew when it has grown to this many working sets.
GROWTH = 1.5
# One call of the descent takes at most this many steps for each member; then the true scores have their say.
STEPS_PER_MEMBER = 20
# A call that took more steps than this for each member is followed by a Newton step on the face,
TOILSOME = 8
# repeated at most so often while bounds block it, unless more variables than this are free.
NEWTON_STEPS = 20
LARGEST_FACE = 3000
# Rounds without a tenth less gap after which a fit is called stalled.
PATIENCE = 20
# A step divides by no curvature below this share of the mean of K's diagonal (duplicates have none at all).
CURVATURE_FLOOR = 1e-12
# A pair's curvature below minus this share, beyond rounding, is a proof that K is indefinite.
INDEFINITE = 1e-6
# float32 blocks are used where they are this exact relative to the diagonal,
SINGLE_PRECISION_ERROR = 1e-5
# and while the gap to reach, relative to the largest objective that the boxes allow, is above this.
SINGLE_PRECISION_GAP = 2e-8


def solve(
    dual: Dual,
    gram: Gram,
    *,
    tol: float = 1e-3,
    max_iter: int = -1,
    cache_bytes: float = 1e9,
    start: FloatArray | None = None,
) -> Solution:
    """Solve the Dual to a relative gap of tol.

    Parameters
    ----------
    dual : Dual
    gram : Gram
        K over the same m samples, which are in no particular order: the first quarter is taken for a random one.
    tol : float
        The relative duality gap to reach, > 0.
    max_iter : int
        Limit on the descent's steps in all, -1 for none.
    cache_bytes : float
        What the working set's rows of K may take; beyond it they are computed again when needed.
    start : (P, m) array or None
        Feasible multipliers to start from; the sample and the candidates are then skipped.

    Returns
    -------
    Solution

    Raises
    ------
    ValueError
        When K is found to be indefinite.
    """
    if (least := gram.diagonal.min()) < 0:
        raise ValueError(
            "The kernel matrix is not positive semidefinite: "
            f"its diagonal holds {least:.3g}, which would be a squared length."
        )
    steps = 0
    if start is None and dual.n_samples > SMALL:
        start, steps = _promising_start(dual, gram, tol, max_iter, cache_bytes)
    descent = _Descent(dual, gram, tol, max_iter, cache_bytes, steps)
    return descent.run(start)


def _promising_start(
    dual: Dual, gram: Gram, tol: float, max_iter: int, cache_bytes: float
) -> tuple[FloatArray, int]:
    """Return multipliers that are nearly optimal, and the steps that they took."""
    part = np.arange(-(-dual.n_samples // RATIO))
    rough = solve(
        dual.restrict(part), gram.subset(part), tol=SLACK * tol, max_iter=max_iter, cache_bytes=cache_bytes
    )
    beta = np.zeros(dual.n_samples)
    beta[part] = dual.beta(rough.multipliers)
    scores = dual.linear + gram.dot(beta, _cheapest_precision(gram))
    candidates = _candidates(dual, scores, rough)
    if len(candidates) > dual.n_samples // 2:
        return dual.fill(scores), rough.iterations
    few = Dual(dual.signs, dual.caps[:, candidates], dual.totals, dual.linear[candidates])
    descent = _Descent(few, gram.subset(candidates), SLACK * tol, max_iter, cache_bytes, rough.iterations)
    nearer = descent.run(few.fill(scores[candidates]))
    start = np.zeros_like(dual.caps)
    start[:, candidates] = nearer.multipliers
    return start, nearer.iterations


def _candidates(dual: Dual, scores: FloatArray, rough: Solution) -> Samples:
    """Return each plane's lowest sigma_p s: MARGIN times the part's share of support vectors, and mass enough."""
    named = np.zeros(dual.n_samples, dtype=bool)
    for sign, multipliers, caps, total in zip(
        dual.signs, rough.multipliers, dual.caps, dual.totals, strict=True
    ):
        share = np.count_nonzero(multipliers) / len(multipliers)
        order = np.argsort(sign * scores, kind="stable")
        enough = int(np.searchsorted(np.cumsum(caps[order]), MARGIN * total)) + 1
        named[order[: max(int(MARGIN * share * dual.n_samples), enough)]] = True
    return np.flatnonzero(named)


def _cheapest_precision(gram: Gram) -> type[np.floating]:
    return np.float32 if gram.single_precision_error <= SINGLE_PRECISION_ERROR else np.float64


class _Descent:
    """The rounds over all samples: choose a working set, descend on its block of K, update all scores."""

    def __init__(
        self, dual: Dual, gram: Gram, tol: float, max_iter: int, cache_bytes: float, steps: int
    ) -> None:
        self.dual = dual
        self.gram = gram
        self.tol = tol
        self.step_limit = max_iter if max_iter >= 0 else np.iinfo(np.int64).max
        self.cache_bytes = cache_bytes
        self.steps = steps
        self.mean_diagonal = float(gram.diagonal.mean())
        dtype = np.float64 if dual.n_samples <= SMALL else _cheapest_precision(gram)
        self.pool = _Pool(gram, dtype, cache_bytes)
        self.history: list[tuple[int, float]] = []

    def run(self, start: FloatArray | None) -> Solution:
        dual = self.dual
        multipliers = self._start_from_mean() if start is None else start.copy()
        scores = self._scores(multipliers)
        status = Status.STALLED
        least_gap, rounds_since = np.inf, 0
        while True:
            distances = dual.distances(scores)
            gap = float(dual.excess(multipliers, distances).sum())
            objective = dual.objective(multipliers, scores)
            scale = dual.scale(objective, self.mean_diagonal)
            goal = dual.goal(objective, self.mean_diagonal, self.tol)
            self.history.append((len(self.pool.members), gap / scale if scale else 0.0))
            rounds_since = 0 if gap < 0.9 * least_gap else rounds_since + 1
            least_gap = min(gap, least_gap)
            if self._needs_double_precision(gap, goal, stalled=rounds_since >= PATIENCE):
                self.pool = _Pool(self.gram, np.float64, self.cache_bytes)
                scores = self._scores(multipliers)
                least_gap, rounds_since = np.inf, 0
                continue
            if gap <= goal or rounds_since >= PATIENCE:
                break
            if self.steps >= self.step_limit:
                status = Status.ITERATION_LIMIT
                break
            self.pool.admit(_working_set(dual, multipliers, distances))
            before = self.steps
            scores += self._descend(multipliers, scores)
            if self.steps - before >= TOILSOME * len(self.pool.members):
                scores += self._newton(multipliers, scores)
        return certified(
            dual,
            multipliers,
            scores,
            mean_diagonal=self.mean_diagonal,
            tol=self.tol,
            iterations=self.steps,
            unfinished=status,
            history=tuple(self.history),
        )

    def _start_from_mean(self) -> FloatArray:
        dual = self.dual
        self.pool.admit(np.arange(dual.n_samples))
        mean = np.full(dual.n_samples, dual.signs @ dual.totals / dual.n_samples)
        return dual.fill(dual.linear + self.pool.product(mean))

    def _scores(self, multipliers: FloatArray) -> FloatArray:
        beta = self.dual.beta(multipliers)
        if self.pool.holds_everything:
            return self.dual.linear + self.pool.product(beta)
        return self.dual.linear + self.gram.dot(beta, self.pool.dtype)

    def _needs_double_precision(self, gap: float, goal: float, *, stalled: bool) -> bool:
        if self.pool.dtype is np.float64:
            return False
        resolution = SINGLE_PRECISION_GAP * self.dual.largest_objective(self.mean_diagonal)
        return stalled or (goal < resolution and gap <= 2 * resolution)

    def _descend(self, multipliers: FloatArray, scores: FloatArray) -> FloatArray:
        """Improve the members' multipliers in place, and return by how much all scores change."""
        from slabsvm import _smo

        # A block that is not the whole is not worth solving to the end: the next one will differ.
        tol, share = (0.5 * self.tol, 0.0) if self.pool.holds_everything else (0.1 * self.tol, 0.3)

        members = self.pool.members
        block = self.pool.block
        values = np.ascontiguousarray(multipliers[:, members])
        before = self.dual.beta(values)
        # Scores matter up to a constant; near their middle, float32 resolves the differences best.
        shifted = np.zeros(block.shape[1], dtype=block.dtype)
        shifted[: len(members)] = scores[members] - np.median(scores[members])
        steps, curvature = _smo.descend(
            block,
            shifted,
            values,
            np.ascontiguousarray(self.dual.caps[:, members]),
            self.dual.signs.astype(block.dtype),
            self.dual.objective(multipliers, scores),
            self.dual.scale(0.0, self.mean_diagonal),
            tol,
            share,
            max(CURVATURE_FLOOR * self.mean_diagonal, np.finfo(np.float64).tiny),
            min(self.step_limit - self.steps, STEPS_PER_MEMBER * (len(members) + NEWCOMERS)),
        )
        self.steps += steps
        self._refuse_indefinite(curvature)
        multipliers[:, members] = values
        return self.pool.product(self.dual.beta(values) - before)

    def _newton(self, multipliers: FloatArray, scores: FloatArray) -> FloatArray:
        """Go to the optimum of the face, in place, and return by how much all scores change.

        Where a bound blocks the way, the variable stays there and the smaller face is tried: an active-set method that
        only drops constraints; the descent picks them up again.
        """
        members = self.pool.members
        few = Dual(self.dual.signs, self.dual.caps[:, members], self.dual.totals, self.dual.linear[members])
        before = multipliers[:, members]
        values, slopes = before, scores[members]
        for _ in range(NEWTON_STEPS):
            face = Face(few, values)
            if not 2 <= len(face.samples) <= LARGEST_FACE:
                break
            face.factor(self.pool.block[np.ix_(face.samples, face.samples)])
            values, reach = face.newton_step(values, slopes)
            change = few.beta(values - before)
            slopes = scores[members] + self.pool.block[:, : len(members)] @ change
            if reach == 1.0:
                break
        gained = self.pool.product(few.beta(values - before))
        improved = multipliers.copy()
        improved[:, members] = values
        # Rounding can make an ill-conditioned step useless; then it is not taken.
        if self.dual.objective(improved, scores + gained) > self.dual.objective(multipliers, scores):
            return np.zeros_like(scores)
        multipliers[:] = improved
        return gained

    def _refuse_indefinite(self, curvature: float) -> None:
        rounding = 0.0 if self.pool.dtype is np.float64 else 10 * self.gram.single_precision_error
        if curvature < -(INDEFINITE + rounding) * self.mean_diagonal:
            raise ValueError(
                "The kernel matrix is not positive semidefinite: two samples have the squared distance "
                f"{curvature:.3g} in feature space. The slab is a convex problem only for positive semidefinite "
                "kernels."
            )


def _working_set(dual: Dual, multipliers: FloatArray, distances: FloatArray) -> Samples:
    """Return the samples with a free variable, and on each side of each plane the worst violators that can move."""
    can_rise = multipliers < dual.caps
    can_fall = multipliers > 0
    chosen = (can_rise & can_fall).any(axis=0)
    n_each = max(NEWCOMERS, np.count_nonzero(chosen)) // 4
    for movable, merits in ((can_rise, -distances), (can_fall, distances)):
        for can_move, merit in zip(movable, merits, strict=True):
            movers = np.flatnonzero(can_move)
            # The best mover always comes, violator or not: with ties, or a cap above the total, there may be no other.
            n_chosen = min(n_each, max(1, np.count_nonzero(merit[movers] > 0)), len(movers))
            if n_chosen:
                chosen[movers[np.argpartition(-merit[movers], n_chosen - 1)[:n_chosen]]] = True
    return np.flatnonzero(chosen)


class _Pool:
    """The members of the recent working sets in order of arrival, with their block of K and, while they fit, their rows.

    Attributes
    ----------
    members : (k,) array of intp
    block : (k, padded) array
        K among the members, its rows padded with zeros to a multiple of the compiled descent's LANES.
    """

    def __init__(self, gram: Gram, dtype: type[np.floating], cache_bytes: float) -> None:
        self.gram = gram
        self.dtype = dtype
        self.cache_bytes = cache_bytes
        self.members: Samples = np.zeros(0, dtype=np.intp)
        self.rows: npt.NDArray[np.floating] | None = np.zeros((0, gram.n_samples), dtype=dtype)
        self.block: npt.NDArray[np.floating] = np.zeros((0, 0), dtype=dtype)
        self._is_member = np.zeros(gram.n_samples, dtype=bool)

    @property
    def holds_everything(self) -> bool:
        """Whether the rows of all samples are here."""
        return self.rows is not None and len(self.members) == self.gram.n_samples

    def admit(self, working: Samples) -> None:
        """Make all of the working set members."""
        new = working[~self._is_member[working]]
        if len(self.members) + len(new) > max(GROWTH * len(working), NEWCOMERS):
            self._keep_only(working)
        if len(new) == 0:
            return
        old = len(self.members)
        self.members = np.concatenate([self.members, new])
        self._is_member[new] = True
        itemsize = np.dtype(self.dtype).itemsize
        if (
            self.rows is not None
            and len(self.members) * (self.gram.n_samples + len(self.members)) * itemsize > self.cache_bytes
        ):
            self.rows = None
        if self.rows is None:
            among = self.gram.block(new, self.members, self.dtype)
        else:
            rows = self.gram.block(new, None, self.dtype)
            among = rows[:, self.members]
            self.rows = np.concatenate([self.rows, rows]) if old else rows
        block = np.zeros((len(self.members), _padded(len(self.members))), dtype=self.dtype)
        block[:old, :old] = self.block[:, :old]
        block[old:, : len(self.members)] = among
        block[:old, old : len(self.members)] = among[:, :old].T
        self.block = block

    def product(self, beta: FloatArray) -> FloatArray:
        """Return K beta, shape (m,), for coefficients of the members, shape (k,)."""
        moved = np.flatnonzero(beta)
        if self.rows is not None:
            if 2 * len(moved) > len(beta):
                return (beta.astype(self.dtype) @ self.rows).astype(np.float64)
            return (beta[moved].astype(self.dtype) @ self.rows[moved]).astype(np.float64)
        whole = np.zeros(self.gram.n_samples)
        whole[self.members] = beta
        return self.gram.dot(whole, self.dtype)

    def _keep_only(self, working: Samples) -> None:
        wanted = np.zeros(self.gram.n_samples, dtype=bool)
        wanted[working] = True
        kept = np.flatnonzero(wanted[self.members])
        self._is_member[:] = False
        self.members = self.members[kept]
        self._is_member[self.members] = True
        block = np.zeros((len(kept), _padded(len(kept))), dtype=self.dtype)
        block[:, : len(kept)] = self.block[np.ix_(kept, kept)]
        self.block = block
        if self.rows is not None:
            self.rows = self.rows[kept]


def _padded(n: int) -> int:
    from slabsvm import _smo

    return -(-n // _smo.LANES) * _smo.LANES
