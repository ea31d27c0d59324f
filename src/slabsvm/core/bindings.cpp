// What Python sees of the core. Every argument is checked here, and the GIL is released while loops run.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <string>

#include "bindings.h"
#include "border.h"
#include "descent.h"
#include "kernels.h"
#include "lapack.h"
#include "loops.h"

namespace nb = nanobind;

namespace slabsvm {

void signals_seen() {
  const nb::gil_scoped_acquire held;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

namespace {

// BLAS counts in int.
constexpr Index MOST = std::numeric_limits<int>::max();

template <class T>
nb::tuple descend_in(nb::handle gram_given, nb::handle scores_given, nb::handle values_given,
                     nb::handle upper_bounds_given, nb::handle signs_given, double objective, const Stop& stop,
                     Index at_once) {
  const auto gram = checked<Matrix<const T>>(gram_given, "gram");
  const auto scores = checked<Vector<T>>(scores_given, "scores");
  const auto values = checked<Matrix<double>>(values_given, "values");
  const auto upper_bounds = checked<Matrix<const double>>(upper_bounds_given, "upper_bounds");
  const auto signs = checked<Vector<const T>>(signs_given, "signs");
  const Index planes = length(values), n = length(values, 1), padded = length(scores);
  require(planes == 1 || planes == 2, "values must have a row for each of one or two planes");
  require(n > 0, "values must have a column for each of one or more samples");
  require(length(upper_bounds) == planes && length(upper_bounds, 1) == n, "upper_bounds must have the shape of values");
  require(length(signs) == planes, "signs must have an entry for each row of values");
  require(length(gram) >= n, "gram must have a row for each column of values");
  require(length(gram, 1) == padded, "scores must have an entry for each column of gram");
  require(padded >= n, "scores must have an entry for each column of values");
  require(padded % LANES == 0, "the length of scores must be a multiple of LANES");
  const Block<T> block{gram.data(),   padded,        n,           padded,      static_cast<int>(planes),
                       scores.data(), values.data(), upper_bounds.data(), signs.data()};
  Descended found;
  {
    const nb::gil_scoped_release released;
    found = descend(block, objective, stop, signals_seen, at_once);
  }
  return nb::make_tuple(found.steps, found.lowest_curvature);
}

nb::tuple descend_any(nb::handle gram, nb::handle scores, nb::handle values, nb::handle upper_bounds, nb::handle signs,
                      double objective, double smallest, double tol, double share, double floor, Index max_steps,
                      Index at_once) {
  const auto descend_here = holds<float>(gram) ? descend_in<float> : descend_in<double>;
  return descend_here(gram, scores, values, upper_bounds, signs, objective, {smallest, tol, share, floor, max_steps},
                      at_once);
}

void exponentials_of(nb::handle values_given) {
  const auto values = checked<Vector<double>>(values_given, "values");
  const nb::gil_scoped_release released;
  loops().exponentials(values.data(), length(values));
}

void rbf_gram_of(nb::handle Z_given, nb::handle norms_given, nb::handle K_given) {
  const auto Z = checked<Matrix<const double>>(Z_given, "Z");
  const auto norms = checked<Vector<const double>>(norms_given, "norms");
  const auto K = checked<Matrix<double>>(K_given, "K");
  const Index m = length(Z);
  require(length(norms) == m, "norms must have an entry for each row of Z");
  require(length(K) == m, "K must have a row for each row of Z");
  require(length(K, 1) >= m, "K must have a column for each row of Z");
  require(std::max(length(Z, 1), length(K, 1)) <= MOST, "Z or K has more columns than BLAS can count");
  lapack::load();
  const nb::gil_scoped_release released;
  rbf_gram(Z.data(), m, length(Z, 1), norms.data(), K.data(), length(K, 1));
}

void kth_least_of(nb::handle values_given, Index k, nb::handle out_given) {
  const auto values = checked<Matrix<const double>>(values_given, "values");
  const auto out = checked<Vector<double>>(out_given, "out");
  require(length(out) == length(values), "out must have an entry for each row of values");
  require(k >= 1 && k <= length(values, 1), "k must be from 1 to the number of columns of values");
  const nb::gil_scoped_release released;
  kth_least(values.data(), length(values), length(values, 1), k, out.data());
}

template <class T, class Integer>
void additive_in(Additive kernel, nb::handle indptr_given, nb::handle indices_given, nb::handle data_given,
                 nb::handle right_given, nb::handle out_given) {
  const auto indptr = checked<Vector<const Integer>>(indptr_given, "indptr");
  const auto indices = checked<Vector<const Integer>>(indices_given, "indices");
  const auto data = checked<Vector<const T>>(data_given, "data");
  const auto right = checked<Matrix<const T>>(right_given, "right");
  const auto out = checked<StridedMatrix<T>>(out_given, "out");
  const Index n_left = length(out), n_right = length(out, 1), d = length(right);
  require(length(right, 1) == n_right, "out must have a column for each column of right");
  require(length(indptr) == n_left + 1, "indptr must have one entry more than out has rows");
  const Integer* const begins = indptr.data();
  const Integer* const columns = indices.data();
  const Index stored = begins[n_left];
  require(begins[0] >= 0 && std::is_sorted(begins, begins + n_left + 1), "indptr must not fall, nor begin below 0");
  require(stored <= length(indices) && stored <= length(data), "indptr must not end beyond indices and data");
  require(std::all_of(columns + begins[0], columns + stored, [d](Integer k) { return k >= 0 && k < d; }),
          "indices must be those of rows of right");
  const nb::gil_scoped_release released;
  additive_rows(kernel, SparseRows<T, Integer>{n_left, begins, columns, data.data()}, right.data(), n_right,
                Strided<T>{out.data(), out.stride(0), out.stride(1)});
}

template <Additive kernel>
void additive_any(nb::handle indptr, nb::handle indices, nb::handle data, nb::handle right, nb::handle out) {
  using Short = std::int32_t;
  const bool floats = holds<float>(data);
  const auto rows = holds<Short>(indptr) ? (floats ? additive_in<float, Short> : additive_in<double, Short>)
                                         : (floats ? additive_in<float, Index> : additive_in<double, Index>);
  rows(kernel, indptr, indices, data, right, out);
}

constexpr const char* DESCEND =
    R"(Reduce the dual problem's objective over n samples until the block's gap is small enough.

Small enough is the larger of tol times the objective as it then is, and a share of the gap at the start. Each step
moves a pair of samples of one plane, along the direction that is conjugate to the last one unless a bound cut that one
short.

Parameters
----------
gram : (n or more, padded) array of float32 or float64
    K of the block; padded is a multiple of LANES, and the padding holds zeros.
scores : (padded,) array of gram's dtype
    The block's scores, less any constant; updated in place. The padding holds zeros.
values, upper_bounds : (P, n) float64 arrays
    The multipliers of one or two planes, updated in place, and their upper bounds.
signs : (P,) array of gram's dtype
objective : float
    The dual problem's objective over all samples, at the start.
smallest : float
    The size that the objective is taken for when it is smaller still.
tol, share : float
    What to stop at, as above.
floor : float
    The least curvature that a step divides by.
max_steps : int
at_once : int
    The steps between two looks at signals such as Ctrl-C, times n. Where a descent is cut makes no difference.

Returns
-------
steps : int
    The steps taken.
lowest_curvature : float
    The least curvature of any pair met; clearly negative only if K is indefinite.
)";

constexpr const char* EXPONENTIALS = R"(Replace values, (n,) float64, none of them positive, by their exponentials.

They are exact to a few units of 1's rounding; what is less than exp(-700) is 0.
)";

constexpr const char* RBF_GRAM = R"(Write the RBF's K of rows: K_ij = exp(min(0, z_i'z_j - norms_i - norms_j)).

Z : (m, d) float64
    The rows, less their centre, times sqrt(2 gamma).
norms : (m,) float64
    Halves of the squared lengths of Z's rows.
K : (m, m or more) float64
    Out. The diagonal is of ones, and columns from m on are zeros.
)";

