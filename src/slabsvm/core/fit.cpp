#include "fit.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>

namespace slabsvm {

namespace {

// From gaps of these shares of the objective the optimum is looked for, or after so many steps a sample. Where it is
// not found the descent goes down to half of tol.
constexpr double GAPS[] = {1e-5, 1e-7, 1e-9};
constexpr Index STEPS = 200;
constexpr double GOAL = 0.5;
// Factors at most: from a descent's states, from equal scores, and from the optimum's own states.
constexpr int MOST_FACTORS = 25, MOST_FROM_EQUAL = 4, EASED_FACTORS = 8;
// Where more than this share of a slab's samples is free, equal scores are tried.
constexpr double EQUAL = 0.68;
// Of more than this share of the lower plane's mass both planes hold, they are taken for one.
constexpr double SHARED = 1e-3;
// A multiplier that is no further from a bound, as a share of its upper bound, is at it.
constexpr double ROUNDING = 1e-12;
// What is added to K: at first this share of its spread; then what makes delta |beta|^2 this share of the objective,
// within these shares of the spread; and more by this factor, to this level at most.
constexpr double LEAST_ADDED = 1e-13, ADDED = 1e-9, LEAST_STEADY = 1e-12, MOST_STEADY = 1e-6, STIFFER = 100.0;
constexpr int HIGHEST = 5;
// Multiplications that may go into the search for the optimum; at a gap of less than NO_GAP few.
constexpr double MOST_CLIMBING = 1e11, LITTLE_CLIMBING = 5e8, NO_GAP = 1e-10;
// Of more samples factors and inverses are in float32, unless pivots are smaller than this, or left-out scores are off
// by more than that.
constexpr Index SINGLE = 500;
constexpr double LEAST_SINGLE_PIVOT = 1e-3, SINGLE_ERROR = 1e-5;
// Samples depend on each other by a squared pivot below this share of K's spread, which is no less than that of its
// diagonal.
constexpr double LEAST_SPREAD = 1e-14;
constexpr double LEAST_PIVOT = 1e-9;
// The gap of an optimum, as a share of the objective; of the largest objective there is, so much is rounding.
constexpr double OPTIMAL = 1e-7, LARGEST_ROUNDING = 1e-14;
// A refit's gap, as a share of the objective. Of so few samples its optimum is looked for besides, after FEW_STEPS a
// sample, and MORE_STEPS times as many for as long as it is not found; the gap is then SMALL_REFIT_GAP. Where refits
// have taken many steps, each takes FEW_STEPS a sample.
constexpr double REFIT_GAP = 1e-6;
constexpr Index SMALL_REFIT = 300;
constexpr double SMALL_REFIT_GAP = 1e-10;
constexpr Index FEW_STEPS = 20, MORE_STEPS = 10;
// A gap of less than this share of what is allowed is none; so many multiplications go into a refit's optimum.
constexpr double TRIFLE = 1e-7, REFIT_CLIMBING = 2e8;

// Multipliers, (P, m), and their scores.
struct Solution {
  Doubles values, scores;
};

double objective_of(const Problem& problem, const Doubles& beta, const Doubles& scores) {
  double objective = 0;
  for (Index j = 0; j < problem.m; ++j) objective += 0.5 * beta[j] * (scores[j] + problem.linear[j]);
  return objective;
}

double objective_of(const Problem& problem, const Solution& at) {
  return objective_of(problem, beta_of(problem, at.values), at.scores);
}

// The duality gap for some offsets, or with each plane's amid what it may be: a sample above its plane should have no
// multiplier, and one below be at its upper bound.
double gap_of(const Problem& problem, const Solution& at, const double* rho = nullptr) {
  double gap = 0;
  for (int plane = 0; plane < problem.planes; ++plane) {
    const double sign = sign_of(plane), *scores = at.scores.data();
    const double *values = at.values.data() + plane * problem.m,
                 *upper_bounds = problem.upper_bounds.data() + plane * problem.m;
    double low = std::numeric_limits<double>::max(), high = -low;
    for (Index j = 0; j < problem.m && rho == nullptr; ++j) {
      if (values[j] < upper_bounds[j]) low = std::min(low, sign * scores[j]);
      if (values[j] > 0) high = std::max(high, sign * scores[j]);
    }
    const double offset = rho != nullptr ? sign * rho[plane] : low > high ? high : 0.5 * (low + high);
    for (Index j = 0; j < problem.m; ++j) {
      const double above = sign * scores[j] - offset;
      gap += (above > 0 ? values[j] : values[j] - upper_bounds[j]) * above;
    }
  }
  return gap;
}

// Whether planes seem to be merged: by how much mass both hold of the same samples.
bool seem_merged(const Problem& problem, const Doubles& values) {
  double sum = 0;
  for (Index j = 0; j < problem.m && problem.planes == 2; ++j) sum += std::min(values[j], values[problem.m + j]);
  return problem.planes == 1 || sum > SHARED * problem.totals[0];
}

// The states that multipliers show, of planes that are merged or apart.
States states_of(const Problem& problem, const Doubles& beta, bool merged) {
  States states{std::vector<State>(problem.m), merged};
  for (Index j = 0; j < problem.m; ++j) {
    const double bound1 = problem.upper_bounds[j], bound2 = problem.upper_bounds[problem.m + j],
                 room = ROUNDING * (bound1 + bound2);
    const State between = merged ? 1 : beta[j] > room ? 1 : beta[j] < -room ? -1 : 0;
    states[j] = beta[j] >= bound1 - room ? 2 : beta[j] <= -bound2 + room && (merged || bound2 > 0) ? -2 : between;
  }
  return states;
}

// A fit on its way, which has come to at_.
class Solver {
 public:
  Solver(Problem problem, const Wanted& wanted, const Interrupt& interrupt)
      : problem_(std::move(problem)), wanted_(wanted), interrupt_(interrupt), m_(problem_.m) {
    for (Index j = 0; j < m_; ++j) diagonal_ += problem_.diagonal(j) / double(m_);
    rounding_ = LARGEST_ROUNDING * diagonal_ * std::pow(problem_.totals[0] + problem_.totals[1], 2);
    problem_.exactly = GOAL * wanted_.tol < ROUNDING;
  }

