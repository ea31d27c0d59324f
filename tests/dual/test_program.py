"""What a program may be."""

import numpy as np
import pytest

from slabsvm.dual.program import Dual, one_class, one_class_slab


@pytest.mark.parametrize("signs", [[1.0, 1.0], [1.0, -1.0, 1.0], [-1.0, -1.0]])
def test_a_program_of_other_planes_is_refused(signs):
    caps = np.ones((len(signs), 4))
    with pytest.raises(ValueError, match="one plane, or two of opposite signs"):
        Dual(np.array(signs), caps, np.ones(len(signs)), np.zeros(4))


def test_the_programs_of_the_models_are_not():
    assert one_class(np.ones(4), 0.5).n_planes == 1
    assert one_class_slab(np.ones(4), 0.5, 0.25, 0.5).n_planes == 2


def test_a_part_of_the_samples_has_the_problem_of_the_whole():
    # The share that each plane may leave outside stays what it was, whatever weights the part has.
    weights = np.random.default_rng(0).exponential(size=50) + 0.1
    dual = one_class_slab(weights, 0.2, 0.1, 2 / 3)
    part = np.arange(3, 20)
    np.testing.assert_allclose(dual.restrict(part).nus, dual.nus, rtol=1e-12)
    np.testing.assert_allclose(dual.restrict(part).caps[0] / dual.caps[0, part], weights.sum() / weights[part].sum())
