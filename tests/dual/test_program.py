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
