#include "table.h"

#include <algorithm>
#include <limits>

#include "lapack.h"

namespace slabsvm {

namespace {

// Where a state's samples lie in the order.
int rank_of(State state) {
  switch (state) {
    case 1: return 0;
    case -1: return 1;
    case 0: return 2;
    case 2: return 3;
    default: return 4;
  }
}

// Scores have this rounding at least, relative to the offsets.
constexpr double ROUNDED = 1e-12;
// Rows and columns of a symmetric matrix are mirrored in squares of so many, which the cache holds.
constexpr Index TILE = 64;

}  // namespace

template <class T>
Table<T>::Table(const Problem& problem, Optimum<T>& optimum, const Interrupt& interrupt)
    : problem(problem), merged(optimum.merged), m(problem.m), f(optimum.face.size()), width(problem.m + 2),
      rho{optimum.rho[0], optimum.rho[1]}, scale(optimum.scale()), planes_(optimum.face.planes) {
  order.resize(m);
  for (Index j = 0; j < m; ++j) order[j] = j;
  const auto rank = [&](Index j) {
    const State state = optimum.states[j];
    return merged && is_free(state) ? 0 : rank_of(state);
  };
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return rank(a) < rank(b); });
  place.resize(m);
  states.resize(m);
  beta.resize(m), scores.resize(m), cap1.resize(m), cap2.resize(m), near.resize(m);
  std::fill(begins, begins + 5, m);
  for (Index k = m - 1; k >= 0; --k) {
    const Index j = order[k];
    place[j] = k;
    states[k] = optimum.states[j];
    beta[k] = optimum.beta[j], scores[k] = optimum.scores[j], near[k] = problem.near[j];
    cap1[k] = problem.caps[0][j], cap2[k] = problem.caps[1][j];
    for (int r = 0; r <= rank(j) - 1; ++r) begins[r] = std::min(begins[r], k);
  }
  double diagonal = 0;
  for (Index j = 0; j < m; ++j) diagonal += problem.K[j * problem.stride + j] / double(m);
  unit = diagonal > 0 ? std::ldexp(1.0, 2 * static_cast<int>(std::lround(std::log2(diagonal) / 2.0))) : 1.0;
  // Scores may differ by much less than they are large, as where all kernel values are nearly the same.
  const auto [lowest, highest] = std::minmax_element(scores.begin(), scores.end());
  slack = sizeof(T) == 8 ? std::max(tolerance * (*highest - *lowest), ROUNDED * scale) : tolerance * scale;
  // begins[0]: the upper plane's free samples, and then B's states 0, 2, -2; the last is the end.
  begins[4] = m;
  const Index b = m - f;
  other_columns_.resize(b);

  // The inverse of K_FF, in the factor's memory, is of free samples in the order of the face.
  std::vector<T>& inverse = optimum.face.factor;
  lapack::inverse_from_factor(inverse.data(), static_cast<int>(f), static_cast<int>(f));
  interrupt();
  std::vector<Index> in_face(f);
  {
    std::vector<Index> at(m, -1);
    for (Index a = 0; a < f; ++a) at[optimum.face.free[a]] = a;
    for (Index k = 0; k < f; ++k) in_face[k] = at[order[k]];
  }
  const Doubles& h = optimum.face.h;
  const double lift = optimum.face.lift;
  // H = h S^-1.
  H_.assign(static_cast<std::size_t>(planes_) * f, 0.0);
  double corner[4] = {0, 0, 0, 0};  // S^-1
  for (int p = 0; p < planes_; ++p) {
    double unit[2] = {p == 0 ? 1.0 : 0.0, p == 1 ? 1.0 : 0.0};
    solve_small(optimum.face.S, planes_, unit);
    for (int q = 0; q < planes_; ++q) {
      corner[q * planes_ + p] = unit[q];
      for (Index k = 0; k < f; ++k) H_[p * f + k] += h[q * f + in_face[k]] * unit[q];
    }
  }
  free_columns_.resize(static_cast<std::size_t>(f) * width);
  for (Index i0 = 0; i0 < f; i0 += TILE)
    for (Index k0 = 0; k0 <= i0; k0 += TILE)
      for (Index i = i0; i < std::min(i0 + TILE, f); ++i)
        for (Index k = k0; k < std::min(k0 + TILE, i + 1); ++k) {
          const Index a = std::max(in_face[i], in_face[k]), c = std::min(in_face[i], in_face[k]);
          double value = double(inverse[c * f + a]);
          for (int p = 0; p < planes_; ++p) value -= H_[p * f + i] * h[p * f + in_face[k]];
          free_columns_[k * width + i] = free_columns_[i * width + k] = static_cast<T>(value);
        }
  std::vector<T>().swap(inverse);
  optimum.face.free.clear();
  if (b > 0) {
    across_.resize(static_cast<std::size_t>(f) * b);
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
      column[m + r] = static_cast<T>(corner[s * planes_ + p] - (s == p ? lift : 0.0));
    }
  }
}

template <class T>
const T* Table<T>::column(Index at) {
  if (at < f) return free_columns_.data() + at * width;
  std::vector<T>& found = other_columns_[at - f];
  if (!found.empty()) return found.data();
  const Index b = m - f;
  found.resize(width);
  std::vector<T> x(f);
  double by_plane[2] = {0, 0};
  for (Index k = 0; k < f; ++k) {
    x[k] = free_columns_[k * width + at];
    found[k] = -x[k];
    for (int p = 0; p < planes_; ++p) by_plane[p] += H_[p * f + k] * double(across_[k * b + at - f]);
  }
  const double* row = problem.K + order[at] * problem.stride;
  for (Index j = 0; j < b; ++j) found[f + j] = static_cast<T>(row[order[f + j]]);
  found[at] += static_cast<T>(problem.delta);
  lapack::gemv('N', b, f, -1.0, across_.data(), b, x.data(), 1, 1.0, found.data() + f, 1);
  for (int q = 0; q < 2; ++q) found[m + q] = static_cast<T>(by_plane[planes_ == 1 ? 0 : q]);
  return found.data();
}

template <class T>
std::vector<T> Table<T>::of_width(const std::vector<Index>& lower) const {
  Doubles sum(width, 0.0);
  for (Index k : lower) {
    const T* column = free_columns_.data() + k * width;
    for (Index j = 0; j < width; ++j) sum[j] -= double(column[j]);
  }
  sum[m] -= 1.0;
  return std::vector<T>(sum.begin(), sum.end());
}

template class Table<float>;
template class Table<double>;

}  // namespace slabsvm
