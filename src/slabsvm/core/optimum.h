// The optimum by pivoting: solve for the free samples, put what is wrong right, all at once, and solve again.
//
// With F the free samples, A their |F| x c indicator of planes (c = 1 where there is one plane, or both are merged) and
// B the others,
//
//     [ K_FF + delta  A ] [ beta_F ]   [ delta near_F - K_FB beta_B - c_F ]
//     [ A'            0 ] [  -rho  ] = [ totals less what B holds         ]
//
// From states that a descent has reached, one Cholesky factor is mostly enough, and rarely five are needed.
//
// Because A'beta is given, K_FF may be replaced by K_FF + lift A A' without changing beta. That is regular where the
// whole matrix is, and K_FF may not be: with a linear kernel there are often more free samples than features. Offsets
// are then off by lift times the sums, which is put right.
#pragma once
#include "problem.h"

namespace slabsvm {

// The lower Cholesky factor L of K_FF + delta + lift A A', with h = (L L')^-1 A and S = A'h.
template <class T>
struct FreeSet {
  std::vector<Index> free;     // F
  std::vector<int> planes_of;  // (f,): which of A's columns each is in
  std::vector<T> factor;       // (f, f), column by column
  Doubles h;                   // (c, f)
  int planes = 0;              // c
  double lift = 0;             // none in float32, where factors are of well-conditioned K alone
  double S[4] = {0, 0, 0, 0};
  double least_pivot = 0;      // the least squared pivot: of dependent samples it is that of rounding

  Index size() const { return static_cast<Index>(free.size()); }
};

template <class T>
struct Optimum {
  States states;
  Point at;         // scores: K beta + c + delta (beta - near)
  FreeSet<T> free_set;
  int factors = 0;  // how many factors it took
  double work = 0;  // multiplications, of all that was tried
};

// Solve x <- C^-1 x for a c x c matrix, c <= 2; return whether it is regular.
bool solve_small(const double* C, int c, double* x);

// Go from some states to the optimum's; return whether it was found with so many factors at most. What the term that is
// added is measured from moves to the optimum itself.
template <class T>
bool find_optimum(Problem& problem, States states, int most, Optimum<T>& found, const Interrupt& interrupt);

}  // namespace slabsvm