  Fit run() {
    start();
    const bool limited = wanted_.max_steps >= 0;
    if (limited || !wanted_.optimum) descend(GOAL * wanted_.tol, limited ? wanted_.max_steps : most_steps());
    const bool unfinished = limited && gap_of(problem_, at_) > wanted_.tol * counted(objective_of(problem_, at_));
    if (unfinished || !wanted_.optimum || !found_optimum(limited)) {
      found_.multipliers = std::move(at_.values);
      found_.scores = std::move(at_.scores);
      if (!wanted_.sets.begins.empty()) one_by_one(unfinished);
    }
    return std::move(found_);
  }

 private:
  Index most_steps() const { return static_cast<Index>(wanted_.most_work / double(m_)) + 1; }

  // What an objective counts for where gaps are relative to it.
  double counted(double objective) const { return std::max(std::abs(objective), wanted_.smallest); }

  // What gaps are relative to: the objective, or what is left of the largest one without what all samples have in
  // common.
  double size_of(double objective) const {
    const double total = problem_.totals[0] + problem_.totals[1];
    return std::min(counted(objective), spread_ * total * total);
  }

  // The gap of an optimum.
  double allowed(double objective) const {
    return std::min(OPTIMAL, GOAL * wanted_.tol) * size_of(objective) + rounding_;
  }

  // The lowest scores under the mean of all samples hold the planes at first.
  void start() {
    const double total = problem_.totals[0] - problem_.totals[1];
    const Doubles scores = scores_of(problem_, Doubles(m_, total / double(m_)));
    double sum = 0;
    for (Index j = 0; j < m_; ++j) sum += scores[j] - problem_.linear[j];
    if (!std::isfinite(sum)) throw std::invalid_argument("K and linear must be finite");
    const double common = total != 0 ? sum / (double(m_) * total) : 0.0;
    spread_ = std::max(diagonal_ - common, LEAST_SPREAD * diagonal_);
    at_.values = linear_minimiser(problem_, scores);
    rescore();
  }

  void rescore() { at_.scores = scores_of(problem_, beta_of(problem_, at_.values)); }

