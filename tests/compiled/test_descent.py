"""The compiled loops do what their Python text says, and what the formulas say."""

import ast
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import problems
from processes import python
from slabsvm.compiled import descent as _smo
from slabsvm.compiled import kernels as _kernels
from slabsvm.compiled import unlearning as _unlearning
from slabsvm.dual.program import one_class_slab
from slabsvm.dual.solution import Point
from slabsvm.kernels.additive import Chi2, Hellinger, Intersection

pytestmark = pytest.mark.numeric


def block(seed: int, m: int, epsilon: float, dtype: type = np.float64) -> dict:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 3))
    K = problems.rbf(2.0)(X, X)
    padded = -(-m // _smo.LANES) * _smo.LANES
    gram = np.zeros((m, padded), dtype)
    gram[:, :m] = K
    dual = one_class_slab(rng.exponential(size=m) + 0.1, 0.3, 0.2, epsilon)
    values = dual.linear_minimiser(rng.normal(size=m))
    scores = np.zeros(padded, dtype)
    scores[:m] = K @ dual.beta(values)
    objective = dual.objective(values, scores[:m].astype(float))
    return {"gram": gram, "scores": scores, "values": values, "dual": dual, "objective": objective}


def descend(problem, tol=1e-8, share=0.0, max_steps=10_000, **how):
    dual, scores, values = problem["dual"], problem["scores"].copy(), problem["values"].copy()
    signs = dual.signs.astype(scores.dtype)
    limits = (problem["objective"], 1e-12, tol, share, 1e-12, max_steps)
    steps, curvature = _smo.descend(problem["gram"], scores, values, dual.caps, signs, *limits, **how)
    return steps, curvature, scores, values


@pytest.mark.parametrize("epsilon", [0.0, 2 / 3, 1.5])
@pytest.mark.parametrize("m", [5, 40, 90])
def test_compiled_descent_takes_the_steps_of_its_python_text(m, epsilon):
    problem = block(m, m, epsilon)
    # The compiler may reorder sums, and what it rounds otherwise grows from step to step: the first are compared.
    with np.errstate(divide="ignore", invalid="ignore"):
        steps, curvature, scores, values = descend(problem, tol=1e-4, max_steps=40, loop=_smo.advance.py_func)
    compiled = descend(problem, tol=1e-4, max_steps=40)
    assert compiled[0] == steps > 0
    assert compiled[1] == pytest.approx(curvature, abs=1e-12)
    np.testing.assert_allclose(compiled[2], scores, atol=1e-10)
    np.testing.assert_allclose(compiled[3], values, atol=1e-10)
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = [descend(problem, tol=1e-4, loop=loop) for loop in (_smo.advance.py_func, None)]
    one, other = (problem["dual"].objective(values, scores[:m]) for _, _, scores, values in ends)
    assert other == pytest.approx(one, rel=2e-4)


@pytest.mark.parametrize("epsilon", [0.0, 2 / 3, 1.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_descent_lowers_the_objective_keeps_the_sums_and_keeps_scores_true(epsilon, dtype):
    problem = block(7, 90, epsilon, dtype)
    tol = 1e-4 if dtype is np.float32 else 1e-7
    steps, curvature, scores, values = descend(problem, tol=tol)
    dual, K = problem["dual"], problem["gram"][:, :90].astype(float)
    true_scores = K @ dual.beta(values)
    assert 0 < steps < 10_000
    assert curvature >= -1e-6
    assert (values >= 0).all()
    assert (values <= dual.caps).all()
    np.testing.assert_allclose(values.sum(axis=1), dual.totals, rtol=1e-12)
    np.testing.assert_allclose(scores[:90], true_scores, atol=1e-5 if dtype is np.float32 else 1e-12)
    objective = dual.objective(values, true_scores)
    assert objective < problem["objective"]
    assert Point(dual, values, true_scores).gap <= (tol + 1e-5 * (dtype is np.float32)) * objective


def test_descent_stops_at_its_share_of_the_gap_or_at_its_step_limit():
    problem = block(3, 90, 2 / 3)
    whole = descend(problem)[0]
    assert descend(problem, share=0.3)[0] < whole
    assert descend(problem, max_steps=7)[0] == 7
    assert descend(problem, max_steps=0)[0] == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_descent_that_is_cut_anywhere_is_the_whole_one_to_the_last_bit(dtype):
    problem = block(7, 90, 2 / 3, dtype)
    whole = descend(problem, tol=1e-5, share=1e-6)
    calls = []

    def counted(*given):
        calls.append(given[9])
        return _smo.advance(*given)

    for steps in (1, 7, 33):
        calls.clear()
        cut = descend(problem, tol=1e-5, share=1e-6, loop=counted, at_once=90 * steps)
        assert calls == [steps * (1 + call) for call in range(-(-whole[0] // steps))]
        assert cut[:2] == whole[:2]
        for one, other in zip(cut[2:], whole[2:], strict=True):
            np.testing.assert_array_equal(one, other)


def test_descent_reports_a_negative_curvature():
    problem = block(3, 10, 2 / 3)
    problem["gram"][:, :10] -= 3.0 * np.eye(10)
    assert descend(problem, max_steps=50)[1] < -1.0


def rows(seed: int, n: int, d: int, density: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, d)) < density, rng.exponential(size=(n, d)), 0.0)


@pytest.mark.parametrize("name", problems.FORMULAS)
@pytest.mark.parametrize("density", [0.0, 0.2, 1.0])
@pytest.mark.parametrize(("n_left", "n_right", "d"), [(1, 1, 1), (7, 1100, 5), (40, 33, 300)])
def test_kernel_blocks_are_their_formula_dense_and_sparse(name, density, n_left, n_right, d):
    formula, kernel = problems.FORMULAS[name]
    X, Z = rows(1, n_left, d, density), rows(2, n_right, d, density)
    expected = formula(X, Z)
    tolerance = {"rtol": 1e-12, "atol": 1e-12 * (np.abs(expected).max() + 1e-300)}
    for left in (X, sp.csr_array(X)):
        for right in (Z, sp.csr_array(Z)):
            np.testing.assert_allclose(kernel(left, right), expected, **tolerance)
    for left in (X, sp.csr_array(X)):
        np.testing.assert_allclose(kernel.diagonal(left), np.diagonal(formula(X, X)), **tolerance)


@pytest.mark.parametrize("name", problems.FORMULAS)
def test_kernel_blocks_in_single_precision_are_nearly_their_formula(name):
    formula, kernel = problems.FORMULAS[name]
    X = rows(3, 50, 20, 0.7)
    for data in (X, sp.csr_array(X)):
        prepared = kernel.prepare(data, np.float32)
        found = kernel.block(prepared, prepared)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, formula(X, X), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("size", [1e-150, 1e-12, 1e12, 1e150])
def test_additive_kernels_are_homogeneous_over_many_orders_of_magnitude(size):
    X = rows(5, 20, 6, 0.5)
    for kernel in (Intersection(), Chi2(), Hellinger()):
        np.testing.assert_allclose(kernel(size * X, size * X), size * kernel(X, X), rtol=1e-12)


HASHES = """
import hashlib, warnings
import numpy as np
from slabsvm import KernelPCADetector
warnings.simplefilter("ignore")
random = np.random.default_rng(0)
X = random.gamma(2.0, size=(60, 3))
# Its loops, of sums that may be taken in any order, are compiled in seconds; the descent takes half a minute.
decision = KernelPCADetector(kernel="chi2", n_components=2).fit(X).decision_function(X)
print(hashlib.sha256(decision.tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_what_is_compiled_and_what_is_loaded_from_the_cache_give_the_same_bits(tmp_path):
    compiled, loaded = (python(HASHES, NUMBA_CACHE_DIR=str(tmp_path)).stdout for _ in range(2))
    assert len(compiled.split()) == 1
    assert loaded == compiled


@pytest.mark.parametrize("module", [_kernels, _smo, _unlearning], ids=lambda module: module.__name__)
def test_what_compiled_code_calls_is_a_part_of_it(module):
    called = {
        node.func.id
        for function in ast.parse(Path(module.__file__).read_text()).body
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    parts = [name for name in called if hasattr(getattr(module, name, None), "targetoptions")]
    assert all(getattr(module, name).targetoptions.get("forceinline") for name in parts)
    assert parts
