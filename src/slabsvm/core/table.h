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
#include <limits>

#include "lapack.h"
#include "optimum.h"

namespace slabsvm {

template <class T>
class Table {
 public:
  const Problem& problem;
  const Index m, f, width;   // samples, free ones, and the length of a column: m + 2
  std::vector<Index> order;  // (m,) which sample is at each place
  std::vector<Index> place;  // (m,) and where each sample is
  States states;             // in the table's order, as all that follows
  Point at;
  Doubles upper_bounds, near;        // (2, m), (m,)
  const double scale;
  // Boxes relative to upper bounds: what is less is rounding. Of scores slack is.
  static constexpr double tolerance = sizeof(T) == 8 ? 1e-10 : 4e-7;
  double slack;
  // A power of four near K's diagonal: in it scores are of the size of multipliers, and K times another power of four
  // gives the same bits.
  double unit;
  // Where each rank begins (rank_of), and the end.
  Index begins[6];

  // Takes the factor's memory for the inverse.
  Table(const Problem& problem, Optimum<T>& optimum, const Interrupt& interrupt)
      : problem(problem), m(problem.m), f(optimum.free_set.size()), width(m + 2), scale(optimum.at.scale()) {
    put_in_order(optimum);
    double diagonal = 0;
    for (Index j = 0; j < m; ++j) diagonal += problem.diagonal(j) / double(m);
    unit = diagonal > 0 ? std::ldexp(1.0, 2 * static_cast<int>(std::lround(std::log2(diagonal) / 2.0))) : 1.0;
    // Scores may differ by much less than they are large, as where all kernel values are nearly the same.
    const auto [lowest, highest] = std::minmax_element(at.scores.begin(), at.scores.end());
    slack = sizeof(T) == 8 ? std::max(tolerance * (*highest - *lowest), ROUNDED * scale) : tolerance * scale;
    invert(optimum, interrupt);
  }

  // Which plane a free sample is on, of those that are not merged.
  int plane_of(Index k) const { return !states.merged && states[k] < 0; }

  // What moves per unit of a disturbance at a sample's place: (m + 2,), the last two are the offsets.
  const T* column(Index place) {
    if (place < f) return free_columns_.data() + place * width;
    std::vector<T>& found = other_columns_[place - f];
    if (!found.empty()) return found.data();
    const Index b = m - f;
    found.resize(width);
    std::vector<T> x(f);
    double by_plane[2] = {0, 0};
    for (Index k = 0; k < f; ++k) {
      x[k] = free_columns_[k * width + place];
      found[k] = -x[k];
      for (int p = 0; p < planes_; ++p) by_plane[p] += H_[p * f + k] * double(across_[k * b + place - f]);
    }
    const double* row = problem.K + order[place] * problem.stride;
    for (Index j = 0; j < b; ++j) found[f + j] = static_cast<T>(row[order[f + j]]);
    found[place] += static_cast<T>(problem.delta);
    lapack::gemv('N', b, f, -1.0, across_.data(), b, x.data(), 1, 1.0, found.data() + f, 1);
    for (int q = 0; q < 2; ++q) found[m + q] = static_cast<T>(by_plane[planes_ == 1 ? 0 : q]);
    return found.data();
  }

  // What moves per unit of the sum of a plane's free multipliers.
  const T* of_sum(int plane) const { return sums_.data() + plane * width; }

  // Per unit of the width between merged planes, where these free samples, (n,), go to the lower one.
  std::vector<T> of_width(const std::vector<Index>& lower) const {
    Doubles sum(width, 0.0);
    for (Index k : lower)
      for (Index j = 0; j < width; ++j) sum[j] -= double(free_columns_[k * width + j]);
    sum[m] -= 1.0;
    return std::vector<T>(sum.begin(), sum.end());
  }

 private:
  // Scores have this rounding at least, relative to the offsets.
  static constexpr double ROUNDED = 1e-12;
  // Rows and columns of a symmetric matrix are mirrored in squares of so many, which the cache holds.
  static constexpr Index TILE = 64;

  // Where a state's samples lie in the order.
  static int rank_of(const States& states, Index j) {
    const State state = states[j];
    if (is_free(state)) return !states.merged && state < 0;
    return state == 0 ? 2 : state == 2 ? 3 : 4;
  }