  // Go down to a relative gap, or for so many steps.
  void descend(double tol, Index steps) {
    if (steps <= 0) return;
    const Descended went = descended(problem_, at_, tol, steps);
    found_.steps += went.steps;
    found_.lowest_curvature = std::min(found_.lowest_curvature, went.lowest_curvature);
    correct_sums(problem_, at_.values);
    rescore();
  }

  // Descend with the multipliers of a solution; its scores stay as they are.
  Descended descended(const Problem& problem, Solution& at, double tol, Index steps) const {
    // Scores matter up to a constant.
    Doubles shifted(at.scores);
    std::nth_element(shifted.begin(), shifted.begin() + m_ / 2, shifted.end());
    const double middle = shifted[m_ / 2];
    shifted.assign(problem.stride, 0.0);
    for (Index j = 0; j < m_; ++j) shifted[j] = at.scores[j] - middle;
    const double signs[2] = {1.0, -1.0};
    const Block<double> block{problem.K, problem.stride, m_, problem.stride, problem.planes,
                              shifted.data(), at.values.data(), problem.upper_bounds.data(), signs};
    return slabsvm::descend(block, objective_of(problem, at), {wanted_.smallest, tol, 0.0, wanted_.floor, steps},
                            interrupt_);
  }

  // Go on to the optimum, or if it is not found down to half of tol; return whether it was. With a limit of steps the
  // descent has come to its end already.
  bool found_optimum(bool limited) {
    if (limited) return pivoted();
    if (problem_.planes == 2) {
      descend(GAPS[0], m_);
      if (share_free() > EQUAL && from_equal()) return true;
    }
    for (const double gap : GAPS) {
      const Index before = found_.steps;
      descend(gap, std::min(STEPS * m_, most_steps() - found_.steps));
      if ((gap == GAPS[0] || found_.steps > before) && pivoted()) return true;
    }
    descend(GOAL * wanted_.tol, most_steps() - found_.steps);
    return false;
  }

  double share_free() const {
    Index free = 0;
    for (Index j = 0; j < m_; ++j) {
      bool is = false;
      for (Index k = j; k < problem_.planes * m_; k += m_)
        is = is || (at_.values[k] > 0 && at_.values[k] < problem_.upper_bounds[k]);
      free += is;
    }
    return double(free) / double(m_);
  }

  // Look for the optimum from where the descent has come to, planes first as they seem to be.
  bool pivoted() {
    // At a gap of rounding little is left to find: where samples are one point, states go in circles.
    const bool no_gap = gap_of(problem_, at_) <= NO_GAP * size_of(objective_of(problem_, at_));
    climbing_ = std::min(climbing_, no_gap ? LITTLE_CLIMBING : MOST_CLIMBING);
    const bool first = seem_merged(problem_, at_.values), was = problem_.exactly;
    if (climbed(first) || (problem_.planes == 2 && climbed(!first))) return true;
    return problem_.exactly && !was && pivoted();
  }

  // Find the optimum and take it.
  bool climbed(bool merged) {
    const Doubles beta = beta_of(problem_, at_.values);
    const States states = states_of(problem_, beta, merged);
    steady(problem_, at_);
    if (m_ > SINGLE) {
      if (const auto done = optimum_in_single(states, MOST_FACTORS)) return *done;
      problem_.near = beta;
    }
    Optimum<double> at;
    const bool found = climb(problem_, states, climbing_, at);
    climbing_ -= at.work;
    if (!found) keep(solution_of(problem_, problem_.near));
    return found && finish(at);
  }

  // From equal scores: all samples are free in one plane.
  bool from_equal() {
    steady(problem_, at_);
    const States states{std::vector<State>(m_, 1), true};
    if (m_ > SINGLE)
      if (const auto done = optimum_in_single(states, MOST_FROM_EQUAL)) return *done;
    Optimum<double> at;
    const bool found = find_optimum<double>(problem_, states, MOST_FROM_EQUAL, at, interrupt_);
    found_.factors += at.factors;
    return found && finish(at);
  }

