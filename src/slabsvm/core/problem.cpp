#include "problem.h"

#include <algorithm>
#include <numeric>

#include "lapack.h"

namespace slabsvm {

namespace {

// Sums are right to within this share.
constexpr double ROUNDED_SUM = 1e-12;
// Merged planes part where multipliers sum to more than the lower plane has by this share.
constexpr double PARTS = 1e-10;

}  // namespace

void part(const Doubles& beta, States& states) {
  states.merged = false;
  for (Index j = 0; j < states.size(); ++j)
    if (is_free(states[j])) states[j] = beta[j] >= 0 ? 1 : -1;
}

Judgement judge(const Problem& problem, const Doubles& upper_bounds, const Point& at, const States& states,
                double slack, double beyond) {
  Judgement found{states, 0};
  const Index m = states.size();
  const bool merged = states.merged;
  const double low = at.rho[0], high = at.rho[1];
  double held = 0;
  bool any_between = false;
  for (Index j = 0; j < m; ++j) {
    const State state = states[j];
    const double beta = at.beta[j], s = at.scores[j], room = beyond * (upper_bounds[j] + upper_bounds[m + j]);
    State right = state;
    held += std::max(beta, 0.0);
    any_between = any_between || state == 0;
    if (is_free(state)) {
      const Box box = box_of(upper_bounds, states, j);
      right = beta > box.ceiling + room ? box.above : beta < box.floor - room ? box.below : state;
    } else if (state == 2 || state == -2) {
      const int sign = state / 2;
      if (sign * s > sign * (merged ? low : at.rho[state < 0]) + slack) right = merged ? 1 : sign;
    } else if (state == 0 && merged) {
      right = 1;
    } else if (state == 0) {
      const double below = low - s, above = s - high;
      if (below > slack && below >= above) right = 1;
      if (above > slack && above > below) right = -1;
    }
    found.states[j] = right;
    found.wrong += right != state;
  }
  if (problem.planes == 1) return found;
  // Where there is more than the lower plane has.
  if (merged && held > problem.totals[0] * (1.0 + std::max(PARTS, beyond))) part(at.beta, found.states);
  if (!merged && high < low - slack && !any_between) found.states.merged = true;
  found.wrong += found.states.merged != merged;
  return found;
}

void give_each_plane_one(const Problem& problem, const Doubles& upper_bounds, const Doubles& scores, States& states) {
  const Index m = states.size();
  const bool merged = states.merged;
  for (int plane = 0; plane < problem.planes; ++plane) {
    const State sign = sign_of(plane), at_bound = 2 * sign;
    bool has_one = false;
    double missing = problem.totals[plane];
    for (Index j = 0; j < m; ++j) {
      has_one = has_one || states[j] == sign || (merged && states[j] == -sign);
      if (states[j] == at_bound) missing -= upper_bounds[plane * m + j];
    }
    if (has_one) continue;
    // One that has no multiplier takes what is missing; of too much, one at its upper bound gives.
    const bool takes = merged || missing > -1e-12 * problem.totals[plane];
    const State wanted = takes ? 0 : at_bound;
    const double upwards = takes ? sign : -sign;
    Index next = -1;
    for (Index j = 0; j < m; ++j) {
      const bool may = states[j] == wanted || (merged && (states[j] == 2 || states[j] == -2));
      if (may && (next < 0 || upwards * scores[j] < upwards * scores[next])) next = j;
    }
    if (next >= 0) states[next] = sign;
  }
}

Doubles multipliers_of(const Problem& problem, const Doubles& beta) {
  const Index m = problem.m;
  const Doubles& upper_bounds = problem.upper_bounds;
  Doubles values(problem.planes * m);
  const auto room = [&](Index j) { return std::min(upper_bounds[j] - values[j], upper_bounds[m + j] - values[m + j]); };
  double missing = problem.totals[0], spare = 0;
  for (Index j = 0; j < m; ++j) {
    for (int p = 0; p < problem.planes; ++p)
      values[p * m + j] = std::clamp(sign_of(p) * beta[j], 0.0, upper_bounds[p * m + j]);
    missing -= values[j];
    if (problem.planes == 2) spare += room(j);
  }
  if (problem.planes == 2 && missing > ROUNDED_SUM * problem.totals[0]) {
    if (missing > spare) return {};
    for (Index j = 0; j < m; ++j) {
      const double shared = room(j) * (missing / spare);
      values[j] += shared;
      values[m + j] += shared;
    }
  }
  correct_sums(problem, values);
  return values;
}

void correct_sums(const Problem& problem, Doubles& multipliers) {
  const Index m = problem.m;
  for (int plane = 0; plane < problem.planes; ++plane) {
    double* values = multipliers.data() + plane * m;
    const double* upper_bounds = problem.upper_bounds.data() + plane * m;
    for (int round = 0; round < 2; ++round) {
      double missing = problem.totals[plane], inside = 0, any = 0;
      for (Index j = 0; j < m; ++j) missing -= values[j];
      const auto inner = [&](Index j) { return std::min(values[j], upper_bounds[j] - values[j]); };
      const auto room = [&](Index j) { return missing > 0 ? upper_bounds[j] - values[j] : values[j]; };
      for (Index j = 0; j < m; ++j) inside += inner(j), any += room(j);
      const bool stays = inside > std::abs(missing);
      const double rooms = stays ? inside : any;
      if (missing == 0 || rooms == 0) break;
      for (Index j = 0; j < m; ++j)
        values[j] = std::clamp(values[j] + missing * ((stays ? inner(j) : room(j)) / rooms), 0.0, upper_bounds[j]);
    }
  }
}

std::vector<Index> lowest_first(const Doubles& scores, int plane) {
  std::vector<Index> order(scores.size());
  std::iota(order.begin(), order.end(), Index{0});
  const double sign = sign_of(plane);
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return sign * scores[a] < sign * scores[b]; });
  return order;
}

Doubles linear_minimiser(const Problem& problem, const Doubles& scores) {
  const Index m = problem.m;
  Doubles values(problem.planes * m, 0.0);
  for (int plane = 0; plane < problem.planes; ++plane) {
    double left = problem.totals[plane];
    for (Index j : lowest_first(scores, plane)) {
      values[plane * m + j] = std::min(left, problem.upper_bounds[plane * m + j]);
      left -= values[plane * m + j];
      if (left <= 0) break;
    }
  }
  return values;
}

Doubles beta_of(const Problem& problem, const Doubles& multipliers) {
  Doubles beta(multipliers.begin(), multipliers.begin() + problem.m);
  if (problem.planes == 2)
    for (Index j = 0; j < problem.m; ++j) beta[j] -= multipliers[problem.m + j];
  return beta;
}

Doubles scores_of(const Problem& problem, const Doubles& beta) {
  Doubles scores(problem.linear, problem.linear + problem.m);
  if (!problem.exactly) {
    lapack::symv('L', problem.m, 1.0, problem.K, problem.stride, beta.data(), 1, 1.0, scores.data(), 1);
    return scores;
  }
  for (Index i = 0; i < problem.m; ++i) {
    const double* row = problem.K + i * problem.stride;
    long double sum = scores[i];
    for (Index j = 0; j < problem.m; ++j) sum += static_cast<long double>(row[j]) * beta[j];
    scores[i] = static_cast<double>(sum);
  }
  return scores;
}

}  // namespace slabsvm
