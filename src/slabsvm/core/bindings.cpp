// What Python sees of the core. Every argument is checked here, and the GIL is released while loops run.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <numeric>
#include <string>

#include "border.h"
#include "fit.h"
#include "kernels.h"
#include "lapack.h"

namespace nb = nanobind;

namespace slabsvm {

namespace {

// Throw what a signal's handler raised, such as KeyboardInterrupt; called without the GIL.
void signals_seen() {
  const nb::gil_scoped_acquire held;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

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

// Factors address their numbers with 32 bits: (10,000)^2 fits.
constexpr Index MOST_SAMPLES = 10000;
// More steps than any descent takes.
constexpr double MOST_WORK = 1e15;

// Look at signals, no more often than 20 times a second: to hold the GIL is to wait for other threads.
void now_and_then() {
  using Clock = std::chrono::steady_clock;
  thread_local Clock::time_point last = Clock::now();
  if (Clock::now() - last < std::chrono::milliseconds(50)) return;
  last = Clock::now();
  signals_seen();
}

// An array that owns its memory: one row, or so many.
nb::object array_of(Doubles&& values, std::size_t rows = 0) {
  auto owned = std::make_unique<Doubles>(std::move(values));
  nb::capsule owner(owned.get(), [](void* memory) noexcept { delete static_cast<Doubles*>(memory); });
  Doubles& kept = *owned.release();
  if (rows == 0) return nb::cast(nb::ndarray<nb::numpy, double>(kept.data(), {kept.size()}, owner));
  return nb::cast(nb::ndarray<nb::numpy, double>(kept.data(), {rows, kept.size() / rows}, owner));
}

// Whether numbers are from 0 to some most.
bool are_within(const double* numbers, Index n, double most = std::numeric_limits<double>::max()) {
  return std::all_of(numbers, numbers + n, [most](double number) { return number >= 0 && number <= most; });
}

// Each of m samples by itself.
Sets singles(Index m) {
  Sets sets{std::vector<Index>(m + 1), {}, std::vector<char>(m, 1), {}};
  std::iota(sets.begins.begin(), sets.begins.end(), Index{0});
  sets.samples.assign(sets.begins.begin(), sets.begins.end() - 1);
  return sets;
}

// Groups: where each begins among the samples, whose scores are asked for, and which of these leave.
Sets sets_of(nb::handle given, Index m) {
  if (!nb::isinstance<nb::tuple>(given)) throw nb::type_error("groups must be a tuple of begins, samples and leaves");
  const auto groups = nb::borrow<nb::tuple>(given);
  require(nb::len(groups) == 3, "groups must be begins, samples and leaves");
  const auto begins = checked<Vector<const Index>>(groups[0], "begins");
  const auto samples = checked<Vector<const Index>>(groups[1], "samples");
  const auto leaves = checked<Vector<const bool>>(groups[2], "leaves");
  require(length(begins) >= 1, "begins must hold where each group begins, and where the last one ends");
  require(length(leaves) == length(samples), "leaves must be as long as samples");
  const auto copied = [](const auto& array) { return std::vector(array.data(), array.data() + array.size()); };
  Sets sets{copied(begins), copied(samples), {leaves.data(), leaves.data() + leaves.size()}, {}};
  require(sets.begins.front() == 0 && sets.begins.back() == length(samples),
          "begins must go from 0 to the number of samples");
  require(std::is_sorted(sets.begins.begin(), sets.begins.end()), "begins must not fall");
  for (Index sample : sets.samples)
    require(sample >= 0 && sample < m, "samples must hold numbers from 0 to m - 1");
  return sets;
}

// Solve a dual problem, and leave samples (stays) or groups out of it: as `Wanted` says. Returned are the multipliers
// (P, m) and scores (m,), the steps, the lowest curvature, whether the optimum was found, the left-out scores, their
// certificate, and how many sets went which way (fit.h and left_out.h).
nb::tuple fit_program(nb::handle K_given, nb::handle upper_bounds_given, nb::handle totals_given,
                      nb::handle linear_given, double tol, double smallest, double floor, Index max_steps,
                      double most_work, bool optimum, nb::handle stays_given, nb::handle groups_given) {
  const auto K = checked<Matrix<const double>>(K_given, "K");
  const auto upper_bounds = checked<Matrix<const double>>(upper_bounds_given, "upper_bounds");
  const auto totals = checked<Vector<const double>>(totals_given, "totals");
  const auto linear = checked<Vector<const double>>(linear_given, "linear");
  const Index m = length(K), stride = length(K, 1), planes = length(upper_bounds);
  require(m >= 1 && m <= MOST_SAMPLES, "K must have 1 to 10,000 rows");
  require(stride >= m && stride < m + LANES && stride % LANES == 0,
          "rows of K must be padded to the next multiple of LANES");
  require((planes == 1 || planes == 2) && length(upper_bounds, 1) == m,
          "upper_bounds must be (P, m), with P of 1 or 2");
  require(length(totals) == planes, "totals must be (P,)");
  require(length(linear) == m, "linear must be (m,)");
  require(stays_given.is_none() || groups_given.is_none(), "give stays or groups, and not both");
  const double limits[] = {tol, smallest, floor, most_work};
  require(are_within(limits, 4), "tol, smallest, floor and most_work must be finite, and not negative");
  require(are_within(upper_bounds.data(), planes * m), "upper_bounds must be finite, and not negative");
  Problem problem{K.data(), m, stride, static_cast<int>(planes), Doubles(2 * m, 0.0), {0, 0}, linear.data()};
  std::copy(upper_bounds.data(), upper_bounds.data() + planes * m, problem.upper_bounds.begin());
  for (Index p = 0; p < planes; ++p) {
    const double room = std::accumulate(upper_bounds.data() + p * m, upper_bounds.data() + (p + 1) * m, 0.0);
    const double total = problem.totals[p] = totals.data()[p];
    require(total > 0 && total <= room * (1.0 + 1e-9), "upper_bounds must leave room for the totals");
  }
  Wanted wanted{tol, smallest, floor, max_steps, std::min(most_work, MOST_WORK), optimum};
  if (!stays_given.is_none()) {
    const auto stays = checked<Vector<const double>>(stays_given, "stays");
    require(length(stays) == m, "stays must be (m,)");
    require(are_within(stays.data(), m, 1.0), "stays must be shares from 0 to 1");
    wanted.stays.assign(stays.data(), stays.data() + m);
    wanted.sets = singles(m);
  }
  if (!groups_given.is_none()) wanted.sets = sets_of(groups_given, m);
  lapack::load();
  Fit found;
  {
    nb::gil_scoped_release released;
    found = fit(std::move(problem), wanted, now_and_then);
  }
  LeftOut& without = found.left_out;
  if (!found.optimal) without.certificate = std::numeric_limits<double>::quiet_NaN();
  nb::dict counts;
  counts["factors"] = found.factors;
  counts["merged"] = found.merged;
  counts["at_once"] = without.at_once;
  counts["handed_on"] = without.handed_on;
  counts["stepwise"] = without.stepwise;
  counts["again"] = without.again;
  counts["refitted"] = without.refitted;
  counts["refit_steps"] = found.refit_steps;
  return nb::make_tuple(array_of(std::move(found.multipliers), planes), array_of(std::move(found.scores)), found.steps,
                        found.lowest_curvature, found.optimal, array_of(std::move(without.scores)),
                        without.certificate, counts);
}

void bind(nb::module_& m) {
  using namespace nb::literals;
  m.doc() = "The compiled core: arrays and scalars in and out, and the GIL released.";
  m.attr("LANES") = LANES;
  m.def("descend", &descend_any, "gram"_a, "scores"_a, "values"_a, "upper_bounds"_a, "signs"_a, "objective"_a,
        "smallest"_a, "tol"_a, "share"_a, "floor"_a, "max_steps"_a, nb::kw_only(), "at_once"_a = STEPS_AT_ONCE,
        "Descend on a block, in place, as descent.h says; return the steps and the lowest curvature.");
  m.def("fit", &fit_program, "K"_a, "upper_bounds"_a, "totals"_a, "linear"_a, nb::kw_only(), "tol"_a, "smallest"_a,
        "floor"_a, "max_steps"_a = -1, "most_work"_a = 1e9, "optimum"_a = true, "stays"_a = nb::none(),
        "groups"_a = nb::none(), "Solve a dual problem, and leave samples or groups out of it, as fit.h says.");
  m.def("exponentials", &exponentials_of, "values"_a, "Replace values, none of them positive, by exponentials.");
  m.def("rbf_gram", &rbf_gram_of, "Z"_a, "norms"_a, "K"_a, "Write the RBF's K of rows, as kernels.h says.");
  m.def("intersection_rows", &additive_any<Additive::intersection>, "indptr"_a, "indices"_a, "data"_a, "right"_a,
        "out"_a, "Write the intersection kernel of CSR rows and right, as kernels.h says.");
  m.def("chi2_rows", &additive_any<Additive::chi2>, "indptr"_a, "indices"_a, "data"_a, "right"_a, "out"_a,
        "Write the chi2 kernel of CSR rows and right, as kernels.h says.");
  m.def("kth_least", &kth_least_of, "values"_a, "k"_a, "out"_a,
        "Write the k-th least of each row of values, (n, m), to out, (n,): arrays of float64.");
  m.def("instruction_sets", &available, "Return the instruction sets that this processor has, plainest first.");
  m.def("use_instructions", &use, "name"_a, "Use the loops of one instruction set; ValueError if there are none.");
  m.def("instructions", [] { return std::string(loops().name); }, "Return the instruction set whose loops are in use.");
}

}  // namespace

}  // namespace slabsvm

NB_MODULE(core, m) {
  slabsvm::choose();
  slabsvm::bind(m);
}