  // With factors in float32: whether the optimum was found and taken; nothing where float64 is needed.
  std::optional<bool> optimum_in_single(const States& states, int most) {
    Optimum<float> at;
    const bool found = find_optimum<float>(problem_, states, most, at, interrupt_);
    found_.factors += at.factors;
    // Paths between planes that are apart need float64.
    if (!found || !at.states.merged || at.free_set.least_pivot <= LEAST_SINGLE_PIVOT || !take(at)) return {};
    if (!leave_out(at) || (found_.left_out.certificate <= SINGLE_ERROR && found_.left_out.refitted == 0)) return true;
    found_.optimal = false;
    found_.left_out = {};
    return {};
  }

  bool finish(Optimum<double>& at) {
    if (!take(at)) return false;
    leave_out(at);
    return true;
  }

  // Set what is added to K near some multipliers.
  void steady(Problem& problem, const Solution& at) const {
    problem.near = beta_of(problem, at.values);
    double room = 0, square = 0;
    for (Index j = 0; j < m_; ++j) {
      room += problem.upper_bounds[j] + problem.upper_bounds[m_ + j];
      square += problem.near[j] * problem.near[j];
    }
    const double objective = objective_of(problem, problem.near, at.scores);
    const double share = ADDED * size_of(objective) / std::max(square, 1e-300);
    problem.steadier = std::clamp(share, LEAST_STEADY * spread_, MOST_STEADY * spread_);
    problem.delta = added(problem, 0);
    problem.centred = allowed(objective) / room;
  }

  // What is added to K: at first hardly anything, where states go in circles or K is nearly singular a share of the
  // objective, and then more and more.
  double added(const Problem& problem, int level) const {
    return level == 0 ? LEAST_ADDED * spread_ : problem.steadier * std::pow(STIFFER, level - 1);
  }

  // Go to the optimum from some states; return whether it was found. As what the term is measured from comes nearer to
  // the optimum, less is added again.
  bool climb(Problem& problem, States states, double budget, Optimum<double>& at) {
    int level = 0;
    while (at.work <= budget && level <= HIGHEST) {
      const Doubles near = problem.near;
      problem.delta = added(problem, level);
      at.states = {};
      const bool found = find_optimum<double>(problem, states, MOST_FACTORS, at, interrupt_);
      found_.factors += at.factors;
      const bool dependent = level == 0 && at.free_set.least_pivot * diagonal_ < LEAST_PIVOT * spread_;
      if (found && !dependent) return eased(problem, level, at);
      if (at.states.size() == 0) {
        problem.near = near;
        ++level;
        continue;
      }
      states = at.states;
      level = dependent ? 1 : std::max(level - 1, 0);
    }
    return false;
  }

  // With the optimum at hand, find it with as little added to K as that allows: what leaves it is moved less.
  bool eased(Problem& problem, int level, Optimum<double>& at) {
    const States states = at.states;
    const Doubles beta = at.at.beta;
    for (int lower = 1; level > 1 && lower <= level; ++lower) {
      problem.delta = added(problem, lower);
      problem.near = beta;
      const int most = lower < level ? EASED_FACTORS : MOST_FACTORS;
      if (find_optimum<double>(problem, states, most, at, interrupt_)) return true;
    }
    return level <= 1;
  }

  // The multipliers that a beta stands for, and their scores; nothing where samples have no room for them.
  static std::optional<Solution> solution_of(const Problem& problem, const Doubles& beta) {
    Solution found{multipliers_of(problem, beta), {}};
    if (found.values.empty()) return {};
    found.scores = scores_of(problem, beta_of(problem, found.values));
    return found;
  }

  // Go on from a solution, if it is better than where the descent has come to.
  void keep(std::optional<Solution> found) {
    if (found && objective_of(problem_, *found) < objective_of(problem_, at_)) at_ = std::move(*found);
  }

  // Take the optimum, if its gap is that of one; else the descent goes on from there, if that is better.
  template <class T>
  bool take(const Optimum<T>& at) {
    std::optional<Solution> found = solution_of(problem_, at.at.beta);
    if (!found) return false;
    const double objective = objective_of(problem_, *found);
    if (gap_of(problem_, *found, at.at.rho) > allowed(objective)) {
      keep(std::move(found));
      problem_.exactly = problem_.exactly || std::abs(objective) <= wanted_.smallest;
      return false;
    }
    found_.multipliers = std::move(found->values);
    found_.scores = std::move(found->scores);
    found_.optimal = true;
    found_.merged = at.states.merged;
    return true;
  }

