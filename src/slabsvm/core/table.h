// The optimum's pivoted inverse: how it answers a disturbance while all states hold.
//
// With L L' the lifted K_FF, h = (L L')^-1 A, S = A'h, H = h S^-1 and N = (L L')^-1 - H h', the change of
// [beta_F, s_B, rho] is, per unit of
//
//     a free sample's distance from its plane:    [ N_j,      K_BF N_j,                  -H_j     ]
//     a bounded sample's multiplier:              [ -N K_Fj,  K_Bj - K_BF N K_Fj,        H'K_Fj   ]
//     the sum of a plane's free multipliers:      [ H_p,      K_BF H_p,                  S^-1_p - lift ]
//
// These are f^3 + 2 f^2 b multiplications for f free and b other samples, the least that there is. Columns of bounded
// samples are computed when they are first asked for.
//
// In a table samples have an order: the free ones of the lower plane, those of the upper one, and then the others by
// their state, so that what is compared with one plane lies in a row.
#pragma once
#include <array>

#include "optimum.h"

namespace slabsvm {

template <class T>
class Table {
 public:
  // Takes the factor's memory for the inverse.
  Table(const Problem& problem, Optimum<T>& optimum, const Interrupt& interrupt);

  const Problem& problem;
  const bool merged;         // of the optimum
  Index m, f, width;         // samples, free ones, and the length of a column: m + 2
  std::vector<Index> order;  // (m,) which sample is at each place
  std::vector<Index> place;  // (m,) and where each sample is
  States states;             // in the table's order, as all that follows
  Doubles beta, scores, cap1, cap2, near;
  double rho[2], scale;
  // Boxes relative to caps: what is less is rounding. Of scores slack is.
  static constexpr double tolerance = sizeof(T) == 8 ? 1e-10 : 4e-7;
  double slack;
  // A power of four near K's diagonal: in it scores are of the size of multipliers, and K times another power of four
  // gives the same bits.
  double unit;
  // Where the upper plane's free samples begin, the others' states 0, 2 and -2, and the end.
  Index begins[5];

  // What moves per unit of a disturbance at a sample's place: (m + 2,), the last two are the offsets.
  const T* column(Index at);
  // What moves per unit of the sum of a plane's free multipliers.
  const T* of_sum(int plane) const { return sums_.data() + plane * width; }
  // Per unit of the width between merged planes, where these free samples, (n,), go to the lower one.
  std::vector<T> of_width(const std::vector<Index>& lower) const;
  // K between two places.
  double kernel(Index a, Index b) const {
    const double added = a == b ? problem.delta : 0.0;
    return problem.K[order[a] * problem.stride + order[b]] + added;
  }
  double bound(State state, Index at) const { return state == 2 ? cap1[at] : state == -2 ? -cap2[at] : 0.0; }

 private:
  std::vector<T> free_columns_;               // (f, width)
  std::vector<T> across_;                     // (f, b): K between the free and the others
  std::vector<T> sums_;                       // (2, width)
  Doubles H_;                                 // (c, f)
  int planes_;
  std::vector<std::vector<T>> other_columns_; // (b,) of which most are empty
};

}  // namespace slabsvm
