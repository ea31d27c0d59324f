// Sequential minimal optimisation, with conjugate steps, on a small block of the Dual.
//
// Given K (n, n), the caps u of multipliers a in P planes (P = 1 or 2) and the signs g of the planes, the samples'
// coefficients are beta = sum_p g_p a_p, and their scores s = K beta, less any constant. The descent reduces the
// objective beta' K beta / 2 (and what is linear in beta and went into the scores) over 0 <= a <= u, and keeps each
// plane's sum. It stops when the gap of this block is small enough: the larger of tol times the objective as it then
// is, and a share of the gap at the start.
//
// Each step takes the sample that should rise most, in the plane where optimality is violated most (Keerthi et al.
// 2001), and the one with which it takes most off the objective (Fan, Chen, Lin 2005; half as many steps as with the
// one that should fall most), and goes along the direction that is conjugate to the last one (Torres-Barran, Alaiz,
// Dorronsoro 2021) unless a bound cut that one short.
#pragma once

#include <cstdint>
#include <functional>

#include "loops.h"

namespace slabsvm {

template <class T>
struct Descended {
  std::int64_t steps;       // taken
  double lowest_curvature;  // of any pair met; clearly negative only if K is indefinite
  bool ended;               // the gap is small enough, or what is left of it is rounding; not stopped by max_steps
};

// What a descent calls between slices. It throws to end the descent; an empty one does nothing.
using Interrupt = std::function<void()>;

// The steps of one slice times its samples: about a tenth of a second.
constexpr std::int64_t STEPS_AT_ONCE = 20'000'000;

// Descend on a block, whose scores and values are updated in place.
//
// objective: the Dual's objective over all samples, at the start. smallest: the size that the objective is taken for
// when it is smaller still. tol, share: what to stop at, as above. floor: the least curvature that a step divides by.
//
// A descent cut anywhere into slices is the whole one, to the last bit. One whose scores are no numbers ends.
template <class T>
Descended<T> descend(const Block<T>& block, double objective, double smallest, double tol, double share, double floor,
                     std::int64_t max_steps, const Interrupt& interrupt, std::int64_t at_once = STEPS_AT_ONCE);

}  // namespace slabsvm