  template <class T>
  bool leave_out(Optimum<T>& at) {
    if (wanted_.sets.begins.empty()) return false;
    if (gave_own_scores(sets_at(at.at.beta))) return false;
    const Refit hand_on = [this](const std::vector<Index>& leaving) {
      Rest rest = rest_of(leaving);
      return rest.settled ? std::move(rest.at.scores) : Doubles();
    };
    const Refit refit = [this](const std::vector<Index>& leaving) { return refitted(leaving); };
    found_.left_out = slabsvm::left_out(problem_, at, sets_at(at.at.beta), hand_on, refit, interrupt_);
    return true;
  }

  // Where w is 0 to within rounding, so is what a sample does to it: each row has the score that it has. Whether it is.
  bool gave_own_scores(const Sets& sets) {
    orders_[0].clear(), orders_[1].clear();
    const Doubles beta = beta_of(problem_, found_.multipliers);
    found_.left_out.scores.resize(sets.samples.size());
    if (std::abs(objective_of(problem_, beta, found_.scores)) > wanted_.smallest) return false;
    for (std::size_t e = 0; e < sets.samples.size(); ++e) found_.left_out.scores[e] = found_.scores[sets.samples[e]];
    return true;
  }

  // What leaves of each sample: all of it but what the boxes of its copies hold; of groups all.
  Sets sets_at(const Doubles& beta) const {
    Sets sets = wanted_.sets;
    for (Index j : sets.samples) {
      const double stays = stays_of(j);
      sets.targets.push_back(
          std::clamp(beta[j], -problem_.upper_bounds[m_ + j] * stays, problem_.upper_bounds[j] * stays));
    }
    return sets;
  }

  double stays_of(Index j) const { return wanted_.stays.empty() ? 0.0 : wanted_.stays[j]; }

  // Where no optimum was found, each set is left out by a refit. From a point that is far from the optimum, scores are
  // those of a point as far: what leaves is given to the lowest scores that have room.
  void one_by_one(bool unfinished) {
    const Doubles beta = beta_of(problem_, found_.multipliers);
    const Sets sets = sets_at(beta);
    if (gave_own_scores(sets)) return;
    for (Index set = 0; set < sets.count(); ++set) {
      interrupt_();
      const auto leavers = sets.leaving(set);
      bool moves = false;
      for (std::size_t k = 0; k < leavers.samples.size(); ++k)
        moves = moves || leavers.targets[k] != beta[leavers.samples[k]];
      Doubles scores = found_.scores;
      if (moves) {
        Rest rest = rest_of(leavers.samples);
        const bool enough = unfinished || rest.settled;
        scores = enough ? std::move(rest.at.scores) : refitted(leavers.samples);
        ++(enough ? found_.left_out.handed_on : found_.left_out.refitted);
      }
      sets.give(set, found_.left_out.scores, [&](Index sample) { return scores[sample]; });
    }
  }

  // The program without some samples, and a point of it: what leaves is given to the lowest scores that have room.
  struct Rest {
    Problem problem;
    Solution at;
    bool settled = false;  // whether that is all there is to do
  };

