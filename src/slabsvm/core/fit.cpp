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
// A multiplier that is no further from a bound, as a share of its cap, is at it.
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
// A refit's gap, as a share of the objective. Of so few samples its optimum is looked for besides. Where refits have
// taken many steps each takes a few, times the number of samples.
constexpr double REFIT_GAP = 1e-6;
constexpr Index SMALL_REFIT = 300;
constexpr double SMALL_REFIT_GAP = 1e-10;
constexpr Index FEW_STEPS = 20;
// A gap of less than this share of what is allowed is none; so many multiplications go into a refit's optimum.
constexpr double TRIFLE = 1e-7, REFIT_CLIMBING = 2e8;

// How much mass both planes hold of the same samples.
double shared_by(const Problem& problem, const Doubles& values) {
  double sum = 0;
  for (Index j = 0; j < problem.m && problem.two; ++j) sum += std::min(values[j], values[problem.m + j]);
  return sum;
}

// The states that multipliers show, of planes that are merged or apart.
States states_of(const Problem& problem, const Doubles& beta, bool merged) {
  States states(problem.m);
  for (Index j = 0; j < problem.m; ++j) {
    const double cap1 = problem.caps[0][j], cap2 = problem.caps[1][j], room = ROUNDING * (cap1 + cap2);
    const State between = merged ? 1 : beta[j] > room ? 1 : beta[j] < -room ? -1 : 0;
    states[j] = beta[j] >= cap1 - room ? 2 : beta[j] <= -cap2 + room && (merged || cap2 > 0) ? -2 : between;
  }
  return states;
}

// A fit on its way: values_ are multipliers, and scores_ their scores.
class Solver {
 public:
  Solver(Problem problem, const Wanted& wanted, const Interrupt& interrupt)
      : problem_(std::move(problem)), wanted_(wanted), interrupt_(interrupt), m_(problem_.m) {
    double diagonal = 0;
    for (Index j = 0; j < m_; ++j) diagonal += problem_.K[j * problem_.stride + j] / double(m_);
    diagonal_ = diagonal;
    rounding_ = LARGEST_ROUNDING * diagonal * std::pow(problem_.totals[0] + problem_.totals[1], 2);
    caps_.assign(problem_.caps[0], problem_.caps[0] + m_);
    if (problem_.two) caps_.insert(caps_.end(), problem_.caps[1], problem_.caps[1] + m_);
    scores_.resize(m_);
    problem_.exactly = GOAL * wanted_.tol < ROUNDING;
  }

  Fit run() {
    start();
    const bool limited = wanted_.max_steps >= 0;
    if (limited || !wanted_.optimum) descend(GOAL * wanted_.tol, limited ? wanted_.max_steps : most_steps());
    const bool unfinished = limited && gap() > wanted_.tol * size_of_objective();
    if (unfinished || !wanted_.optimum || !found_optimum(limited)) {
      found_.multipliers = std::move(values_);
      found_.scores = std::move(scores_);
      if (wanted_.left_out) one_by_one(unfinished);
    }
    return std::move(found_);
  }

 private:
  Index most_steps() const { return static_cast<Index>(wanted_.most_work / double(m_)) + 1; }

  // Go on to the optimum, or if it is not found down to half of tol; return whether it was. With a limit of steps the
  // descent has come to its end already.
  bool found_optimum(bool limited) {
    if (limited) return pivoted();
    if (problem_.two) {
      descend(GAPS[0], m_);
      if (share_free() > EQUAL && from_equal()) return true;
    }
    for (std::size_t stage = 0; stage < std::size(GAPS); ++stage) {
      const Index before = found_.steps;
      descend(GAPS[stage], std::min(STEPS * m_, most_steps() - found_.steps));
      if ((stage == 0 || found_.steps > before) && pivoted()) return true;
    }
    descend(GOAL * wanted_.tol, most_steps() - found_.steps);
    return false;
  }

  void rescore() { compute_scores(problem_, beta_of(problem_, values_).data(), scores_.data()); }

