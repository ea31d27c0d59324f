#include "optimum.h"

#include <algorithm>
#include <limits>

#include "lapack.h"

namespace slabsvm {

namespace {

// After so many solves that leave no fewer states wrong than before, states go in circles.
constexpr int PATIENCE = 4;
// What rounding has left is solved for so often at most, and as long as a solve leaves less than SLOWER of it. Free
// samples then lie on their plane to within RESIDUAL of the offsets, and sums are right to within SUMS.
constexpr int REFINEMENTS = 8;
constexpr double SLOWER = 0.5, RESIDUAL = 4e-15, SUMS = 1e-14;
// Samples are on the wrong side of a plane by more than this share of the offsets, and so many roundings of scores.
constexpr double TOLERANCE = 1e-13, ROUNDING_UNITS = 1, EXACT_UNITS = 0.02;
// So often the term that is added is measured from anew.
constexpr int MOST_CENTRES = 40;
// Scores are then off by no more than this share of the offsets; after so many, by as much as the gap allows.
constexpr double CENTRED = 1e-14;
constexpr int FEW_CENTRES = 4;

// Factor K_FF + delta and prepare solves with it; return whether it is positive definite.
template <class T>
bool factor(const Problem& problem, const States& states, FreeSet<T>& free_set) {
  std::vector<Index> free;
  std::vector<int> planes_of;
  const int planes = states.merged ? 1 : problem.planes;
  double mean = 0;
  for (Index j = 0; j < problem.m; ++j)
    if (is_free(states[j])) {
      free.push_back(j);
      planes_of.push_back(planes == 2 && states[j] < 0);
      mean += problem.diagonal(j);
    }
  const Index f = static_cast<Index>(free.size());
  if (f == 0) return false;
  mean /= static_cast<double>(f);
  if (free != free_set.free || planes_of != free_set.planes_of || planes != free_set.planes) {
    free_set.free = std::move(free);
    free_set.planes_of = std::move(planes_of);
    free_set.planes = planes;
    free_set.lift = sizeof(T) == 8 ? mean : 0.0;
    free_set.factor.resize(f * f);
    for (Index a = 0; a < f; ++a) {
      const double* row = problem.K + free_set.free[a] * problem.stride;
      T* column = free_set.factor.data() + a * f;
      for (Index b = a; b < f; ++b)
        column[b] = static_cast<T>(row[free_set.free[b]] +
                                   (free_set.planes_of[a] == free_set.planes_of[b] ? free_set.lift : 0.0));
      column[a] += static_cast<T>(problem.delta);
    }
    int failed;
    lapack::potrf('L', f, free_set.factor.data(), f, &failed);
    if (failed) {
      free_set.free.clear();
      return false;
    }
    free_set.least_pivot = std::numeric_limits<double>::max();
    for (Index a = 0; a < f; ++a) {
      const double pivot = free_set.factor[a * f + a];
      free_set.least_pivot = std::min(free_set.least_pivot, pivot * pivot);
    }
    free_set.least_pivot /= mean;
  }
  std::vector<T> border(planes * f);
  for (Index a = 0; a < f; ++a) border[free_set.planes_of[a] * f + a] = 1;
  int info;  // of a factor that is there, always 0
  lapack::potrs('L', f, planes, free_set.factor.data(), f, border.data(), f, &info);
  free_set.h.assign(border.begin(), border.end());
  std::fill(free_set.S, free_set.S + 4, 0.0);
  for (int p = 0; p < planes; ++p)
    for (Index a = 0; a < f; ++a) free_set.S[free_set.planes_of[a] * planes + p] += free_set.h[p * f + a];
  return true;
}

// Put beta of the free samples and rho at the solution for some states, from where they are; return whether there is
// one.
template <class T>
bool solve_on(const Problem& problem, const States& states, Optimum<T>& found) {
  if (!factor(problem, states, found.free_set)) return false;
  const FreeSet<T>& free_set = found.free_set;
  const Index f = free_set.size();
  Point& at = found.at;
  for (Index j = 0; j < problem.m; ++j)
    if (!is_free(states[j])) at.beta[j] = bound(problem.upper_bounds, states[j], j);
  double rho[2] = {at.rho[0], at.rho[1]};
  const auto distance = [&](Index a) { return rho[free_set.planes_of[a]] - at.scores[free_set.free[a]]; };
  std::vector<T> right(f);
  double before = std::numeric_limits<double>::max();
  for (int round = 0;; ++round) {
    at.scores = scores_of(problem, at.beta);
    for (Index j = 0; j < problem.m; ++j) at.scores[j] += problem.delta * (at.beta[j] - problem.near[j]);
    double missing[2] = {problem.totals[0], -problem.totals[1]};
    if (free_set.planes == 1) missing[0] -= problem.totals[1];
    for (Index j = 0; j < problem.m; ++j) missing[free_set.planes == 2 && states[j] < 0] -= at.beta[j];
    const double lack = std::abs(missing[0]) + (free_set.planes == 2 ? std::abs(missing[1]) : 0.0);
    double largest = 0;
    for (Index a = 0; a < f; ++a) largest = std::max(largest, std::abs(distance(a)));
    const double scale = std::max(std::abs(rho[0]), std::abs(rho[1]));
    const bool right_sums = lack <= SUMS * (problem.totals[0] + problem.totals[1]);
    if (right_sums && (largest <= RESIDUAL * scale || largest >= SLOWER * before)) break;
    if (round == REFINEMENTS) break;
    before = right_sums ? largest : before;
    const double unit = largest > 0 ? largest : 1.0;
    for (Index a = 0; a < f; ++a) right[a] = static_cast<T>(distance(a) / unit);
    int info;
    lapack::potrs('L', f, 1, free_set.factor.data(), f, right.data(), f, &info);
    double step[2] = {missing[0], missing[1]};
    for (Index a = 0; a < f; ++a) step[free_set.planes_of[a]] -= unit * double(right[a]);
    if (!solve_small(free_set.S, free_set.planes, step)) return false;
    for (Index a = 0; a < f; ++a) {
      double change = unit * double(right[a]);
      for (int p = 0; p < free_set.planes; ++p) change += step[p] * free_set.h[p * f + a];
      at.beta[free_set.free[a]] += change;
    }
    for (int p = 0; p < free_set.planes; ++p) rho[p] += step[p] - free_set.lift * missing[p];
    if (free_set.planes == 1) rho[1] = rho[0];
  }
  at.rho[0] = rho[0], at.rho[1] = rho[1];
  return std::isfinite(rho[0]) && std::isfinite(rho[1]);
}

}  // namespace

bool solve_small(const double* C, int c, double* x) {
  const double determinant = c == 1 ? C[0] : C[0] * C[3] - C[1] * C[2];
  if (!(std::abs(determinant) > 0)) return false;
  const double first = (c == 1 ? x[0] : C[3] * x[0] - C[1] * x[1]) / determinant;
  if (c == 2) x[1] = (C[0] * x[1] - C[2] * x[0]) / determinant;
  x[0] = first;
  return true;
}

template <class T>
bool find_optimum(Problem& problem, States states, int most, Optimum<T>& found, const Interrupt& interrupt) {
  const Index m = problem.m;
  Point& at = found.at;
  at.beta = problem.near;
  at.rho[0] = at.rho[1] = 0;
  at.scores.resize(m);
  found.free_set.free.clear();  // delta may be another
  double largest = 0;
  for (Index j = 0; j < m; ++j) largest = std::max(largest, std::abs(problem.diagonal(j)));
  // Where there is no longer type than double, sums are no more exact.
  constexpr bool longer = std::numeric_limits<long double>::digits > std::numeric_limits<double>::digits;
  const double units = problem.exactly && longer ? EXACT_UNITS : ROUNDING_UNITS;
  const double noise = units * std::numeric_limits<double>::epsilon() * largest *
                       (problem.totals[0] + problem.totals[1]);
  Index fewest = m + 2;
  int patience = PATIENCE, centres = 0;
  for (found.factors = 1; found.factors <= most; ++found.factors) {
    interrupt();
    give_each_plane_one(problem, problem.upper_bounds, at.scores, states);
    const bool solved = solve_on(problem, states, found);
    const double f = double(found.free_set.size());
    found.work += f * f * f / 3.0 + 4.0 * double(m) * double(m);
    if (!solved) return false;
    // Boxes hold to the last bit, and planes to within rounding: what meets its box stays there.
    const double slack = std::max(problem.exactly ? 0.0 : TOLERANCE * at.scale(), noise);
    Judgement right = judge(problem, problem.upper_bounds, at, states, slack, 0.0);
    if (right.wrong == 0) {
      found.states = states;
      double off = 0;
      for (Index j = 0; j < m; ++j) off = std::max(off, problem.delta * std::abs(at.beta[j] - problem.near[j]));
      const double tight = std::max(CENTRED * at.scale(), noise);
      if (off <= tight || (off <= problem.centred && centres >= FEW_CENTRES)) return true;
      if (centres == MOST_CENTRES) return false;
      // Measured from here, the term that is added moves less. The factor stays.
      problem.near = at.beta;
      ++centres;
      fewest = m + 2;
      continue;
    }
    patience = right.wrong < fewest ? PATIENCE : patience - 1;
    fewest = std::min(fewest, right.wrong);
    if (patience < 0) return false;
    states = std::move(right.states);
  }
  return false;
}

template bool find_optimum<float>(Problem&, States, int, Optimum<float>&, const Interrupt&);
template bool find_optimum<double>(Problem&, States, int, Optimum<double>&, const Interrupt&);

}  // namespace slabsvm
