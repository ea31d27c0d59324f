// BLAS and LAPACK, in the form in which SciPy exports them.
//
// SciPy gives pointers to the routines of the library that it carries (scipy.linalg.cython_blas and cython_lapack), so
// that nothing is linked here, and what governs SciPy's threads (threadpoolctl) governs these calls too.
//
// Matrices are column-major, as in Fortran: a row-major matrix is its own transpose here.
#pragma once

#include <type_traits>

namespace slabsvm::lapack {

// Find the routines; nothing happens after the first time. Call it with the GIL held, before any routine. Throws
// std::runtime_error where SciPy lacks one.
void load();

// Fortran takes everything by pointer: integers as int, and numbers in the type of the arrays, T.
template <class T, class Given>
auto converted(Given given) {
  if constexpr (std::is_pointer_v<Given> || std::is_same_v<Given, char>) return given;
  else return static_cast<std::conditional_t<std::is_integral_v<Given>, int, T>>(given);
}

template <class Value>
const Value* pointer_to(const Value& value) { return &value; }
template <class Value>
Value* pointer_to(Value* const& value) { return value; }

// A routine for arrays of float and for those of double. It is called with the arguments of its Fortran text, by value.
template <int arguments>
struct Routine {
  const char* name;
  void* of_floats = nullptr;
  void* of_doubles = nullptr;

  template <class... Given>
  void operator()(Given... given) const {
    constexpr bool floats = (std::is_convertible_v<Given, const float*> || ...);
    constexpr bool doubles = (std::is_convertible_v<Given, const double*> || ...);
    static_assert(sizeof...(Given) == arguments && floats != doubles);
    const auto call = [this](auto... values) {
      using Function = void (*)(decltype(pointer_to(values))...);
      reinterpret_cast<Function>(floats ? of_floats : of_doubles)(pointer_to(values)...);
    };
    call(converted<std::conditional_t<floats, float, double>>(given)...);
  }
};

inline Routine<13> gemm{"gemm"};
inline Routine<11> gemv{"gemv"};
inline Routine<10> symv{"symv"};
inline Routine<12> symm{"symm"};
inline Routine<10> syrk{"syrk"};
inline Routine<11> trsm{"trsm"};
inline Routine<11> trmm{"trmm"};
inline Routine<5> potrf{"potrf"};
inline Routine<8> potrs{"potrs"};
inline Routine<6> trtri{"trtri"};
inline Routine<5> lauum{"lauum"};
inline Routine<8> gesv{"gesv"};

// The lower triangle of (L L')^-1, in place of L, (n, n), lower triangular with no zero on its diagonal.
//
// potri does the same, and takes 1.1 to 2 times as long where there are 100 to 500 rows. This one halves the matrix, so
// that nearly all of the work is in products of large blocks.
template <class T>
void inverse_from_factor(T* L, int n, int ld);

}  // namespace slabsvm::lapack