  // Where the boxes of the others cannot hold what the planes have, as at nu = 1, they grow until they can.
  Rest rest_of(const std::vector<Index>& leaving) {
    Rest rest{problem_, {{}, found_.scores}};
    Doubles &values = rest.at.values, &scores = rest.at.scores;
    bool full = true, nobody = false;
    for (int p = 0; p < problem_.planes; ++p) {
      double* upper_bounds = rest.problem.upper_bounds.data() + p * m_;
      for (Index j : leaving) upper_bounds[j] *= stays_of(j);
      const double room = std::accumulate(upper_bounds, upper_bounds + m_, 0.0), total = problem_.totals[p];
      nobody = nobody || !(room > 0);
      full = full && room <= total * (1.0 + 1e-9);
      if (room < total && room > 0)
        for (Index j = 0; j < m_; ++j) upper_bounds[j] *= total / room;
    }
    if (nobody) {  // there is no program, and no w
      scores.assign(problem_.linear, problem_.linear + m_);
      rest.settled = true;
      return rest;
    }
    const Doubles& upper_bounds = rest.problem.upper_bounds;
    values.assign(upper_bounds.begin(), upper_bounds.begin() + problem_.planes * m_);
    for (int p = 0; p < problem_.planes && !full; ++p) {
      double missing = problem_.totals[p];
      for (Index k = p * m_; k < (p + 1) * m_; ++k) values[k] = std::min(found_.multipliers[k], upper_bounds[k]);
      for (Index k = p * m_; k < (p + 1) * m_; ++k) missing -= values[k];
      if (orders_[p].empty()) orders_[p] = lowest_first(found_.scores, p);
      for (Index j : orders_[p]) {
        if (missing <= 0) break;
        const double gives = std::min(missing, upper_bounds[p * m_ + j] - values[p * m_ + j]);
        values[p * m_ + j] += gives;
        missing -= gives;
      }
    }
    const Doubles before = beta_of(problem_, found_.multipliers), beta = beta_of(problem_, values);
    for (Index i = 0; i < m_; ++i) {
      const double change = beta[i] - before[i];
      if (change == 0) continue;
      const double* row = problem_.K + i * problem_.stride;
      for (Index j = 0; j < m_; ++j) scores[j] += change * row[j];
    }
    // Where samples are one point to within rounding, or all are at their upper bounds.
    const double allowed = REFIT_GAP * size_of(objective_of(problem_, beta, scores));
    rest.settled = full || gap_of(rest.problem, rest.at) <= TRIFLE * allowed + rounding_;
    return rest;
  }

  // The scores of the program without some samples, or without one copy of each, as it is solved anew.
  Doubles refitted(const std::vector<Index>& leaving) {
    interrupt_();
    auto [rest, at, settled] = rest_of(leaving);
    if (settled) return at.scores;
    const double objective = objective_of(rest, at), share = size_of(objective) / counted(objective);
    const double rough = found_.optimal ? REFIT_GAP * share : std::max(REFIT_GAP * share, GOAL * wanted_.tol);
    // Each may take a tenth of a fit's steps, and all together twice as many as one fit; then each a few.
    const Index most = refit_work_ <= 2.0 * wanted_.most_work ? most_steps() / 10 : FEW_STEPS * m_;
    const auto go_down = [&, &rest = rest, &at = at](double gap, Index until) {
      const Index steps = descended(rest, at, gap, until).steps;
      refit_work_ += double(m_) * double(steps);
      found_.refit_steps += steps;
      at.scores = scores_of(rest, beta_of(rest, at.values));
    };
    // What was not found for all is not for the rest, and of many samples it would take too long.
    if (!found_.optimal || m_ > SMALL_REFIT) {
      go_down(m_ > SMALL_REFIT ? rough : SMALL_REFIT_GAP * share, most);
      return at.scores;
    }
    for (Index until = std::min(FEW_STEPS * m_, most);; until = std::min(MORE_STEPS * until, most)) {
      go_down(until < most ? rough : SMALL_REFIT_GAP * share, until);
      steady(rest, at);
      Optimum<double> exact;
      const States states = states_of(rest, rest.near, seem_merged(rest, at.values));
      const bool found = climb(rest, states, REFIT_CLIMBING, exact);
      const std::optional<Solution> better = found ? solution_of(rest, exact.at.beta) : std::nullopt;
      const double left = better ? gap_of(rest, *better) : 0;
      if (better && left <= OPTIMAL * size_of(objective_of(rest, *better)) + rounding_) return better->scores;
      if (until == most) return better && left < gap_of(rest, at) ? better->scores : at.scores;
    }
  }

  Problem problem_;
  const Wanted& wanted_;
  const Interrupt& interrupt_;
  const Index m_;
  Solution at_;
  double climbing_ = MOST_CLIMBING;  // what is left of it
  std::vector<Index> orders_[2];     // samples, the lowest of the found scores in each plane first
  double refit_work_ = 0;            // steps times samples
  double diagonal_ = 0;              // the mean of K's
  double spread_ = 0;  // what is left of it without what all samples have in common: their variance in feature space
  double rounding_;    // of a gap
  Fit found_;
};

}  // namespace

Fit fit(Problem problem, const Wanted& wanted, const Interrupt& interrupt) {
  return Solver(std::move(problem), wanted, interrupt).run();
}

}  // namespace slabsvm
