"""Programs that samples are left out of, and what a certificate promises of the scores without them."""

import numpy as np
from hypothesis import strategies as st

import problems
from slabsvm.dual.active_set import free_or_next
from slabsvm.dual.program import Dual, hypersphere, one_class, one_class_slab
from slabsvm.dual.unlearning import Unlearning
from slabsvm.gram.base import Dense
from slabsvm.solvers import loop

# Half a unit in the last place of a rounded number.
UNIT = 2.0**-53


def ring(rng, n):
    angles = rng.uniform(0.0, 2.0 * np.pi, n)
    return np.column_stack([np.cos(angles), np.sin(angles)]) + 0.05 * rng.normal(size=(n, 2))


def tiny_clusters(rng, n):
    centres = rng.uniform(size=(8, 2))
    return centres[rng.integers(0, 8, n)] + 0.01 * rng.normal(size=(n, 2))


LAYOUTS = {
    "cloud": lambda rng, n: rng.normal(size=(n, 3)),
    "ring": ring,
    "one feature": lambda rng, n: rng.normal(size=(n, 1)),
    "tiny clusters": tiny_clusters,
    "positive": lambda rng, n: rng.gamma(16.0, 1 / 4, (n, 4)),
}


def kernel_matrix(layout, n, gamma=1.0, *, seed=0):
    """Return the RBF kernel's K of rows of a layout."""
    X = LAYOUTS[layout](np.random.default_rng(seed), n)
    return problems.rbf(gamma)(X, X)


@st.composite
def programs(draw):
    """Draw a program with its K: kernels, layouts, weights, one plane and two, near collapse, spheres."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kernel = draw(st.sampled_from(["rbf", "rbf", "rbf", *problems.FORMULAS]))
    X = LAYOUTS[draw(st.sampled_from(list(LAYOUTS))) if kernel == "rbf" else "positive"](rng, draw(st.integers(8, 60)))
    gamma = draw(st.sampled_from([0.1, 1.0, 10.0, 100.0]))
    K = (problems.rbf(gamma) if kernel == "rbf" else problems.FORMULAS[kernel][0])(X, X)
    weights = rng.integers(1, 4, len(X)).astype(float) if draw(st.booleans()) else np.ones(len(X))
    nu = draw(st.floats(0.05, 0.6))
    kind = draw(st.sampled_from(["plane", "slab", "slab", "sphere"]))
    if kind == "plane":
        return one_class(weights, nu), K
    if kind == "sphere":
        return hypersphere(weights, nu, np.diagonal(K).copy()), K
    return one_class_slab(weights, nu, draw(st.floats(0.03, 0.5)), draw(st.sampled_from([0.2, 2 / 3, 0.95, 1.5]))), K


def without(dual, leaving):
    return Dual(dual.signs, np.delete(dual.caps, leaving, axis=1), dual.totals, np.delete(dual.linear, leaving))


def each_left_out(dual, K, solution):
    """Return the support vectors, a set of each alone, and the paths that leave such sets out."""
    held = np.flatnonzero(dual.beta(solution.multipliers))
    return held, list(held[:, None]), Unlearning(dual, Dense(K), solution, free_or_next(dual, solution))


def refitted_scores(dual, K, solution, samples, leaving):
    """Return what samples score under the model without those that leave, and the change of c'beta."""
    others, rest = np.delete(np.arange(len(K)), leaving), without(dual, leaving)
    beta = rest.beta(loop.solve(rest, Dense(K[np.ix_(others, others)]), tol=1e-12).multipliers)
    moved = rest.linear @ beta - dual.linear @ dual.beta(solution.multipliers)
    return dual.linear[samples] + K[np.ix_(samples, others)] @ beta + moved


