"""The numbers that the loop goes by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of `slabsvm.solvers.loop`; half and twice of those without a figure change fits by less than 15 %.

    Attributes
    ----------
    ratio, slack : float
        A larger problem first solves one sample in `ratio`, to `slack` times the tolerance.
    whole : float
        Where more than this share of that part are support vectors, all of K is wanted.
    equal, equal_most : float, int
        Where more than this share of a slab's samples is free, equal scores are tried, by a factor of so many at most:
        a fit is 1.5 to 3 times faster where they are nearly the optimum (normal, correlated, one-hot rows).
    steps : int
        A call of the descent takes at most so many steps for each member; then all scores are updated.
    whole_goal, part_goal, gap_goal, turn_goal : float
        The descent on all samples goes down to this share of tol; on a part, which is not worth solving to the end, to
        this share of tol or this share of the gap that it starts from, or less where samples take turns.
    face_cost : float
        A sample in one step of the descent costs so many multiplications of a Cholesky factor (1.7 ns). Paths of the
        active set are followed where a factor costs no more than the descent since the last ones.
    patience, progress : float
        Rounds without this much less gap after which a fit is called stalled; turns of all, where samples take turns.
    single_gap : float
        The gap that float32 scores hide, as a share of the largest objective.
    hidden : float
        A gap is verified in float64 where float32 hides no more of it than this share of the gap to reach.
    resolved : float
        Scores within so many float32 roundings of a plane are at last computed in float64.
    curvature_floor : float
        A step divides by no less, as a share of K's diagonal: equal samples have no curvature.
    work, work_per_pair : float
        A fit ends after so many steps times members, or so many for each pair of samples, times how much of the planes'
        masses does not cancel (a fifth at the default epsilon), if that is more. A second takes some 5e8. Of default
        fits of 300 to 20,000 rows none takes half of it.
    part_work : float
        The share of it that a part may take.
    """

    ratio: int = 4
    slack: float = 10.0
    whole: float = 0.5
    equal: float = 0.68
    equal_most: int = 5000
    steps: int = 20
    whole_goal: float = 0.5
    part_goal: float = 0.01
    gap_goal: float = 0.3
    turn_goal: float = 0.1
    face_cost: float = 100.0
    patience: int = 20
    progress: float = 0.9
    single_gap: float = 1e-8
    hidden: float = 0.5
    resolved: float = 32.0
    curvature_floor: float = 1e-12
    work: float = 1e9
    work_per_pair: float = 2000.0
    part_work: float = 0.25


TUNING = Tuning()
