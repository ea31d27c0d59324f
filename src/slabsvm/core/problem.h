// The program that every fit of up to 2,000 rows solves, in one variable a sample, and the states of its samples.
//
// The Dual of slabsvm.dual.program has a multiplier for each sample and plane. In beta = v_1 - v_2 it is
//
//     minimise  1/2 beta'K beta + c'beta
//     over      -cap_2 <= beta <= cap_1,   sum(beta) = total_1 - total_2,   sum(max(beta, 0)) <= total_1
//
// A one-class SVM has one plane: cap_2 = 0 and total_2 = 0, and the last constraint says nothing. The multiplier of the
// last constraint is the slab's width, rho_2 - rho_1 >= 0. Its slack is the mass that both planes hold of the same
// samples. One of the two is 0: planes are apart (no slack), or merged into one (no width). So one plane, planes apart
// and merged planes, and their meeting and parting while a sample leaves, are cases of one program.
//
// With scores s = K beta + c, each sample has a state:
//
//      2  at cap_1, below the lower plane          s <= rho_1
//      1  free on the lower plane                  s  = rho_1
//      0  without a multiplier, between        rho_1 <= s <= rho_2
//     -1  free on the upper plane                  s  = rho_2
//     -2  at -cap_2, above the upper plane         s >= rho_2
//
// Of merged planes 1 and -1 are the same, and 0 does not occur. Where states are known, beta and rho are one linear
// solve; what is wrong with the result says which states to change.
//
// Where K is nearly singular, as with one feature, mass moves back and forth between near equals at no gain. So
// delta / 2 |beta - near|^2 is added, where near is a point close by. At the optimum itself, near = beta, it changes
// nothing there, and steadies what leaves it. (A plain ridge would move the optimum.)
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

#include "descent.h"

namespace slabsvm {

using State = signed char;
using States = std::vector<State>;
using Doubles = std::vector<double>;

// A sample that leaves: its multiplier is fixed at what it was given, and its state is not judged.
constexpr State OUT = 9;

inline bool is_free(State state) { return state == 1 || state == -1; }

struct Problem {
  const double* K;          // (m, stride), rows contiguous; symmetric
  Index m, stride;
  bool two;                 // whether there is an upper plane
  const double* caps[2];    // (m,) each; the second is all zeros where there is one plane
  double totals[2];
  const double* linear;     // (m,), c
  double delta;             // of the term that is added, and the point it is measured from
  Doubles near;             // (m,)
  double steadier = 0;      // delta where K is nearly singular
  bool exactly = false;     // whether scores are summed in long double: where w = 0 all else is rounding
  double centred = 0;       // at an optimum, by how much scores may be off by it

  // What a multiplier is in a state that is not free.
  double bound(State state, Index i) const { return state == 2 ? caps[0][i] : state == -2 ? -caps[1][i] : 0.0; }
};

// A point's multipliers, scores and offsets, as seen from some order of its samples.
struct View {
  const double *beta, *scores;
  double rho[2];
};

// What is wrong with states: all of them put right at once, and how many are wrong.
struct Judgement {
  States states;
  bool merged;
  Index wrong;
};

// Say which states would be right for what is wrong with a point, and whether planes should be merged.
//
// caps are in the order of the point's samples. A score may be on the wrong side of its plane by slack, and a free
// multiplier beyond its box by the share beyond of its caps.
Judgement judge(const Problem& problem, const double* cap1, const double* cap2, const View& at, const States& states,
                bool merged, double slack, double beyond);

// Free, of a plane that has no free sample, the one that is next to give or to take mass.
void give_each_plane_one(const Problem& problem, const double* cap1, const double* cap2, const double* scores,
                         States& states, bool merged);

// Return multipliers of both planes, (2, m), or of one, (m,): mass that beta does not show is held by both planes.
// Return nothing where samples have no room for it.
Doubles multipliers_of(const Problem& problem, const Doubles& beta);

// Spread what rounding has left of the sums of multipliers over the room of each; one at its bound stays there.
void correct_sums(const Problem& problem, Doubles& multipliers);

// Return feasible multipliers that minimise their product with the scores: each plane's lowest scores at their caps.
Doubles linear_minimiser(const Problem& problem, const double* scores);

// Return beta of multipliers.
Doubles beta_of(const Problem& problem, const Doubles& multipliers);

// Write K beta + c.
void compute_scores(const Problem& problem, const double* beta, double* scores);

}  // namespace slabsvm