def scores_on_the_same_face(dual, K, solution, leaving):
    """Return the scores of samples without them, if the others' free multipliers can make up for them alone.

    Independently of the closed form: solve for the free multipliers and both offsets, then look whether that point is
    optimal. None where it is not, by some margin, or where the linear system is too ill-conditioned to tell.
    """
    rest, v, signs = without(dual, leaving), np.delete(solution.multipliers, leaving, axis=1), dual.signs
    others = np.delete(np.arange(len(K)), leaving)
    among, caps = K[np.ix_(others, others)], rest.caps
    free = (v > 0) & (v < caps)
    if not free.any(axis=1).all() or (free.sum(axis=0) > 1).any():
        return None
    plane, sample = np.nonzero(free)
    n, n_planes = len(plane), dual.n_planes
    fixed = np.where(free, 0.0, v)
    system = np.zeros((n + n_planes, n + n_planes))
    size = np.abs(among).max()
    system[:n, :n] = among[np.ix_(sample, sample)] * signs[plane] / size
    system[np.arange(n), n + plane] = -1.0
    system[n + plane, np.arange(n)] = 1.0
    pull = (among @ (signs @ fixed) + rest.linear)[sample] / size
    if np.linalg.cond(system) > 1e9:
        return None
    answer = np.linalg.solve(system, np.concatenate([-pull, dual.totals - fixed.sum(axis=1)]))
    moved = fixed.copy()
    moved[plane, sample] = answer[:n]
    scores = among @ (signs @ moved) + rest.linear
    above = signs[:, None] * (scores - answer[n:, None] * size)
    margin, slack = 1e-7 * caps.max(), 1e-7 * np.abs(scores).max()
    boxed = (moved[free] >= margin).all() and (moved[free] <= caps[free] - margin).all()
    sided = (above[(v == 0)] >= slack).all() and (above[(v == caps)] <= -slack).all()
    if not (boxed and sided):
        return None
    change = rest.linear @ (signs @ moved) - dual.linear @ dual.beta(solution.multipliers)
    return dual.linear[leaving] + K[np.ix_(leaving, others)] @ (signs @ moved) + change


def refit(dual, K, leaving):
    """Return the scores of all samples, and the gap, of the program without some, solved anew; None for none."""
    rest = without(dual, leaving)
    if (rest.caps.sum(axis=1) < (1.0 + 1e-9) * rest.totals).any():
        return None
    others = np.delete(np.arange(len(K)), leaving)
    solution = loop.solve(rest, Dense(K[np.ix_(others, others)]), tol=1e-9)
    return dual.linear + K[:, others] @ rest.beta(solution.multipliers), solution.gap


def assert_left_out(dual, K, groups=None):
    """Assert what the certificates say of the program without each support vector, or without each of so many groups.

    * Scores are those of their multipliers, c + K beta, which is a sum of m + 1 rounded products of at most
      `largest` in all: it is off by no more than e = 2 (m + 2) UNIT largest. What is read from a path may be off by
      what moves the gap by a hundredth of what is allowed, which is added to the gap.
    * The gap is a sum of v t+ + (cap - v) t- over samples and planes. Where each distance t is off by e, a term is off
      by at most cap e, and all of them by d = e sum(cap).
    * Half of |w - w*|^2 is at most the true gap, g + d, of a feasible point. From a refit of gap g', of which the same
      is true, a score is thus off by at most sqrt(k(x, x)) (sqrt(2 (g + d)) + sqrt(2 (g' + d))) and rounding.
    * Multipliers are within their boxes, with the sum that they had, to within 1e-9 of all of them.
    """
    solution = loop.solve(dual, Dense(K), tol=1e-9)
    beta, m = dual.beta(solution.multipliers), len(K)
    sets = [[i] for i in np.flatnonzero(beta)] if groups is None else [np.arange(m)[g::groups] for g in range(groups)]
    paths = Unlearning(dual, Dense(K), solution, free_or_next(dual, solution))
    sets = [np.asarray(leaving) for leaving in sets]
    found = paths.without(sets)
    paths.descend(sets, found)
    largest = dual.total * float(np.abs(K).max()) + float(np.abs(dual.linear).max())
    rounding, masses = 2 * (m + 2) * UNIT * largest, dual.caps.sum()
    lengths = np.sqrt(np.diagonal(K))
    for change, scores, gap, leaving in zip(found.changes, found.scores, found.gaps, sets, strict=True):
        again = refit(dual, K, leaving)
        if again is None or np.isnan(gap):
            # Nothing that stays can take what leaves, to within rounding.
            continue
        refitted, gap_of_refit = again
        values = beta + change
        assert np.abs(values[leaving]).max() <= 1e-15
        above, below = np.maximum(values, 0.0), np.maximum(-values, 0.0)
        caps = dual.caps if dual.n_planes > 1 else np.stack([dual.caps[0], np.zeros(m)])
        assert max((above - caps[0]).max(), (below - caps[1]).max()) <= 1e-9 * dual.total
        assert abs(change.sum()) <= 1e-9 * dual.total
        believed = 0.01 * paths.allowed / masses
        off = np.abs(scores - dual.linear - K @ values)
        assert off.max() <= believed + 2 * rounding, off.max() / (believed + 2 * rounding)
        hidden = masses * rounding
        reach = np.sqrt(2.0 * (gap + hidden)) + np.sqrt(2.0 * (gap_of_refit + hidden))
        allowed = lengths * reach + believed + 2 * rounding
        assert (np.abs(scores - refitted) <= allowed).all(), np.abs(scores - refitted) / allowed