  // The lowest scores under the mean of all samples hold the planes at first.
  void start() {
    const Doubles mean(m_, (problem_.totals[0] - problem_.totals[1]) / double(m_));
    compute_scores(problem_, mean.data(), scores_.data());
    double sum = 0;
    for (Index j = 0; j < m_; ++j) sum += scores_[j] - problem_.linear[j];
    if (!std::isfinite(sum)) throw std::invalid_argument("K and linear must be finite");
    const double total = problem_.totals[0] - problem_.totals[1];
    const double common = total != 0 ? sum / (double(m_) * total) : 0.0;
    spread_ = std::max(diagonal_ - common, LEAST_SPREAD * diagonal_);
    values_ = linear_minimiser(problem_, scores_.data());
    rescore();
  }

  // Go down to a relative gap, or for so many steps.
  void descend(double tol, Index steps) {
    if (steps <= 0) return;
    const Descended went = descended(problem_, caps_, values_, scores_, tol, steps);
    found_.steps += went.steps;
    found_.lowest_curvature = std::min(found_.lowest_curvature, went.lowest_curvature);
    correct_sums(problem_, values_);
    rescore();
  }

  Descended descended(const Problem& problem, const Doubles& caps, Doubles& values, const Doubles& scores,
                              double tol, Index steps) const {
    const double objective = objective_of(beta_of(problem, values), scores);
    // Scores matter up to a constant.
    Doubles shifted(scores);
    std::nth_element(shifted.begin(), shifted.begin() + m_ / 2, shifted.end());
    const double middle = shifted[m_ / 2];
    shifted.assign(problem.stride, 0.0);
    for (Index j = 0; j < m_; ++j) shifted[j] = scores[j] - middle;
    const double signs[2] = {1.0, -1.0};
    const Block<double> block{problem.K, problem.stride, m_, problem.stride, problem.two ? 2 : 1,
                              shifted.data(), values.data(), caps.data(), signs};
    return slabsvm::descend(block, objective, {wanted_.smallest, tol, 0.0, wanted_.floor, steps}, interrupt_);
  }

  double objective_of(const Doubles& beta, const Doubles& scores) const {
    double objective = 0;
    for (Index j = 0; j < m_; ++j) objective += 0.5 * beta[j] * (scores[j] + problem_.linear[j]);
    return objective;
  }

  double share_free() const {
    Index free = 0;
    for (Index j = 0; j < m_; ++j) {
      bool is = false;
      for (Index k = j; k < static_cast<Index>(values_.size()); k += m_)
        is = is || (values_[k] > 0 && values_[k] < caps_[k]);
      free += is;
    }
    return double(free) / double(m_);
  }

  // Look for the optimum from where the descent has come to, planes first as they seem to be.
  bool pivoted() {
    // At a gap of rounding little is left to find: where samples are one point, states go in circles.
    climbing_ = std::min(climbing_, gap() <= NO_GAP * size_of(size_of_objective()) ? LITTLE_CLIMBING : MOST_CLIMBING);
    const bool first = !problem_.two || shared_by(problem_, values_) > SHARED * problem_.totals[0];
    const bool was = problem_.exactly;
    if (climbed(first) || (problem_.two && climbed(!first))) return true;
    return problem_.exactly && !was && pivoted();
  }

  // Find the optimum and take it.
  bool climbed(bool merged) {
    const Doubles beta = beta_of(problem_, values_);
    States states = states_of(problem_, beta, merged);
    steady(problem_, beta, scores_);
    if (m_ > SINGLE) {
      if (const auto done = optimum_in_single(states, merged, MOST_FACTORS)) return *done;
      problem_.near = beta;
    }
    Optimum<double> at;
    const bool found = climb(problem_, states, merged, climbing_, at);
    climbing_ -= at.work;
    if (!found) keep(problem_.near);
    return found && finish(at);
  }

  // From equal scores: all samples are free in one plane.
  bool from_equal() {
    steady(problem_, beta_of(problem_, values_), scores_);
    const States states(m_, 1);
    if (m_ > SINGLE)
      if (const auto done = optimum_in_single(states, true, MOST_FROM_EQUAL)) return *done;
    Optimum<double> at;
    const bool found = find_optimum<double>(problem_, states, true, MOST_FROM_EQUAL, at, interrupt_);
    found_.factors += at.factors;
    return found && finish(at);
  }

