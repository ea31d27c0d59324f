// Arrays from Python, checked where they come in: behind this border no size and no index is looked at again.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "loops.h"

namespace slabsvm {

namespace nb = nanobind;

// Arrays of const T may be read-only, others may not.
template <class T>
using Vector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using StridedMatrix = nb::ndarray<T, nb::ndim<2>, nb::device::cpu>;

// Throw a ValueError unless something holds.
inline void require(bool holds, const char* text) {
  if (!holds) {
    throw nb::value_error(text);
  }
}

template <class T>
std::string type_name() {
  using Plain = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Plain, bool>) return "bool";
  return (std::is_integral_v<Plain> ? "int" : "float") + std::to_string(8 * sizeof(Plain));
}

// Whether an argument is an array of T, of whatever shape.
template <class T>
bool holds(nb::handle given) {
  nb::ndarray<nb::ro, nb::device::cpu> any;
  return nb::try_cast(given, any, false) && any.dtype() == nb::dtype<std::remove_const_t<T>>();
}

// Return an argument as a Vector, Matrix or StridedMatrix. TypeError where it is no array of that type, ValueError
// where it has another shape or layout. Nothing is converted: what is written to a copy would be lost.
template <class Array>
Array checked(nb::handle given, const char* name) {
  using T = typename Array::Scalar;
  const std::string subject = name;
  Array array;
  if (nb::try_cast(given, array, false)) {
    if (reinterpret_cast<std::uintptr_t>(array.data()) % alignof(T) != 0) {
      throw nb::value_error((subject + " must be aligned in memory").c_str());
    }
    return array;
  }
  if (!holds<T>(given)) {
    throw nb::type_error((subject + " must be an array of " + type_name<T>()).c_str());
  }
  const std::string layout = std::is_same_v<Array, StridedMatrix<T>> ? "" : "C-contiguous, ";
  const std::string access = std::is_const_v<T> ? "" : "writable, ";
  const std::string axes = std::is_same_v<Array, Vector<T>> ? "one axis" : "two axes";
  throw nb::value_error((subject + " must be " + layout + access + "and have " + axes).c_str());
}

template <class Array>
Index length(const Array& array, int axis = 0) {
  return static_cast<Index>(array.shape(axis));
}

}  // namespace slabsvm
