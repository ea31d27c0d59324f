#include "lapack.h"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace nb = nanobind;

namespace slabsvm::lapack {

namespace {

// Below this size LAPACK's own routines are as fast as halves are.
constexpr int SMALL = 64;
// A first half is a multiple of this, so that its columns stay aligned.
constexpr int ALIGNED = 32;

// The routines as Fortran has them: everything by pointer.
template <class T>
struct Routines {
  void (*gemm)(const char*, const char*, const int*, const int*, const int*, const T*, const T*, const int*, const T*,
               const int*, const T*, T*, const int*);
  void (*gemv)(const char*, const int*, const int*, const T*, const T*, const int*, const T*, const int*, const T*, T*,
               const int*);
  void (*symv)(const char*, const int*, const T*, const T*, const int*, const T*, const int*, const T*, T*, const int*);
  void (*symm)(const char*, const char*, const int*, const int*, const T*, const T*, const int*, const T*, const int*,
               const T*, T*, const int*);
  void (*syrk)(const char*, const char*, const int*, const int*, const T*, const T*, const int*, const T*, T*,
               const int*);
  void (*trsm)(const char*, const char*, const char*, const char*, const int*, const int*, const T*, const T*,
               const int*, T*, const int*);
  void (*trmm)(const char*, const char*, const char*, const char*, const int*, const int*, const T*, const T*,
               const int*, T*, const int*);
  void (*potrf)(const char*, const int*, T*, const int*, int*);
  void (*potrs)(const char*, const int*, const int*, const T*, const int*, T*, const int*, int*);
  void (*trtri)(const char*, const char*, const int*, T*, const int*, int*);
  void (*lauum)(const char*, const int*, T*, const int*, int*);
  void (*gesv)(const int*, const int*, T*, const int*, int*, T*, const int*, int*);
};

template <class T>
Routines<T> routines;

const int ONE = 1;

// Set a pointer to what one of SciPy's modules exports by a name.
template <class Function>
void find(const nb::dict& exports, const std::string& name, Function& function) {
  if (!exports.contains(name.c_str())) {
    throw std::runtime_error("SciPy does not export " + name);
  }
  const nb::object capsule = exports[name.c_str()];
  // A capsule's name is the C signature. Integers of another size than int's would go by another name.
  const char* signature = PyCapsule_GetName(capsule.ptr());
  if (signature == nullptr || std::string(signature).find(" int *") == std::string::npos) {
    throw std::runtime_error("SciPy exports " + name + " with another signature than this module knows");
  }
  function = reinterpret_cast<Function>(PyCapsule_GetPointer(capsule.ptr(), signature));
}

// Find all routines of one type, whose names begin with a letter, s or d.
template <class T>
Routines<T> found(const nb::dict& blas, const nb::dict& lapack, const std::string& letter) {
  Routines<T> all;
  find(blas, letter + "gemm", all.gemm);
  find(blas, letter + "gemv", all.gemv);
  find(blas, letter + "symv", all.symv);
  find(blas, letter + "symm", all.symm);
  find(blas, letter + "syrk", all.syrk);
  find(blas, letter + "trsm", all.trsm);
  find(blas, letter + "trmm", all.trmm);
  find(lapack, letter + "potrf", all.potrf);
  find(lapack, letter + "potrs", all.potrs);
  find(lapack, letter + "trtri", all.trtri);
  find(lapack, letter + "lauum", all.lauum);
  find(lapack, letter + "gesv", all.gesv);
  return all;
}

}  // namespace

void load() {
  static bool loaded = false;
  if (loaded) {
    return;
  }
  // Imports may let another thread in here: it finds the same pointers.
  const nb::dict blas = nb::module_::import_("scipy.linalg.cython_blas").attr("__pyx_capi__");
  const nb::dict lapack = nb::module_::import_("scipy.linalg.cython_lapack").attr("__pyx_capi__");
  const auto singles = found<float>(blas, lapack, "s");
  const auto doubles = found<double>(blas, lapack, "d");
  routines<float> = singles;
  routines<double> = doubles;
  loaded = true;
}

template <class T>
void gemm(char ta, char tb, int m, int n, int k, T alpha, const T* a, int lda, const T* b, int ldb, T beta, T* c,
          int ldc) {
  routines<T>.gemm(&ta, &tb, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc);
}

template <class T>
void gemv(char t, int m, int n, T alpha, const T* a, int lda, const T* x, T beta, T* y) {
  routines<T>.gemv(&t, &m, &n, &alpha, a, &lda, x, &ONE, &beta, y, &ONE);
}

template <class T>
void symv(char uplo, int n, T alpha, const T* a, int lda, const T* x, T beta, T* y) {
  routines<T>.symv(&uplo, &n, &alpha, a, &lda, x, &ONE, &beta, y, &ONE);
}

template <class T>
void symm(char side, char uplo, int m, int n, T alpha, const T* a, int lda, const T* b, int ldb, T beta, T* c,
          int ldc) {
  routines<T>.symm(&side, &uplo, &m, &n, &alpha, a, &lda, b, &ldb, &beta, c, &ldc);
}

template <class T>
void syrk(char uplo, char trans, int n, int k, T alpha, const T* a, int lda, T beta, T* c, int ldc) {
  routines<T>.syrk(&uplo, &trans, &n, &k, &alpha, a, &lda, &beta, c, &ldc);
}

template <class T>
void trsm(char side, char uplo, char trans, char diag, int m, int n, T alpha, const T* a, int lda, T* b, int ldb) {
  routines<T>.trsm(&side, &uplo, &trans, &diag, &m, &n, &alpha, a, &lda, b, &ldb);
}

template <class T>
void trmm(char side, char uplo, char trans, char diag, int m, int n, T alpha, const T* a, int lda, T* b, int ldb) {
  routines<T>.trmm(&side, &uplo, &trans, &diag, &m, &n, &alpha, a, &lda, b, &ldb);
}

template <class T>
int potrf(char uplo, int n, T* a, int lda) {
  int info = 0;
  routines<T>.potrf(&uplo, &n, a, &lda, &info);
  return info;
}

template <class T>
int potrs(char uplo, int n, int nrhs, const T* a, int lda, T* b, int ldb) {
  int info = 0;
  routines<T>.potrs(&uplo, &n, &nrhs, a, &lda, b, &ldb, &info);
  return info;
}

template <class T>
int trtri(char uplo, char diag, int n, T* a, int lda) {
  int info = 0;
  routines<T>.trtri(&uplo, &diag, &n, a, &lda, &info);
  return info;
}

template <class T>
int lauum(char uplo, int n, T* a, int lda) {
  int info = 0;
  routines<T>.lauum(&uplo, &n, a, &lda, &info);
  return info;
}

template <class T>
int gesv(int n, int nrhs, T* a, int lda, int* pivots, T* b, int ldb) {
  int info = 0;
  routines<T>.gesv(&n, &nrhs, a, &lda, pivots, b, &ldb, &info);
  return info;
}

namespace {

// A lower triangular matrix in four blocks: itself, `below` it (rows, n_first), and `second` (rows, rows).
template <class T>
struct Halves {
  int n_first;
  int rows;
  T* below;
  T* second;

