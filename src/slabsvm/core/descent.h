// Sequential minimal optimisation, with conjugate steps, on a small block of the dual problem.
//
// Given K (n, n), the upper bounds u of multipliers a in P planes (P = 1 or 2) and the signs g of the planes, the
// samples' coefficients are beta = sum_p g_p a_p, and their scores s = K beta, less any constant. The descent reduces
// the objective beta' K beta / 2 (and what is linear in beta and went into the scores) over 0 <= a <= u, and keeps each
// plane's sum. It stops when the gap of this block is small enough: the larger of tol times the objective as it then
// is, and a share of the gap at the start.
//
// Each step takes the sample that should rise most, in the plane where optimality is violated most (Keerthi et al.
// 2001), and the one with which it takes most off the objective (Fan, Chen, Lin 2005; half as many steps as with the
// one that should fall most), and goes along the direction that is conjugate to the last one (Torres-Barran, Alaiz,
// Dorronsoro 2021) unless a bound cut that one short.
#pragma once

#include <functional>

#include "loops.h"

namespace slabsvm {

struct Descended {
  Index steps = 0;              // taken
  double lowest_curvature = 0;  // of any pair met; clearly negative only if K is indefinite
};

// Called now and then in long work, as between slices of a descent; throws what ends it, such as Ctrl-C.
using Interrupt = std::function<void()>;

// The steps of one slice times its samples: about a tenth of a second.
constexpr Index STEPS_AT_ONCE = 20'000'000;

// Descend on a block, whose scores and values are updated in place.
//
// objective: the dual problem's objective over all samples, at the start. What to stop at is, as above, stop.tol and
// stop.share, where the objective is taken for stop.smallest if it is smaller still, and steps are limited by
// stop.until. The least curvature that a step divides by is stop.floor.
//
// A descent cut anywhere into slices is the whole one, to the last bit. One whose scores are no numbers ends.
template <class T>
Descended descend(const Block<T>& block, double objective, Stop stop, const Interrupt& interrupt,
                  Index at_once = STEPS_AT_ONCE);

}  // namespace slabsvm
