// BLAS and LAPACK, in the form in which SciPy exports them.
//
// SciPy gives pointers to the routines of the library that it carries (scipy.linalg.cython_blas and cython_lapack), so
// that nothing is linked here, and what governs SciPy's threads (threadpoolctl) governs these calls too.
//
// Matrices are column-major, as in Fortran: a row-major matrix is its own transpose here. Vectors have no gaps. Each
// routine is there for float and for double; its arguments are those of its Fortran text, by value.
#pragma once

namespace slabsvm::lapack {

// Find the routines; nothing happens after the first time. Call it with the GIL held, before any routine. Throws
// std::runtime_error where SciPy lacks one.
void load();

// C = alpha op(A) op(B) + beta C, with C (m, n) and k columns of op(A).
template <class T>
void gemm(char ta, char tb, int m, int n, int k, T alpha, const T* a, int lda, const T* b, int ldb, T beta, T* c,
          int ldc);

// y = alpha op(A) x + beta y, with A (m, n).
template <class T>
void gemv(char t, int m, int n, T alpha, const T* a, int lda, const T* x, T beta, T* y);

// y = alpha A x + beta y, with A (n, n) symmetric, of which one triangle is read.
template <class T>
void symv(char uplo, int n, T alpha, const T* a, int lda, const T* x, T beta, T* y);

// C = alpha A B + beta C, or alpha B A + beta C, with A symmetric, of which one triangle is read, and C (m, n).
template <class T>
void symm(char side, char uplo, int m, int n, T alpha, const T* a, int lda, const T* b, int ldb, T beta, T* c, int ldc);

// One triangle of C = alpha A A' + beta C (trans = 'N', with A (n, k)), or of alpha A'A + beta C ('T', with A (k, n)).
template <class T>
void syrk(char uplo, char trans, int n, int k, T alpha, const T* a, int lda, T beta, T* c, int ldc);

// B = alpha op(A)^-1 B, or alpha B op(A)^-1, with A triangular and B (m, n).
template <class T>
void trsm(char side, char uplo, char trans, char diag, int m, int n, T alpha, const T* a, int lda, T* b, int ldb);

// B = alpha op(A) B, or alpha B op(A), with A triangular and B (m, n).
template <class T>
void trmm(char side, char uplo, char trans, char diag, int m, int n, T alpha, const T* a, int lda, T* b, int ldb);

// The routines below return LAPACK's info: 0, or which pivot failed.

// A's Cholesky factor, in place of that triangle of A.
template <class T>
int potrf(char uplo, int n, T* a, int lda);

// B = A^-1 B, by the Cholesky factor of A.
template <class T>
int potrs(char uplo, int n, int nrhs, const T* a, int lda, T* b, int ldb);

// A^-1 of a triangular A, in place.
template <class T>
int trtri(char uplo, char diag, int n, T* a, int lda);

// L'L or U U', in place of the triangle.
template <class T>
int lauum(char uplo, int n, T* a, int lda);

// B = A^-1 B by elimination with pivots, of which there are n; A is overwritten.
template <class T>
int gesv(int n, int nrhs, T* a, int lda, int* pivots, T* b, int ldb);

// The lower triangle of (L L')^-1, in place of L, (n, n), lower triangular with no zero on its diagonal.
//
// potri does the same, and takes 1.1 to 2 times as long where there are 100 to 500 rows. This one halves the matrix, so
// that nearly all of the work is in products of large blocks.
template <class T>
void inverse_from_factor(T* L, int n, int ld);

}  // namespace slabsvm::lapack
