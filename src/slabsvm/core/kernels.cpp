#include "kernels.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "lapack.h"

namespace slabsvm {

namespace {

// A triangle is mirrored in squares of so many rows.
constexpr Index TILE = 32;

// So many partial sums stay in the first-level cache.
constexpr Index SUMS = 512;

// Copy the lower triangle of K, row-major, to the upper one.
//
// A square is turned over in a place of its own. Rows of K lie so that entries of one column share few places in the
// cache: written column by column, 1,000 rows took 3 ms in place of .2.
void mirror(double* K, Index m, Index stride) {
  double square[TILE][TILE];
  for (Index row = 0; row < m; row += TILE) {
    const Index end = std::min(row + TILE, m);
    for (Index column = 0; column <= row; column += TILE) {
      const Index column_end = std::min(column + TILE, m);
      for (Index i = row; i < end; ++i)
        for (Index j = column; j < std::min(column_end, i); ++j) square[j - column][i - row] = K[i * stride + j];
      for (Index j = column; j < column_end; ++j)
        for (Index i = std::max(row, j + 1); i < end; ++i) K[j * stride + i] = square[j - column][i - row];
    }
  }
}

}  // namespace

void rbf_gram(const double* Z, Index m, Index d, const double* norms, double* K, Index stride) {
  if (m == 0) return;  // a matrix that BLAS would complain of
  // The upper triangle, column by column, is the lower one row by row: rows are contiguous up to the diagonal.
  lapack::syrk('U', 'T', m, d, 1.0, Z, std::max<Index>(1, d), 0.0, K, stride);
  for (Index i = 0; i < m; ++i) {
    double* row = K + i * stride;
    loops().rbf_row(row, norms[i], norms, i);
    row[i] = 1.0;
    std::fill(row + m, row + stride, 0.0);
  }
  mirror(K, m, stride);
}

void kth_least(const double* values, Index n, Index m, Index k, double* out) {
  // Of each row the k least so far, in order: of most values one comparison says that they are none of them.
  std::vector<double> least(static_cast<std::size_t>(k));
  for (Index i = 0; i < n; ++i) {
    std::fill(least.begin(), least.end(), std::numeric_limits<double>::infinity());
    for (Index j = 0; j < m; ++j) {
      const double value = values[i * m + j];
      if (!(value < least.back())) continue;
      Index place = k - 1;
      for (; place > 0 && value < least[place - 1]; --place) least[place] = least[place - 1];
      least[place] = value;
    }
    out[i] = least.back();
  }
}

template <class T, class Integer>
void additive_rows(Additive kernel, const SparseRows<T, Integer>& left, const T* right, Index n_right,
                   const Strided<T>& out) {
  const bool minima = kernel == Additive::intersection;
  // What x_ik adds to the sums of many j.
  const auto add = minima ? loops().of<T>().add_minima : loops().of<T>().add_harmonic;
  const T times = minima ? 1 : 2;
  T sums[SUMS];
  for (Index first = 0; first < n_right; first += SUMS) {
    const Index n = std::min(SUMS, n_right - first);
    for (Index i = 0; i < left.n; ++i) {
      std::fill(sums, sums + n, T(0));
      // A zero that is stored adds nothing, and would be divided by.
      for (Index at = left.indptr[i]; at < left.indptr[i + 1]; ++at)
        if (left.data[at] != 0) add(sums, left.data[at], right + left.columns[at] * n_right + first, n);
      T* row = out.data + i * out.row_stride + first * out.column_stride;
      for (Index j = 0; j < n; ++j) row[j * out.column_stride] = times * sums[j];
    }
  }
}

template void additive_rows(Additive, const SparseRows<float, std::int32_t>&, const float*, Index,
                            const Strided<float>&);
template void additive_rows(Additive, const SparseRows<float, Index>&, const float*, Index, const Strided<float>&);
template void additive_rows(Additive, const SparseRows<double, std::int32_t>&, const double*, Index,
                            const Strided<double>&);
template void additive_rows(Additive, const SparseRows<double, Index>&, const double*, Index, const Strided<double>&);

}  // namespace slabsvm
