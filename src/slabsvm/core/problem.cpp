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

Judgement judge(const Problem& problem, const double* cap1, const double* cap2, const View& at, const States& states,
                bool merged, double slack, double beyond) {
  Judgement found{states, merged, 0};
  const Index m = static_cast<Index>(states.size());
  const double low = at.rho[0], high = at.rho[1];
  double above = 0;
  bool any_between = false;
  for (Index j = 0; j < m; ++j) {
    const State state = states[j];
    const double beta = at.beta[j], s = at.scores[j], room = beyond * (cap1[j] + cap2[j]);
    State right = state;
    above += std::max(beta, 0.0);
    any_between = any_between || state == 0;
    if (merged) {
      if (is_free(state)) right = beta > cap1[j] + room ? 2 : beta < -cap2[j] - room ? -2 : state;
      if (state == 0 || (state == 2 && s > low + slack) || (state == -2 && s < low - slack)) right = 1;
    } else {
      if (state == 1) right = beta > cap1[j] + room ? 2 : beta < -room ? 0 : state;
      if (state == -1) right = beta < -cap2[j] - room ? -2 : beta > room ? 0 : state;
      if (state == 2 && s > low + slack) right = 1;
      if (state == -2 && s < high - slack) right = -1;
      if (state == 0) {
        const double below = low - s, above_upper = s - high;
        if (below > slack && below >= above_upper) right = 1;
        if (above_upper > slack && above_upper > below) right = -1;
      }
    }
    found.states[j] = right;
    found.wrong += right != state;
  }
  if (!problem.two) return found;
  if (merged && above > problem.totals[0] * (1.0 + std::max(PARTS, beyond))) {
    // More than the lower plane has: planes part.
    found.merged = false;
    for (Index j = 0; j < m; ++j)
      if (is_free(found.states[j])) found.states[j] = at.beta[j] >= 0 ? 1 : -1;
  }
  if (!merged && high < low - slack && !any_between) found.merged = true;
  found.wrong += found.merged != merged;
  return found;
}

void give_each_plane_one(const Problem& problem, const double* cap1, const double* cap2, const double* scores,
                         States& states, bool merged) {
  const Index m = static_cast<Index>(states.size());
  for (int plane = 0; plane < (problem.two ? 2 : 1); ++plane) {
    const State sign = plane == 0 ? 1 : -1, capped = 2 * sign;
    const double* caps = plane == 0 ? cap1 : cap2;
    bool has_one = false;
    double missing = problem.totals[plane];
    for (Index j = 0; j < m; ++j) {
      has_one = has_one || states[j] == sign || (merged && states[j] == -sign);
      if (states[j] == capped) missing -= caps[j];
    }
    if (has_one) continue;
    // One that has no multiplier takes what is missing; of too much, one at its cap gives.
    const bool takes = merged || missing > -1e-12 * problem.totals[plane];
    const State wanted = takes ? 0 : capped;
    Index next = -1;
    for (Index j = 0; j < m; ++j) {
      const bool may = states[j] == wanted || (merged && (states[j] == 2 || states[j] == -2));
      const double height = (takes ? sign : -sign) * scores[j];
      if (may && (next < 0 || height < (takes ? sign : -sign) * scores[next])) next = j;
    }
    if (next >= 0) states[next] = sign;
  }
}

Doubles multipliers_of(const Problem& problem, const Doubles& beta) {
  const Index m = problem.m;
  const int planes = problem.two ? 2 : 1;
  Doubles values(planes * m);
  double missing = problem.totals[0], spare = 0;
  for (Index j = 0; j < m; ++j) {
    values[j] = std::clamp(beta[j], 0.0, problem.caps[0][j]);
    missing -= values[j];
    if (problem.two) {
      values[m + j] = std::clamp(-beta[j], 0.0, problem.caps[1][j]);
      spare += std::min(problem.caps[0][j] - values[j], problem.caps[1][j] - values[m + j]);
    }
  }
  if (problem.two && missing > ROUNDED_SUM * problem.totals[0]) {
    if (missing > spare) return {};
    for (Index j = 0; j < m; ++j) {
      const double room = std::min(problem.caps[0][j] - values[j], problem.caps[1][j] - values[m + j]);
      values[j] += room * (missing / spare);
      values[m + j] += room * (missing / spare);
    }
  }
  correct_sums(problem, values);
  return values;
}

void correct_sums(const Problem& problem, Doubles& multipliers) {
  const Index m = problem.m;
  for (Index plane = 0; plane < (problem.two ? 2 : 1); ++plane) {
    double* values = multipliers.data() + plane * m;
    const double* caps = problem.caps[plane];
    for (int round = 0; round < 2; ++round) {
      double missing = problem.totals[plane], inside = 0, any = 0;
      for (Index j = 0; j < m; ++j) missing -= values[j];
      const auto room = [&](Index j) { return missing > 0 ? caps[j] - values[j] : values[j]; };
      for (Index j = 0; j < m; ++j) {
        inside += std::min(values[j], caps[j] - values[j]);
        any += room(j);
      }
      const bool stays = inside > std::abs(missing);
      const double rooms = stays ? inside : any;
      if (missing == 0 || rooms == 0) break;
      for (Index j = 0; j < m; ++j) {
        const double own = stays ? std::min(values[j], caps[j] - values[j]) : room(j);
        values[j] = std::clamp(values[j] + missing * (own / rooms), 0.0, caps[j]);
      }
    }
  }
}

Doubles linear_minimiser(const Problem& problem, const double* scores) {
  const Index m = problem.m;
  Doubles values((problem.two ? 2 : 1) * m, 0.0);
  std::vector<Index> order(m);
  for (int plane = 0; plane < (problem.two ? 2 : 1); ++plane) {
    const double sign = plane == 0 ? 1.0 : -1.0;
    std::iota(order.begin(), order.end(), Index{0});
    std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return sign * scores[a] < sign * scores[b]; });
    double left = problem.totals[plane];
    for (Index j : order) {
      values[plane * m + j] = std::min(left, problem.caps[plane][j]);
      left -= values[plane * m + j];
      if (left <= 0) break;
    }
  }
  return values;
}

Doubles beta_of(const Problem& problem, const Doubles& multipliers) {
  Doubles beta(multipliers.begin(), multipliers.begin() + problem.m);
  if (problem.two)
    for (Index j = 0; j < problem.m; ++j) beta[j] -= multipliers[problem.m + j];
  return beta;
}

void compute_scores(const Problem& problem, const double* beta, double* scores) {
  if (problem.exactly) {
    for (Index i = 0; i < problem.m; ++i) {
      const double* row = problem.K + i * problem.stride;
      long double sum = problem.linear[i];
      for (Index j = 0; j < problem.m; ++j) sum += static_cast<long double>(row[j]) * beta[j];
      scores[i] = static_cast<double>(sum);
    }
    return;
  }
  std::copy(problem.linear, problem.linear + problem.m, scores);
  lapack::symv('L', problem.m, 1.0, problem.K, problem.stride, beta, 1, 1.0, scores, 1);
}

}  // namespace slabsvm
