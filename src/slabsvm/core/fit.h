// A fit of up to 2,000 rows: descent, optimum, left-out scores, and their certificate, in one call.
//
// The descent goes down to a gap from which pivoting finds the optimum: from 1e-5 of the objective one factor is mostly
// enough, from 1e-2 it fails in half of the cases. Where pivoting fails, the descent goes on. A slab that collapses,
// with most of its samples free in one plane, is found from equal scores with one factor.
#pragma once
#include "left_out.h"

namespace slabsvm {

struct Wanted {
  double tol;         // the relative gap to reach
  double smallest;    // what the objective is taken for when it is smaller still
  double floor;       // the least curvature that a step of the descent divides by
  Index max_steps;    // of the descent; -1 for none but `most_work`
  double most_work;   // steps times samples at most
  bool optimum;       // whether to go to the optimum itself
  Sets sets{};        // whose scores are asked for without them; begins is empty where none are. Targets are found here
  Doubles stays{};    // (m,): the share of each sample that stays where one row of it leaves; empty where all leaves
};

struct Fit {
  Doubles multipliers;     // (P, m)
  Doubles scores;          // (m,): K beta + c
  Index steps = 0, factors = 0;
  Index refit_steps = 0;   // of the descents of all refits together
  double lowest_curvature = 0;
  bool optimal = false, merged = true;
  LeftOut left_out;        // scores of rows, (m,), or of all groups' samples
};

Fit fit(Problem problem, const Wanted& wanted, const Interrupt& interrupt);

}  // namespace slabsvm
