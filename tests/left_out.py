"""Programs that samples are left out of, and what a certificate promises of the scores without them."""

import numpy as np
from hypothesis import strategies as st

import problems
from slabsvm.dual.left_out import Unlearning
from slabsvm.dual.program import Dual, one_class, one_class_slab
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
    """Draw a program with its K: kernels, layouts, weights, one plane and two, near collapse."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kernel = draw(st.sampled_from(["rbf", "rbf", "rbf", *problems.FORMULAS]))
    X = LAYOUTS[draw(st.sampled_from(list(LAYOUTS))) if kernel == "rbf" else "positive"](rng, draw(st.integers(8, 60)))
    gamma = draw(st.sampled_from([0.1, 1.0, 10.0, 100.0]))
    K = (problems.rbf(gamma) if kernel == "rbf" else problems.FORMULAS[kernel][0])(X, X)
    weights = rng.integers(1, 4, len(X)).astype(float) if draw(st.booleans()) else np.ones(len(X))
    nu = draw(st.floats(0.05, 0.6))
    if draw(st.sampled_from(["plane", "slab", "slab"])) == "plane":
        return one_class(weights, nu), K
    return one_class_slab(weights, nu, draw(st.floats(0.03, 0.5)), draw(st.sampled_from([0.2, 2 / 3, 0.95, 1.5]))), K


def without(dual, leaving, stays=0.0):
    """Return the program of all samples without some, of which a share stays: others' boxes are what they were."""
    caps = dual.caps.copy()
    caps[:, leaving] *= stays
    return Dual(dual.signs, caps, dual.totals, dual.linear)


def refit(dual, K, leaving, stays=0.0):
    """Return the scores of all samples, and the gap, of the program without some, solved anew; None for none."""
    rest = without(dual, leaving, stays)
    if (rest.caps.sum(axis=1) < (1.0 + 1e-9) * rest.totals).any():
        return None
    kept = np.flatnonzero(rest.caps.any(axis=0))
    part = Dual(rest.signs, rest.caps[:, kept], rest.totals, rest.linear[kept])
    solution = loop.solve(part, Dense(K[np.ix_(kept, kept)]), tol=1e-9)
    return dual.linear + K[:, kept] @ part.beta(solution.multipliers), solution.gap


def assert_left_out(dual, K, groups=None, copies=None):
    """Assert what the certificates say of the program without each support vector, or without each of so many groups.

    Of samples of so many copies, (m,), one copy leaves: the share (c - 1) / c of a box stays.

    * Scores are those of their multipliers, c + K beta, which is a sum of m + 1 rounded products of at most
      `largest` in all: it is off by no more than e = 2 (m + 2) UNIT largest.
    * The gap is a sum of v t+ + (cap - v) t- over samples and planes. Where each distance t is off by e, a term is off
      by at most cap e, and all of them by d = e sum(cap).
    * Half of |w - w*|^2 is at most the true gap, g + d, of a feasible point. From a refit of gap g', of which the same
      is true, a score is thus off by at most sqrt(k(x, x)) (sqrt(2 (g + d)) + sqrt(2 (g' + d))) and rounding.
    * Multipliers are within their boxes, with the sum that they had, to within 1e-9 of all of them.
    """
    m = len(K)
    solution = loop.solve(dual, Dense(K), tol=1e-9)
    stays = np.zeros(m) if copies is None else 1.0 - 1.0 / copies
    beta = dual.beta(solution.multipliers)
    sets = [[i] for i in np.flatnonzero(beta)] if groups is None else [np.arange(m)[g::groups] for g in range(groups)]
    sets = [np.asarray(leaving) for leaving in sets]
    found = Unlearning(dual, Dense(K), solution, stays).without(sets)
    largest = dual.total * float(np.abs(K).max()) + float(np.abs(dual.linear).max())
    rounding, masses = 2 * (m + 2) * UNIT * largest, dual.caps.sum()
    lengths = np.sqrt(np.diagonal(K))
    for change, scores, gap, leaving in zip(found.changes, found.scores, found.gaps, sets, strict=True):
        rest = without(dual, leaving, stays[leaving])
        again = refit(dual, K, leaving, stays[leaving])
        if again is None:
            # Nothing that stays can take what leaves, to within rounding.
            continue
        refitted, gap_of_refit = again
        values = beta + change
        above, below = np.maximum(values, 0.0), np.maximum(-values, 0.0)
        caps = rest.caps if dual.n_planes > 1 else np.stack([rest.caps[0], np.zeros(m)])
        beyond = np.maximum(above - caps[0], below - caps[1])
        assert beyond[leaving].max() <= 1e-15 * max(1.0, dual.caps.max())
        assert beyond.max() <= 1e-9 * dual.total
        assert abs(change.sum()) <= 1e-9 * dual.total
        off = np.abs(scores - dual.linear - K @ values)
        assert off.max() <= 2 * rounding, off.max() / (2 * rounding)
        hidden = masses * rounding
        reach = np.sqrt(2.0 * (gap + hidden)) + np.sqrt(2.0 * (gap_of_refit + hidden))
        allowed = lengths * reach + 2 * rounding
        assert (np.abs(scores - refitted) <= allowed).all(), np.abs(scores - refitted) / allowed
