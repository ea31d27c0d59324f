// Blocks of kernels: the gram of the RBF, and the additive kernels of sparse rows; and what neighbours are told by.
#pragma once

#include "loops.h"

namespace slabsvm {

// K_ij = exp(min(0, z_i'z_j - norms_i - norms_j)), which is exp(-|z_i - z_j|^2 / 2).
//
// Z: (m, d), rows less their centre, times sqrt(2 gamma). norms: (m,), halves of their squared lengths. K: (m, stride),
// row-major; ones on the diagonal, zeros from column m on. m, d and stride are at most the largest int. Wants
// lapack::load().
void rbf_gram(const double* Z, Index m, Index d, const double* norms, double* K, Index stride);

// out_i = the k-th least of row i of values, (n, m), row-major, for k from 1 to m; NaN counts as the largest.
void kth_least(const double* values, Index n, Index m, Index k, double* out);

// Rows of which only what is not zero is there: of row i, data[indptr[i]] to data[indptr[i + 1]], in those columns.
template <class T, class Integer>
struct SparseRows {
  Index n;
  const Integer* indptr;
  const Integer* columns;
  const T* data;
};

// A matrix whose rows are strided, and columns too.
template <class T>
struct Strided {
  T* data;
  Index row_stride, column_stride;
};

// The additive kernels: sum_k min(x_ik, z_jk), and sum_k 2 x_ik z_jk / (x_ik + z_jk).
enum class Additive { intersection, chi2 };

// out_ij = an additive kernel, for rows x >= 0 and right = z', (d, n_right), row-major, z >= 0.
template <class T, class Integer>
void additive_rows(Additive kernel, const SparseRows<T, Integer>& left, const T* right, Index n_right,
                   const Strided<T>& out);

}  // namespace slabsvm