  void put_in_order(const Optimum<T>& optimum) {
    for (int rank = 0; rank < 5; ++rank) {
      begins[rank] = static_cast<Index>(order.size());
      for (Index j = 0; j < m; ++j)
        if (rank_of(optimum.states, j) == rank) order.push_back(j);
    }
    begins[5] = m;
    place.resize(m);
    states = optimum.states, at = optimum.at, upper_bounds = problem.upper_bounds, near = problem.near;
    for (Index k = 0; k < m; ++k) {
      const Index j = order[k];
      place[j] = k;
      states[k] = optimum.states[j];
      at.beta[k] = optimum.at.beta[j], at.scores[k] = optimum.at.scores[j], near[k] = problem.near[j];
      upper_bounds[k] = problem.upper_bounds[j], upper_bounds[m + k] = problem.upper_bounds[m + j];
    }
  }

  void invert(Optimum<T>& optimum, const Interrupt& interrupt) {
    FreeSet<T>& free_set = optimum.free_set;
    const Index b = m - f;
    planes_ = free_set.planes;
    other_columns_.resize(b);
    // The inverse of K_FF, in the factor's memory, is of free samples in the order of the free set.
    std::vector<T>& inverse = free_set.factor;
    lapack::inverse_from_factor(inverse.data(), static_cast<int>(f), static_cast<int>(f));
    interrupt();
    std::vector<Index> in_set(f);
    for (Index a = 0; a < f; ++a) in_set[place[free_set.free[a]]] = a;
    // H = h S^-1.
    H_.assign(planes_ * f, 0.0);
    double corner[4] = {0, 0, 0, 0};  // S^-1
    for (int p = 0; p < planes_; ++p) {
      double one[2] = {p == 0 ? 1.0 : 0.0, p == 1 ? 1.0 : 0.0};
      solve_small(free_set.S, planes_, one);
      for (int q = 0; q < planes_; ++q) {
        corner[q * planes_ + p] = one[q];
        for (Index k = 0; k < f; ++k) H_[p * f + k] += free_set.h[q * f + in_set[k]] * one[q];
      }
    }
    free_columns_.resize(f * width);
    for (Index i0 = 0; i0 < f; i0 += TILE)
      for (Index k0 = 0; k0 <= i0; k0 += TILE)
        for (Index i = i0; i < std::min(i0 + TILE, f); ++i)
          for (Index k = k0; k < std::min(k0 + TILE, i + 1); ++k) {
            const auto [c, a] = std::minmax(in_set[i], in_set[k]);
            double value = double(inverse[c * f + a]);
            for (int p = 0; p < planes_; ++p) value -= H_[p * f + i] * free_set.h[p * f + in_set[k]];
            free_columns_[k * width + i] = free_columns_[i * width + k] = static_cast<T>(value);
          }
    std::vector<T>().swap(inverse);
    free_set.free.clear();
    if (b > 0) {
      across_.resize(f * b);
      for (Index k = 0; k < f; ++k) {
        const double* row = problem.K + order[k] * problem.stride;
        for (Index j = 0; j < b; ++j) across_[k * b + j] = static_cast<T>(row[order[f + j]]);
      }
      lapack::gemm('N', 'N', b, f, f, 1.0, across_.data(), b, free_columns_.data(), width, 0.0,
                   free_columns_.data() + f, width);
    }
    interrupt();
    sums_.assign(2 * width, T(0));
    for (int q = 0; q < 2; ++q) {
      const int p = planes_ == 1 ? 0 : q;
      T* column = sums_.data() + q * width;
      for (Index k = 0; k < f; ++k) {
        column[k] = static_cast<T>(H_[p * f + k]);
        free_columns_[k * width + m + q] = static_cast<T>(-H_[p * f + k]);
      }
      if (b > 0) lapack::gemv('N', b, f, 1.0, across_.data(), b, column, 1, 0.0, column + f, 1);
      for (int r = 0; r < 2; ++r) {
        const int s = planes_ == 1 ? 0 : r;
        column[m + r] = static_cast<T>(corner[s * planes_ + p] - (s == p ? free_set.lift : 0.0));
      }
    }
  }

  int planes_;
  std::vector<T> free_columns_;                // (f, width)
  std::vector<T> across_;                      // (f, b): K between the free and the others
  std::vector<T> sums_;                        // (2, width)
  Doubles H_;                                  // (c, f)
  std::vector<std::vector<T>> other_columns_;  // (b,) of which most are empty
};

}  // namespace slabsvm
