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

// What one of SciPy's modules exports by a name.
void* exported(const nb::dict& exports, const std::string& name, int arguments) {
  if (!exports.contains(name.c_str())) throw std::runtime_error("SciPy does not export " + name);
  const nb::object capsule = exports[name.c_str()];
  // A capsule's name is the C signature. Integers of another size than int's would go by another name.
  const char* given = PyCapsule_GetName(capsule.ptr());
  const std::string signature = given == nullptr ? "" : given;
  if (signature.find(" int *") == std::string::npos || std::ranges::count(signature, '*') != arguments)
    throw std::runtime_error("SciPy exports " + name + " with another signature than this module knows");
  return PyCapsule_GetPointer(capsule.ptr(), given);
}

template <int arguments>
void find(const nb::dict& exports, Routine<arguments>& routine) {
  routine.of_floats = exported(exports, std::string("s") + routine.name, arguments);
  routine.of_doubles = exported(exports, std::string("d") + routine.name, arguments);
}

// A lower triangular matrix in four blocks: itself, `below` it (rows, n_first), and `second` (rows, rows).
template <class T>
struct Halves {
  int n_first, rows;
  T *below, *second;

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
    int info;
    trtri('L', 'N', n, L, ld, &info);
    return;
  }
  const Halves<T> halves(L, n, ld);
  trsm('R', 'L', 'N', 'N', halves.rows, halves.n_first, -1.0, L, ld, halves.below, ld);
  trsm('L', 'L', 'N', 'N', halves.rows, halves.n_first, 1.0, halves.second, ld, halves.below, ld);
  inverse_of_lower(L, halves.n_first, ld);
  inverse_of_lower(halves.second, halves.rows, ld);
}

// The lower triangle of L'L in place of L. With L = [A 0; B C] it is [A'A + B'B; C'B, C'C].
template <class T>
void square_of_lower(T* L, int n, int ld) {
  if (n <= SMALL) {
    int info;
    lauum('L', n, L, ld, &info);
    return;
  }
  const Halves<T> halves(L, n, ld);
  square_of_lower(L, halves.n_first, ld);
  syrk('L', 'T', halves.n_first, halves.rows, 1.0, halves.below, ld, 1.0, L, ld);
  trmm('L', 'L', 'T', 'N', halves.rows, halves.n_first, 1.0, halves.second, ld, halves.below, ld);
  square_of_lower(halves.second, halves.rows, ld);
}

}  // namespace

void load() {
  static bool loaded = false;
  if (loaded) return;
  // Imports may let another thread in here: it finds the same pointers.
  const auto find_all = [](const char* module, auto&... routines) {
    const nb::dict exports = nb::module_::import_(module).attr("__pyx_capi__");
    (find(exports, routines), ...);
  };
  find_all("scipy.linalg.cython_blas", gemm, gemv, symv, symm, syrk, trsm, trmm);
  find_all("scipy.linalg.cython_lapack", potrf, potrs, trtri, lauum, gesv);
  loaded = true;
}

// (L L')^-1 is N'N with N = L^-1.
template <class T>
void inverse_from_factor(T* L, int n, int ld) {
  inverse_of_lower(L, n, ld);
  square_of_lower(L, n, ld);
}

template void inverse_from_factor<float>(float*, int, int);
template void inverse_from_factor<double>(double*, int, int);

}  // namespace slabsvm::lapack
