// The program that every fit of up to 2,000 rows solves, in one variable a sample, and the states of its samples.
//
// The DualProblem of slabsvm.svm.program has a multiplier for each sample and plane. In beta = v_1 - v_2 it is
//
//     minimise  1/2 beta'K beta + c'beta
//     over      -u_2 <= beta <= u_1,   sum(beta) = total_1 - total_2,   sum(max(beta, 0)) <= total_1
//
// u_1 and u_2 are the upper bounds. A one-class SVM has one plane: u_2 = 0 and total_2 = 0, and the last constraint says
// nothing. The multiplier of the last constraint is the slab's width, rho_2 - rho_1 >= 0. Its slack is the mass that
// both planes hold of the same samples. One of the two is 0: planes are apart (no slack), or merged into one (no width).
// So one plane, planes apart and merged planes, and their meeting and parting while a sample leaves, are cases of one
// program.
//
// With scores s = K beta + c, each sample has a state:
//
//      2  at u_1, below the lower plane            s <= rho_1
//      1  free on the lower plane                  s  = rho_1
//      0  without a multiplier, between        rho_1 <= s <= rho_2
//     -1  free on the upper plane                  s  = rho_2
//     -2  at -u_2, above the upper plane           s >= rho_2
//
// Of merged planes 1 and -1 are the same, and 0 does not occur. Where states are known, beta and rho are one linear
// solve; what is wrong with the result says which states to change.
//
// Where K is nearly singular, as with one feature, mass moves back and forth between near equals at no gain. So
// delta / 2 |beta - near|^2 is added, where near is a point close by. At the optimum itself, near = beta, it changes
// nothing there, and steadies what leaves it. (A plain ridge would move the optimum.)
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "descent.h"

namespace slabsvm {

using Doubles = std::vector<double>;
using State = signed char;

// A sample that leaves: its multiplier is fixed at what it was given, and its state is not judged.
constexpr State OUT = 9;

inline bool is_free(State state) { return state == 1 || state == -1; }

// The sign with which a plane's multipliers count: 1 of the lower one, -1 of the upper one.
inline int sign_of(int plane) { return plane == 0 ? 1 : -1; }

struct Problem {
  const double* K;          // (m, stride), rows contiguous; symmetric
  Index m, stride;
  int planes;               // 1, or 2 if there is an upper one
  Doubles upper_bounds;     // (2, m); the second row is of zeros where there is one plane
  double totals[2];
  const double* linear;     // (m,), c
  double delta = 0;         // of the term that is added, and the point it is measured from
  Doubles near{};           // (m,)
  double steadier = 0;      // delta where K is nearly singular
  bool exactly = false;     // whether scores are summed in long double: where w = 0 all else is rounding
  double centred = 0;       // at an optimum, by how much scores may be off by it

  double diagonal(Index j) const { return K[j * stride + j]; }
};

// Samples' states, and whether planes are merged.
struct States {
  std::vector<State> of;
  bool merged = true;

  State& operator[](Index j) { return of[j]; }
  State operator[](Index j) const { return of[j]; }
  Index size() const { return static_cast<Index>(of.size()); }
};

struct Point {
  Doubles beta, scores;
  double rho[2] = {0, 0};

  double scale() const { return std::max(std::abs(rho[0]), std::abs(rho[1])); }
};

// What is below takes upper_bounds, (2, m), for samples in an order of their own: that of the point and of the states.

// What a multiplier is in a state that is not free.
inline double bound(const Doubles& upper_bounds, State state, Index j) {
  return state == 2 ? upper_bounds[j] : state == -2 ? -upper_bounds[upper_bounds.size() / 2 + j] : 0.0;
}

// The box of a free sample's beta, and the states that lie beyond its ends.
struct Box {
  double floor, ceiling;
  State below, above;
};

inline Box box_of(const Doubles& upper_bounds, const States& states, Index j) {
  const bool lower = states.merged || states[j] > 0, upper = states.merged || states[j] < 0;
  return {upper ? bound(upper_bounds, -2, j) : 0.0, lower ? upper_bounds[j] : 0.0, State(upper ? -2 : 0),
          State(lower ? 2 : 0)};
}

// Planes part: free samples go to the one on whose side their multiplier is.
void part(const Doubles& beta, States& states);

// What is wrong with states: all of them put right at once, and how many are wrong.
struct Judgement {
  States states;
  Index wrong;
};

// Say which states would be right for what is wrong with a point, and whether planes should be merged.
//
// A score may be on the wrong side of its plane by slack, and a free multiplier beyond its box by the share beyond of
// its upper bounds.
Judgement judge(const Problem& problem, const Doubles& upper_bounds, const Point& at, const States& states,
                double slack, double beyond);

// Free, of a plane that has no free sample, the one that is next to give or to take mass.
void give_each_plane_one(const Problem& problem, const Doubles& upper_bounds, const Doubles& scores, States& states);

// Return multipliers of both planes, (2, m), or of one, (m,): mass that beta does not show is held by both planes.
// Return nothing where samples have no room for it.
Doubles multipliers_of(const Problem& problem, const Doubles& beta);

// Spread what rounding has left of the sums of multipliers over the room of each; one at its bound stays there.
void correct_sums(const Problem& problem, Doubles& multipliers);

// All samples, the lowest scores of a plane first.
std::vector<Index> lowest_first(const Doubles& scores, int plane);

// Return feasible multipliers that minimise their product with the scores: each plane's lowest scores at their upper
// bounds.
Doubles linear_minimiser(const Problem& problem, const Doubles& scores);

// Return beta of multipliers.
Doubles beta_of(const Problem& problem, const Doubles& multipliers);

// Return K beta + c.
Doubles scores_of(const Problem& problem, const Doubles& beta);

}  // namespace slabsvm
