// `fit` for Python: what it takes is checked here, and nothing behind it.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>

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

nb::object array_of(Doubles&& values, std::size_t rows = 0) {
  auto owned = std::make_unique<Doubles>(std::move(values));
  Doubles* kept = owned.get();
  nb::capsule owner(kept, [](void* memory) noexcept { delete static_cast<Doubles*>(memory); });
  owned.release();
  if (rows == 0) return nb::cast(nb::ndarray<nb::numpy, double, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
  return nb::cast(nb::ndarray<nb::numpy, double, nb::ndim<2>>(kept->data(), {rows, kept->size() / rows}, owner));
}

// Groups: where each begins among the samples, whose scores are asked for, and which of these leave.
Sets sets_of(nb::handle begins_given, nb::handle samples_given, nb::handle leaves_given, Index m) {
  const auto begins = checked<Vector<const std::int64_t>>(begins_given, "begins");
  const auto samples = checked<Vector<const std::int64_t>>(samples_given, "samples");
  const auto leaves = checked<Vector<const bool>>(leaves_given, "leaves");
  require(length(begins) >= 1, "begins must hold where each group begins, and where the last one ends");
  require(length(leaves) == length(samples), "leaves must be as long as samples");
  Sets sets;
  sets.begins.assign(begins.data(), begins.data() + begins.size());
  require(sets.begins.front() == 0 && sets.begins.back() == length(samples),
          "begins must go from 0 to the number of samples");
  require(std::is_sorted(sets.begins.begin(), sets.begins.end()), "begins must not fall");
  for (Index k = 0; k < length(samples); ++k) {
    require(samples.data()[k] >= 0 && samples.data()[k] < m, "a sample's number must be less than that of samples");
    sets.samples.push_back(samples.data()[k]);
    sets.leaves.push_back(leaves.data()[k]);
  }
  return sets;
}

nb::tuple fit_program(nb::handle K_given, nb::handle caps_given, nb::handle totals_given, nb::handle linear_given,
                      double tol, double smallest, double floor, std::int64_t max_steps, double most_work, bool optimum,
                      nb::handle stays_given, nb::handle groups_given) {
  const auto K = checked<Matrix<const double>>(K_given, "K");
  const auto caps = checked<Matrix<const double>>(caps_given, "caps");
  const auto totals = checked<Vector<const double>>(totals_given, "totals");
  const auto linear = checked<Vector<const double>>(linear_given, "linear");
  const Index m = length(K), stride = length(K, 1), planes = length(caps);
  require(m >= 1 && m <= MOST_SAMPLES, "K must have 1 to 10,000 rows");
  require(stride >= m && stride < m + LANES && stride % LANES == 0,
          "rows of K must be padded to the next multiple of LANES");
  require((planes == 1 || planes == 2) && length(caps, 1) == m, "caps must be (P, m), with P of 1 or 2");
  require(length(totals) == planes, "totals must be (P,)");
  require(length(linear) == m, "linear must be (m,)");
  require(stays_given.is_none() || groups_given.is_none(), "give stays or groups, and not both");
  for (const double number : {tol, smallest, floor, most_work})
    require(std::isfinite(number) && number >= 0, "limits must be finite, and not negative");
  for (Index p = 0; p < planes; ++p) {
    double room = 0;
    for (Index j = 0; j < m; ++j) {
      const double cap = caps.data()[p * m + j];
      require(std::isfinite(cap) && cap >= 0, "caps must be finite, and not negative");
      room += cap;
    }
    require(totals.data()[p] > 0 && totals.data()[p] <= room * (1.0 + 1e-9), "caps must leave room for the totals");
  }
  const Doubles none(m, 0.0);
  Problem problem{K.data(), m, stride, planes == 2,
                  {caps.data(), planes == 2 ? caps.data() + m : none.data()},
                  {totals.data()[0], planes == 2 ? totals.data()[1] : 0.0}, linear.data(), 0.0, {}};
  Wanted wanted{tol, smallest, floor, max_steps, std::min(most_work, MOST_WORK), optimum, false, {}, {}};
  if (!stays_given.is_none()) {
    const auto stays = checked<Vector<const double>>(stays_given, "stays");
    require(length(stays) == m, "stays must be (m,)");
    for (Index j = 0; j < m; ++j)
      require(stays.data()[j] >= 0 && stays.data()[j] <= 1, "stays must be shares from 0 to 1");
    wanted.left_out = true;
    wanted.stays.assign(stays.data(), stays.data() + m);
  }
  if (!groups_given.is_none()) {
    if (!nb::isinstance<nb::tuple>(groups_given))
      throw nb::type_error("groups must be a tuple of begins, samples and leaves");
    const auto groups = nb::borrow<nb::tuple>(groups_given);
    require(nb::len(groups) == 3, "groups must be begins, samples and leaves");
    wanted.left_out = true;
    wanted.groups = sets_of(groups[0], groups[1], groups[2], m);
  }
  lapack::load();
  Fit found;
  {
    nb::gil_scoped_release released;
    found = fit(std::move(problem), wanted, now_and_then);
  }
  if (!found.optimal) found.left_out.certificate = std::numeric_limits<double>::quiet_NaN();
  nb::dict counts;
  counts["factors"] = found.factors;
  counts["merged"] = found.merged;
  counts["at_once"] = found.left_out.at_once;
  counts["handed_on"] = found.left_out.handed_on;
  counts["stepwise"] = found.left_out.stepwise;
  counts["again"] = found.left_out.again;
  counts["refitted"] = found.left_out.refitted;
  counts["refit_steps"] = found.refit_steps;
  return nb::make_tuple(array_of(std::move(found.multipliers), planes), array_of(std::move(found.scores)), found.steps,
                        found.lowest_curvature, found.optimal, array_of(std::move(found.left_out.scores)),
                        found.left_out.certificate, counts);
}

constexpr const char* FIT = R"(Solve a Dual of up to some thousand samples, and leave rows or groups out of it.

Parameters
----------
K : (m, padded) array of float64
    K, symmetric; padded is a multiple of LANES, and the padding holds zeros.
caps, totals, linear : (P, m), (P,) and (m,) arrays of float64
    As of `slabsvm.dual.program.Dual`, with signs of +1, or of +1 and -1.
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
  module.def("fit", &fit_program, nb::arg("K"), nb::arg("caps"), nb::arg("totals"), nb::arg("linear"), nb::kw_only(),
             nb::arg("tol"), nb::arg("smallest"), nb::arg("floor"), nb::arg("max_steps") = -1,
             nb::arg("most_work") = 1e9, nb::arg("optimum") = true, nb::arg("stays") = nb::none(),
             nb::arg("groups") = nb::none(),
FIT);
}

}  // namespace slabsvm