constexpr const char* INTERSECTION = R"(Write out[i, j] = sum_k min(x_ik, z_jk) for CSR rows x >= 0 and z >= 0.

indptr, indices, data : arrays of int32 or int64, and of float32 or float64
    The rows x.
right : (d, n_right) of data's dtype
    z'.
out : (n_left, n_right) of data's dtype
)";

constexpr const char* CHI2 = R"(Write out[i, j] = sum_k 2 x_ik z_jk / (x_ik + z_jk), where 0 / 0 is 0.

Arguments are those of intersection_rows.
)";

void bind(nb::module_& m) {
  using namespace nb::literals;
  m.doc() = "The compiled core: arrays and scalars in and out, and the GIL released.";
  m.attr("LANES") = LANES;
  m.def("descend", &descend_any, "gram"_a, "scores"_a, "values"_a, "upper_bounds"_a, "signs"_a, "objective"_a,
        "smallest"_a, "tol"_a, "share"_a, "floor"_a, "max_steps"_a, nb::kw_only(), "at_once"_a = STEPS_AT_ONCE,
        DESCEND);
  m.def("exponentials", &exponentials_of, "values"_a, EXPONENTIALS);
  m.def("rbf_gram", &rbf_gram_of, "Z"_a, "norms"_a, "K"_a, RBF_GRAM);
  m.def("intersection_rows", &additive_any<Additive::intersection>, "indptr"_a, "indices"_a, "data"_a, "right"_a,
        "out"_a, INTERSECTION);
  m.def("chi2_rows", &additive_any<Additive::chi2>, "indptr"_a, "indices"_a, "data"_a, "right"_a, "out"_a, CHI2);
  m.def("kth_least", &kth_least_of, "values"_a, "k"_a, "out"_a,
        "Write the k-th least of each row of values, (n, m), to out, (n,): arrays of float64.");
  m.def("instruction_sets", &available, "Return the instruction sets that this processor has, plainest first.");
  m.def("use_instructions", &use, "name"_a, "Use the loops of one instruction set; ValueError if there are none.");
  m.def("instructions", [] { return std::string(loops().name); }, "Return the instruction set whose loops are in use.");
  bind_fit(m);
}

}  // namespace

}  // namespace slabsvm

NB_MODULE(core, m) {
  slabsvm::choose();
  slabsvm::bind(m);
}