  // With factors in float32: whether the optimum was found and taken; nothing where float64 is needed.
  std::optional<bool> optimum_in_single(const States& states, bool merged, int most) {
    Optimum<float> at;
    const bool found = find_optimum<float>(problem_, states, merged, most, at, interrupt_);
    found_.factors += at.factors;
    // Paths between planes that are apart need float64.
    if (!found || !at.merged || at.face.least_pivot <= LEAST_SINGLE_PIVOT) return {};
    if (!take(at)) return {};
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

  // What gaps are relative to: the objective, or what is left of the largest one without what all samples have in
  // common.
  double size_of(double objective) const {
    const double total = problem_.totals[0] + problem_.totals[1];
    return std::min(std::max(std::abs(objective), wanted_.smallest), spread_ * total * total);
  }

  // The gap of an optimum.
  double allowed(double objective) const {
    return std::min(OPTIMAL, GOAL * wanted_.tol) * size_of(objective) + rounding_;
  }

  // Set what is added to K near some multipliers.
  void steady(Problem& problem, Doubles beta, const Doubles& scores) const {
    double room = 0, square = 0;
    for (Index j = 0; j < m_; ++j) {
      room += problem.caps[0][j] + problem.caps[1][j];
      square += beta[j] * beta[j];
    }
    const double objective = objective_of(beta, scores);
    const double share = ADDED * size_of(objective) / std::max(square, 1e-300);
    problem.steadier = std::clamp(share, LEAST_STEADY * spread_, MOST_STEADY * spread_);
    problem.delta = added(problem, 0);
    problem.centred = allowed(objective) / room;
    problem.near = std::move(beta);
  }

  // What is added to K: at first hardly anything, where states go in circles or K is nearly singular a share of the
  // objective, and then more and more.
  double added(const Problem& problem, int level) const {
    return level == 0 ? LEAST_ADDED * spread_ : problem.steadier * std::pow(STIFFER, level - 1);
  }

  // Go to the optimum from some states; return whether it was found. As what the term is measured from comes nearer to
  // the optimum, less is added again.
  bool climb(Problem& problem, States states, bool merged, double budget, Optimum<double>& at) {
    int level = 0;
    at.work = 0;
    while (at.work <= budget && level <= HIGHEST) {
      const Doubles near = problem.near;
      problem.delta = added(problem, level);
      at.states.clear();
      const bool found = find_optimum<double>(problem, states, merged, MOST_FACTORS, at, interrupt_);
      found_.factors += at.factors;
      const bool dependent = level == 0 && at.face.least_pivot * diagonal_ < LEAST_PIVOT * spread_;
      if (found && !dependent) {
        return eased(problem, level, at);
      }
      if (at.states.empty()) {
        problem.near = near;
        ++level;
        continue;
      }
      states = at.states, merged = at.merged;
      level = dependent ? 1 : std::max(level - 1, 0);
    }
    return false;
  }

  // Go on from some multipliers, if they are better than those that the descent has come to.
  void keep(const Doubles& beta) {
    Doubles multipliers = multipliers_of(problem_, beta);
    if (multipliers.empty()) return;
    Doubles scores(m_);
    const Doubles kept = beta_of(problem_, multipliers);
    compute_scores(problem_, kept.data(), scores.data());
    if (objective_of(kept, scores) >= objective_of(beta_of(problem_, values_), scores_)) return;
    values_ = std::move(multipliers);
    scores_ = std::move(scores);
  }

  // With the optimum at hand, find it with as little added to K as that allows: what leaves it is moved less.
  bool eased(Problem& problem, int level, Optimum<double>& at) {
    if (level <= 1) return true;
    const States states = at.states;
    const bool merged = at.merged;
    const Doubles beta = at.beta;
    for (int lower = 1; lower <= level; ++lower) {
      problem.delta = added(problem, lower);
      problem.near = beta;
      const int most = lower < level ? EASED_FACTORS : MOST_FACTORS;
      if (find_optimum<double>(problem, states, merged, most, at, interrupt_)) return true;
    }
    return false;
  }

  // Take the optimum, if its gap is that of one; else the descent goes on from there, if that is better.
  template <class T>
  bool take(const Optimum<T>& at) {
    Doubles multipliers = multipliers_of(problem_, at.beta);
    if (multipliers.empty()) return false;
    Doubles scores(m_);
    const Doubles beta = beta_of(problem_, multipliers);
    compute_scores(problem_, beta.data(), scores.data());
    const double objective = objective_of(beta, scores);
    if (gap_at(multipliers, scores, at.rho) > allowed(objective)) {
      if (objective < objective_of(beta_of(problem_, values_), scores_)) {
        values_ = std::move(multipliers);
        scores_ = std::move(scores);
      }
      problem_.exactly = problem_.exactly || std::abs(objective) <= wanted_.smallest;
      return false;
    }
    found_.multipliers = std::move(multipliers);
    found_.scores = std::move(scores);
    found_.optimal = true;
    found_.merged = at.merged;
    return true;
  }

  // What the objective counts for where gaps are relative to it.
  double size_of_objective() const {
    return std::max(std::abs(objective_of(beta_of(problem_, values_), scores_)), wanted_.smallest);
  }

  // The duality gap of where the descent has come to.
  double gap() const { return gap_of(problem_, caps_, values_, scores_); }

  // The duality gap of multipliers: each plane's offset is amid what it may be.
  double gap_of(const Problem& problem, const Doubles& limits, const Doubles& values, const Doubles& scores) const {
    double gap = 0;
    for (int plane = 0; plane < (problem.two ? 2 : 1); ++plane) {
      const double sign = plane == 0 ? 1.0 : -1.0;
      double low = std::numeric_limits<double>::max(), high = -low;
      for (Index j = 0; j < m_; ++j) {
        const Index k = plane * m_ + j;
        if (values[k] < limits[k]) low = std::min(low, sign * scores[j]);
        if (values[k] > 0) high = std::max(high, sign * scores[j]);
      }
      const double rho = low > high ? high : 0.5 * (low + high);
      for (Index j = 0; j < m_; ++j) {
        const Index k = plane * m_ + j;
        const double above = sign * scores[j] - rho;
        gap += (above > 0 ? values[k] : values[k] - limits[k]) * above;
      }
    }
    return gap;
  }

  // The duality gap for these offsets: a sample above its plane should have no multiplier, and one below be at its cap.
  double gap_at(const Doubles& multipliers, const Doubles& scores, const double* rho) const {
    double gap = 0;
    for (int plane = 0; plane < (problem_.two ? 2 : 1); ++plane)
      for (Index j = 0; j < m_; ++j) {
        const double above = (plane == 0 ? 1.0 : -1.0) * (scores[j] - rho[plane]);
        const double value = multipliers[plane * m_ + j];
        gap += (above > 0 ? value : value - problem_.caps[plane][j]) * above;
      }
    return gap;
  }

  template <class T>
  bool leave_out(Optimum<T>& at) {
    if (!wanted_.left_out) return false;
    if (degenerate()) {
      give_own_scores();
      return false;
    }
    orders_[0].clear(), orders_[1].clear();
    const Refit hand_on = [this](const std::vector<Index>& leaving) {
      Rest rest = rest_of(leaving);
      return rest.settled ? std::move(rest.scores) : Doubles();
    };
    const Refit refit = [this](const std::vector<Index>& leaving) { return refitted(leaving); };
    found_.left_out = slabsvm::left_out(problem_, at, sets_at(at.beta), hand_on, refit, interrupt_);
    return true;
  }

  // Whether w is 0 to within rounding, and with it what a sample does to it.
  bool degenerate() const {
    return std::abs(objective_of(beta_of(problem_, found_.multipliers), found_.scores)) <= wanted_.smallest;
  }

  void give_own_scores() {
    const Sets sets = sets_at(beta_of(problem_, found_.multipliers));
    found_.left_out.scores.resize(sets.samples.size());
    for (std::size_t e = 0; e < sets.samples.size(); ++e) found_.left_out.scores[e] = found_.scores[sets.samples[e]];
  }

  // What leaves of each sample: all of it but what the boxes of its copies hold; of groups all.
  Sets sets_at(const Doubles& beta) const {
    Sets sets = wanted_.groups;
    if (!wanted_.stays.empty()) {
      sets.begins.resize(m_ + 1);
      std::iota(sets.begins.begin(), sets.begins.end(), Index{0});
      sets.samples.assign(sets.begins.begin(), sets.begins.end() - 1);
      sets.leaves.assign(m_, 1);
    }
    sets.targets.resize(sets.samples.size());
    for (std::size_t e = 0; e < sets.samples.size(); ++e) {
      const Index j = sets.samples[e];
      const double stays = wanted_.stays.empty() ? 0.0 : wanted_.stays[j];
      sets.targets[e] = std::clamp(beta[j], -problem_.caps[1][j] * stays, problem_.caps[0][j] * stays);
    }
    return sets;
  }

  // Where no optimum was found, each set is left out by a refit. From a point that is far from the optimum, scores are
  // those of a point as far: what leaves is given to the lowest scores that have room.
  void one_by_one(bool unfinished) {
    if (degenerate()) {
      give_own_scores();
      return;
    }
    orders_[0].clear(), orders_[1].clear();
    const Doubles beta = beta_of(problem_, found_.multipliers);
    const Sets sets = sets_at(beta);
    found_.left_out.scores.resize(sets.samples.size());
    for (std::size_t set = 0; set + 1 < sets.begins.size(); ++set) {
      interrupt_();
      std::vector<Index> leaving;
      bool moves = false;
      for (Index e = sets.begins[set]; e < sets.begins[set + 1]; ++e)
        if (sets.leaves[e]) {
          leaving.push_back(sets.samples[e]);
          moves = moves || sets.targets[e] != beta[sets.samples[e]];
        }
      Doubles scores = found_.scores;
      if (moves) {
        Rest rest = rest_of(leaving);
        const bool enough = unfinished || rest.settled;
        scores = enough ? std::move(rest.scores) : refitted(leaving);
        ++(enough ? found_.left_out.handed_on : found_.left_out.refitted);
      }
      for (Index e = sets.begins[set]; e < sets.begins[set + 1]; ++e)
        found_.left_out.scores[e] = scores[sets.samples[e]];
    }
  }

  // The program without some samples, and a point of it: what leaves is given to the lowest scores that have room.
  struct Rest {
    Problem problem;
    Doubles limits, values, scores;
    bool settled;  // whether that is all there is to do
  };

  Rest rest_of(const std::vector<Index>& leaving) {
    const Index planes = problem_.two ? 2 : 1;
    Rest rest{problem_, Doubles(2 * m_, 0.0), {}, found_.scores, false};
    bool full = true, nobody = false;
    for (Index p = 0; p < planes; ++p) {
      double* caps = rest.limits.data() + p * m_;
      std::copy(problem_.caps[p], problem_.caps[p] + m_, caps);
      for (Index j : leaving) caps[j] *= wanted_.stays.empty() ? 0.0 : wanted_.stays[j];
      const double room = std::accumulate(caps, caps + m_, 0.0), total = problem_.totals[p];
      nobody = nobody || !(room > 0);
      full = full && room <= total * (1.0 + 1e-9);
      if (room < total && room > 0)
        for (Index j = 0; j < m_; ++j) caps[j] *= total / room;
    }
    rest.problem.caps[0] = rest.limits.data();
    rest.problem.caps[1] = rest.limits.data() + m_;
    if (nobody) {  // there is no program, and no w
      rest.scores.assign(problem_.linear, problem_.linear + m_);
      rest.settled = true;
      return rest;
    }
    rest.values.assign(rest.limits.begin(), rest.limits.begin() + planes * m_);
    if (!full) {
      for (Index k = 0; k < planes * m_; ++k) rest.values[k] = std::min(found_.multipliers[k], rest.limits[k]);
      fill_up(rest.problem, rest.limits, rest.values);
    }
    const Doubles before = beta_of(problem_, found_.multipliers), beta = beta_of(rest.problem, rest.values);
    for (Index i = 0; i < m_; ++i) {
      const double change = beta[i] - before[i];
      if (change == 0) continue;
      const double* row = problem_.K + i * problem_.stride;
      for (Index j = 0; j < m_; ++j) rest.scores[j] += change * row[j];
    }
    // Where samples are one point to within rounding, or all are at their caps.
    const double allowed = REFIT_GAP * size_of(objective_of(beta, rest.scores));
    rest.settled = full || gap_of(rest.problem, rest.limits, rest.values, rest.scores) <= TRIFLE * allowed + rounding_;
    return rest;
  }

  // Solve the program without some samples, or without one copy of each. Where the boxes of the others cannot hold what
  // the planes have, as at nu = 1, they grow until they can.
  Doubles refitted(const std::vector<Index>& leaving) {
    interrupt_();
    Rest left = rest_of(leaving);
    Problem& rest = left.problem;
    Doubles &values = left.values, &scores = left.scores;
    const Doubles& limits = left.limits;
    if (left.settled) return scores;
    const auto score = [&] { compute_scores(rest, beta_of(rest, values).data(), scores.data()); };
    const double objective = objective_of(beta_of(rest, values), scores);
    const double share = size_of(objective) / std::max(std::abs(objective), wanted_.smallest);
    const double rough = found_.optimal ? REFIT_GAP * share : std::max(REFIT_GAP * share, GOAL * wanted_.tol);
    const double gap = m_ <= SMALL_REFIT ? SMALL_REFIT_GAP * share : rough;
    // Each may take a tenth of a fit's steps, and all together twice as many as one fit; then each a few.
    const Index most = refit_work_ <= 2.0 * wanted_.most_work ? most_steps() / 10 : FEW_STEPS * m_;
    const Index steps = descended(rest, limits, values, scores, gap, most).steps;
    refit_work_ += double(m_) * double(steps);
    found_.refit_steps += steps;
    score();
    // What was not found for all is not for the rest, and of many samples it would take too long.
    if (!found_.optimal || m_ > SMALL_REFIT) return scores;
    steady(rest, beta_of(rest, values), scores);
    Optimum<double> at;
    const bool merged = !rest.two || shared_by(rest, values) > SHARED * rest.totals[0];
    const bool exact = climb(rest, states_of(rest, rest.near, merged), merged, REFIT_CLIMBING, at);
    Doubles better = exact ? multipliers_of(rest, at.beta) : Doubles();
    if (better.empty()) return scores;
    Doubles its(m_);
    compute_scores(rest, beta_of(rest, better).data(), its.data());
    const bool nearer = gap_of(rest, limits, better, its) < gap_of(rest, limits, values, scores);
    return nearer ? its : scores;
  }

  // Give a plane's missing mass to its lowest scores that have room.
  void fill_up(const Problem& rest, const Doubles& limits, Doubles& values) {
    for (int plane = 0; plane < (rest.two ? 2 : 1); ++plane) {
      double missing = rest.totals[plane];
      for (Index j = 0; j < m_; ++j) missing -= values[plane * m_ + j];
      for (Index j : lowest_first(plane)) {
        if (missing <= 0) break;
        const double gives = std::min(missing, limits[plane * m_ + j] - values[plane * m_ + j]);
        values[plane * m_ + j] += gives;
        missing -= gives;
      }
    }
  }

  // All samples, the lowest scores of a plane first.
  const std::vector<Index>& lowest_first(int plane) {
    std::vector<Index>& order = orders_[plane];
    if (order.empty()) {
      const double sign = plane == 0 ? 1.0 : -1.0;
      order.resize(m_);
      std::iota(order.begin(), order.end(), Index{0});
      std::stable_sort(order.begin(), order.end(),
                       [&](Index a, Index b) { return sign * found_.scores[a] < sign * found_.scores[b]; });
    }
    return order;
  }

  Problem problem_;
  const Wanted& wanted_;
  const Interrupt& interrupt_;
  const Index m_;
  Doubles caps_, values_, scores_;
  double climbing_ = MOST_CLIMBING;  // what is left of it
  std::vector<Index> orders_[2];
  double refit_work_ = 0;   // steps times samples
  double diagonal_;  // the mean of K's
  double spread_;    // what is left of it without what all samples have in common: their variance in feature space
  double rounding_;  // of a gap
  Fit found_;
};

}  // namespace

Fit fit(Problem problem, const Wanted& wanted, const Interrupt& interrupt) {
  return Solver(std::move(problem), wanted, interrupt).run();
}

}  // namespace slabsvm
