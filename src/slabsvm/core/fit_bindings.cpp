// `fit` for Python: what it takes is checked here, and nothing behind it.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <numeric>

#include "bindings.h"
#include "border.h"
#include "fit.h"
#include "lapack.h"
#include "loops.h"

namespace nb = nanobind;

namespace slabsvm {

namespace {

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

constexpr const char* FIT = R"(Solve a dual problem of up to 10,000 samples, and leave rows or groups out of it.

Parameters
----------
K : (m, padded) array of float64
    K, symmetric; padded is a multiple of LANES, and the padding holds zeros.
upper_bounds, totals, linear : (P, m), (P,) and (m,) arrays of float64
    As of `slabsvm.svm.program.DualProblem`, with signs of +1, or of +1 and -1.
tol, smallest, floor, max_steps
    As of `descend`; -1 for no limit but most_work.
most_work : float
    Steps times samples at most.
optimum : bool
    Whether to go to the optimum itself, where there is no limit of steps.
stays : (m,) array or None
    The share of each sample that stays where one row of it leaves: then scores without each are asked for.
groups : (begins, samples, leaves) or None
    Where each group begins among the samples whose scores are asked for, and which of these leave.

Returns
-------
multipliers, scores : (P, m) and (m,) arrays
steps, lowest_curvature : int, float
    As of `descend`.
optimal : bool
    Whether the multipliers are those of the optimum itself.
left_out : array
    The scores of each sample without a row of it, (m,), or of the groups' samples.
certificate : float
    By how much K times the changes of multipliers may be off the changes of scores, relative to the offsets.
counts : dict
    Factors, and how many sets went which way.
)";

}  // namespace

void bind_fit(nb::module_& module) {
  using namespace nb::literals;
  module.def("fit", &fit_program, "K"_a, "upper_bounds"_a, "totals"_a, "linear"_a, nb::kw_only(), "tol"_a, "smallest"_a,
             "floor"_a, "max_steps"_a = -1, "most_work"_a = 1e9, "optimum"_a = true, "stays"_a = nb::none(),
             "groups"_a = nb::none(), FIT);
}

}  // namespace slabsvm
