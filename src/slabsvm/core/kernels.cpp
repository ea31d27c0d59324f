#include "kernels.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "lapack.h"
#include "loops.h"

namespace slabsvm {

namespace {

// A triangle is mirrored in squares of so many rows.
constexpr std::int64_t TILE = 32;

// So many partial sums stay in the first-level cache.
constexpr std::int64_t SUMS = 512;

// Copy the lower triangle of K, row-major, to the upper one.
//
// A square is turned over in a place of its own. Rows of K lie so that entries of one column share few places in the
// cache: written column by column, 1,000 rows took 3 ms in place of .2.
void mirror(double* K, std::int64_t m, std::int64_t stride) {
  double square[TILE][TILE];
  for (std::int64_t row = 0; row < m; row += TILE) {
    const std::int64_t end = std::min(row + TILE, m);
    for (std::int64_t column = 0; column <= row; column += TILE) {
      const std::int64_t column_end = std::min(column + TILE, m);
      for (std::int64_t i = row; i < end; ++i) {
        for (std::int64_t j = column; j < std::min(column_end, i); ++j) {
          square[j - column][i - row] = K[i * stride + j];
        }
      }
      for (std::int64_t j = column; j < column_end; ++j) {
        for (std::int64_t i = std::max(row, j + 1); i < end; ++i) {
          K[j * stride + i] = square[j - column][i - row];
        }
      }
    }
  }
}

// out_ij = times * sum_k of what x_ik adds to the sums of all j: add(sums, x, z, n), where z is row k of right.
template <class T, class Integer, class Add>
void additive_rows(const SparseRows<T, Integer>& left, const T* right, std::int64_t n_right, const Strided<T>& out,
                   T times, Add add) {
  T sums[SUMS];
  for (std::int64_t first = 0; first < n_right; first += SUMS) {
    const std::int64_t n = std::min(SUMS, n_right - first);
    for (std::int64_t i = 0; i < left.n; ++i) {
      std::fill(sums, sums + n, T(0));
      for (std::int64_t at = left.indptr[i]; at < left.indptr[i + 1]; ++at) {
        // A zero that is stored adds nothing, and would be divided by.
        if (left.data[at] != 0) {
          add(sums, left.data[at], right + left.columns[at] * n_right + first, n);
        }
      }
      T* row = out.data + i * out.row_stride + first * out.column_stride;
      for (std::int64_t j = 0; j < n; ++j) {
        row[j * out.column_stride] = times * sums[j];
      }
    }
  }
}

}  // namespace

void rbf_gram(const double* Z, std::int64_t m, std::int64_t d, const double* norms, double* K, std::int64_t stride) {
  if (m == 0) {  // a matrix that BLAS would complain of
    return;
  }
  // The upper triangle, column by column, is the lower one row by row: rows are contiguous up to the diagonal.
  lapack::syrk('U', 'T', m, d, 1.0, Z, std::max<std::int64_t>(1, d), 0.0, K, stride);
  for (std::int64_t i = 0; i < m; ++i) {
    double* row = K + i * stride;
    rbf_row(row, norms[i], norms, i);
    row[i] = 1.0;
    std::fill(row + m, row + stride, 0.0);
  }
  mirror(K, m, stride);
}

void kth_least(const double* values, std::int64_t n, std::int64_t m, std::int64_t k, double* out) {
  // Of each row the k least so far, in order: of most values one comparison says that they are none of them.
  std::vector<double> least(static_cast<std::size_t>(k));
  for (std::int64_t i = 0; i < n; ++i) {
    std::fill(least.begin(), least.end(), std::numeric_limits<double>::infinity());
    for (std::int64_t j = 0; j < m; ++j) {
      const double value = values[i * m + j];
      if (!(value < least.back())) {
        continue;
      }
      std::int64_t place = k - 1;
      for (; place > 0 && value < least[place - 1]; --place) {
        least[place] = least[place - 1];
      }
      least[place] = value;
    }
    out[i] = least.back();
  }
}

template <class T, class Integer>
void intersection_rows(const SparseRows<T, Integer>& left, const T* right, std::int64_t n_right,
                       const Strided<T>& out) {
  additive_rows(left, right, n_right, out, T(1), loops().of<T>().add_minima);
}

template <class T, class Integer>
void chi2_rows(const SparseRows<T, Integer>& left, const T* right, std::int64_t n_right, const Strided<T>& out) {
  additive_rows(left, right, n_right, out, T(2), loops().of<T>().add_harmonic);
}

template void intersection_rows(const SparseRows<float, std::int32_t>&, const float*, std::int64_t,
                                const Strided<float>&);
template void intersection_rows(const SparseRows<float, std::int64_t>&, const float*, std::int64_t,
                                const Strided<float>&);
template void intersection_rows(const SparseRows<double, std::int32_t>&, const double*, std::int64_t,
                                const Strided<double>&);
template void intersection_rows(const SparseRows<double, std::int64_t>&, const double*, std::int64_t,
                                const Strided<double>&);
template void chi2_rows(const SparseRows<float, std::int32_t>&, const float*, std::int64_t, const Strided<float>&);
template void chi2_rows(const SparseRows<float, std::int64_t>&, const float*, std::int64_t, const Strided<float>&);
template void chi2_rows(const SparseRows<double, std::int32_t>&, const double*, std::int64_t, const Strided<double>&);
template void chi2_rows(const SparseRows<double, std::int64_t>&, const double*, std::int64_t, const Strided<double>&);

}  // namespace slabsvm