  Halves(T* L, int n, int ld)
      : n_first((n / 2 + ALIGNED - 1) / ALIGNED * ALIGNED),
        rows(n - n_first),
        below(L + n_first),
        second(below + static_cast<std::int64_t>(n_first) * ld) {}
};

// L^-1 in place of L. Below the diagonal blocks A and C of L = [A 0; B C] the inverse is -C^-1 B A^-1.
template <class T>
void inverse_of_lower(T* L, int n, int ld) {
  if (n <= SMALL) {
    trtri<T>('L', 'N', n, L, ld);
    return;
  }
  const Halves<T> halves(L, n, ld);
  trsm<T>('R', 'L', 'N', 'N', halves.rows, halves.n_first, T(-1), L, ld, halves.below, ld);
  trsm<T>('L', 'L', 'N', 'N', halves.rows, halves.n_first, T(1), halves.second, ld, halves.below, ld);
  inverse_of_lower(L, halves.n_first, ld);
  inverse_of_lower(halves.second, halves.rows, ld);
}

// The lower triangle of L'L in place of L. With L = [A 0; B C] it is [A'A + B'B; C'B, C'C].
template <class T>
void square_of_lower(T* L, int n, int ld) {
  if (n <= SMALL) {
    lauum<T>('L', n, L, ld);
    return;
  }
  const Halves<T> halves(L, n, ld);
  square_of_lower(L, halves.n_first, ld);
  syrk<T>('L', 'T', halves.n_first, halves.rows, T(1), halves.below, ld, T(1), L, ld);
  trmm<T>('L', 'L', 'T', 'N', halves.rows, halves.n_first, T(1), halves.second, ld, halves.below, ld);
  square_of_lower(halves.second, halves.rows, ld);
}

}  // namespace

// (L L')^-1 is N'N with N = L^-1.
template <class T>
void inverse_from_factor(T* L, int n, int ld) {
  inverse_of_lower(L, n, ld);
  square_of_lower(L, n, ld);
}

template void gemm<float>(char, char, int, int, int, float, const float*, int, const float*, int, float, float*, int);
template void gemm<double>(char, char, int, int, int, double, const double*, int, const double*, int, double, double*,
                           int);
template void gemv<float>(char, int, int, float, const float*, int, const float*, float, float*);
template void gemv<double>(char, int, int, double, const double*, int, const double*, double, double*);
template void symv<float>(char, int, float, const float*, int, const float*, float, float*);
template void symv<double>(char, int, double, const double*, int, const double*, double, double*);
template void symm<float>(char, char, int, int, float, const float*, int, const float*, int, float, float*, int);
template void symm<double>(char, char, int, int, double, const double*, int, const double*, int, double, double*, int);
template void syrk<float>(char, char, int, int, float, const float*, int, float, float*, int);
template void syrk<double>(char, char, int, int, double, const double*, int, double, double*, int);
template void trsm<float>(char, char, char, char, int, int, float, const float*, int, float*, int);
template void trsm<double>(char, char, char, char, int, int, double, const double*, int, double*, int);
template void trmm<float>(char, char, char, char, int, int, float, const float*, int, float*, int);
template void trmm<double>(char, char, char, char, int, int, double, const double*, int, double*, int);
template int potrf<float>(char, int, float*, int);
template int potrf<double>(char, int, double*, int);
template int potrs<float>(char, int, int, const float*, int, float*, int);
template int potrs<double>(char, int, int, const double*, int, double*, int);
template int trtri<float>(char, char, int, float*, int);
template int trtri<double>(char, char, int, double*, int);
template int lauum<float>(char, int, float*, int);
template int lauum<double>(char, int, double*, int);
template int gesv<float>(int, int, float*, int, int*, float*, int);
template int gesv<double>(int, int, double*, int, int*, double*, int);
template void inverse_from_factor<float>(float*, int, int);
template void inverse_from_factor<double>(double*, int, int);

}  // namespace slabsvm::lapack
