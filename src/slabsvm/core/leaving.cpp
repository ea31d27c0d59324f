#include "leaving.h"

#include <algorithm>

#include "lapack.h"
#include "loops.h"

namespace slabsvm {

namespace {

// Where planes are merged all that is wrong is flipped so many times at most. Where they are apart, blocks end after so
// many flips that leave no fewer wrong, or where more than MANY are.
constexpr int FLIPS = 8, APART_FLIPS = 20, APART_PATIENCE = 2;  // of apart planes at most APART_FLIPS
constexpr Index MANY = 30;
// A room that is less than this, relative to what it is part of, is none.
constexpr double NONE = 1e-14;
// Halvings of an interval, to rounding.
constexpr int HALVINGS = 60;
// A system of more unknowns is no small one: the program is solved anew instead.
constexpr std::size_t MOST_UNKNOWNS = 150;

}  // namespace

template <class T>
Leaving<T>::Leaving(Table<T>& table, const std::vector<Index>& places, const Doubles& targets)
    : table_(table), problem_(table.problem), places_(places), targets_(targets), goes_(table.m, -1) {
  for (std::size_t k = 0; k < places.size(); ++k) goes_[places[k]] = static_cast<int>(k);
}

template <class T>
void Leaving<T>::begin() {
  states_ = table_.states;
  for (Index at : places_) states_[at] = OUT;
  merged_ = table_.merged;
  beta_ = table_.beta;
  scores_ = table_.scores;
  rho_[0] = table_.rho[0], rho_[1] = table_.rho[1];
}

template <class T>
bool Leaving<T>::go(int most_events) {
  begin();
  if (flipped()) return true;
  begin();
  // Several events at once may leave states wrong at the end of a path.
  return followed(most_events) && flipped();
}

template <class T>
int Leaving<T>::side(Index at) const {
  if (goes_[at] < 0) return states_[at];
  const double beta = table_.beta[at];
  return beta > 0 ? 1 : beta < 0 ? -1 : 0;
}

// What an unknown's equation says of a column: that a multiplier is fixed, or that a sample is on its plane.
template <class T>
double Leaving<T>::equation(const T* column, const Unknown& unknown) const {
  const Index m = table_.m, at = unknown.at;
  const int to = states_[at] < 0 ? 1 : 0, own = table_.merged || table_.states[at] < 0 ? 1 : 0;
  switch (unknown.kind) {
    case Kind::fixed: return double(column[at]);
    case Kind::freed: return double(column[at]) - double(column[m + to]);
    default: return double(column[m + own]) - double(column[m + to]);
  }
}

// How a column changes the sum of multipliers on a side of 0, or with side 0 of all.
//
// Columns of samples leave each plane's sum of the optimum's free multipliers what it is; base_sums says what others
// do. What has changed sides since is moved from one sum to the other.
template <class T>
double Leaving<T>::sum_of(const T* column, const Doubles& base_sums, Index unknown, int side) const {
  double sum = 0;
  if (side == 0) {
    sum = base_sums[0] + base_sums[1];
  } else if (table_.merged) {
    for (Index k = 0; k < table_.f; ++k)
      if (this->side(k) * side > 0) sum += double(column[k]);
  } else {
    sum = base_sums[side > 0 ? 0 : 1];
    for (const Unknown& each : unknowns_) {
      if (each.kind == Kind::freed) continue;
      const int was = table_.states[each.at], is = this->side(each.at);
      if (was * side > 0 && is * side <= 0) sum -= double(column[each.at]);
      if (was * side < 0 && is * side > 0) sum += double(column[each.at]);
    }
  }
  const bool freed = unknown >= 0 && unknowns_[unknown].kind == Kind::freed;
  if (freed && (side == 0 || this->side(unknowns_[unknown].at) * side > 0)) sum += 1.0;
  return sum;
}

template <class T>
bool Leaving<T>::solve() {
  const Index m = table_.m, f = table_.f;
  unknowns_.clear();
  known_.clear();
  double there[3] = {0, 0, 0};  // what the sums are: of both sides, and of all
  std::vector<Index> lower;     // free on the lower plane, and before
  for (Index k = 0; k < m; ++k) {
    const bool was = k < f, free = is_free(states_[k]);
    const bool apart = !merged_ && !table_.merged;
    const bool crossed = was && free && apart && (states_[k] < 0) != (table_.states[k] < 0);
    if (was != free) unknowns_.push_back({k, was ? Kind::fixed : Kind::freed});
    else if (crossed) unknowns_.push_back({k, Kind::moved});
    else if (was && states_[k] == 1) lower.push_back(k);
    if (!was && !free && target_or_bound(k) != table_.beta[k]) known_.push_back(k);
    const double counts = was || free ? table_.beta[k] : target_or_bound(k);
    const int on = side(k);
    there[2] += counts;
    if (on > 0) there[0] += counts;
    if (on < 0) there[1] += counts;
  }
  if (unknowns_.size() > MOST_UNKNOWNS) return false;

  // Columns of the unknowns and of the border, and what each adds to the sums of the optimum's planes.
  std::vector<const T*> columns;
  std::vector<Doubles> sums;
  for (const Unknown& unknown : unknowns_) {
    columns.push_back(table_.column(unknown.at));
    sums.push_back({0.0, 0.0});
  }
  std::vector<T> width;
  columns.push_back(table_.of_sum(0));
  sums.push_back({1.0, 0.0});
  const bool two_borders = !(table_.merged && merged_);
  if (two_borders && table_.merged) {
    width = table_.of_width(lower);
    columns.push_back(width.data());
    sums.push_back({0.0, 0.0});
  } else if (two_borders) {
    columns.push_back(table_.of_sum(1));
    sums.push_back({0.0, 1.0});
  }
  const Index n = static_cast<Index>(unknowns_.size()), size = static_cast<Index>(columns.size());

  // What is known already: bounded samples whose multiplier goes elsewhere.
  std::vector<T> given(table_.width, T(0));
  if (!known_.empty()) {
    std::vector<const T*> moving;
    Doubles by;
    for (Index at : known_) {
      moving.push_back(table_.column(at));
      by.push_back(target_or_bound(at) - table_.beta[at]);
    }
    loops().of<T>().combine(given.data(), moving.data(), by.data(), static_cast<int>(moving.size()), table_.width);
  }

  Doubles system(size * size), right(size);
  for (Index e = 0; e < n; ++e) {
    const Unknown& unknown = unknowns_[e];
    const int to = states_[unknown.at] < 0 ? 1 : 0, own = table_.merged || table_.states[unknown.at] < 0 ? 1 : 0;
    for (Index c = 0; c < size; ++c) system[c * size + e] = equation(columns[c], unknown);
    double goal = 0;
    switch (unknown.kind) {
      case Kind::fixed: goal = target_or_bound(unknown.at) - table_.beta[unknown.at]; break;
      case Kind::freed: goal = table_.rho[to] - table_.scores[unknown.at]; break;
      case Kind::moved:
        goal = table_.rho[to] - table_.rho[own];
        system[e * size + e] += 1.0;
        break;
    }
    right[e] = goal - equation(given.data(), unknown);
  }
  const Doubles none{0.0, 0.0};
  if (merged_) {
    // The sum of all, and that both offsets are one.
    const double total = problem_.totals[0] - problem_.totals[1];
    for (Index c = 0; c < size; ++c) system[c * size + n] = sum_of(columns[c], sums[c], c < n ? c : -1, 0);
    right[n] = total - there[2];
    if (two_borders) {
      for (Index c = 0; c < size; ++c) system[c * size + n + 1] = double(columns[c][m]) - double(columns[c][m + 1]);
      right[n + 1] = table_.rho[1] - table_.rho[0] - (double(given[m]) - double(given[m + 1]));
    }
  } else {
    for (int plane = 0; plane < 2; ++plane) {
      const int side = plane == 0 ? 1 : -1;
      for (Index c = 0; c < size; ++c) system[c * size + n + plane] = sum_of(columns[c], sums[c], c < n ? c : -1, side);
      right[n + plane] = side * problem_.totals[plane] - there[plane] - sum_of(given.data(), none, -1, side);
    }
  }
  // Equations of scores and disturbances of distances are taken in the unit of K, or pivots would depend on it.
  Doubles rows(size, 1.0), weights(size, 1.0);
  for (Index e = 0; e < n; ++e) {
    if (unknowns_[e].kind != Kind::fixed) rows[e] = 1.0 / table_.unit;
    if (unknowns_[e].kind != Kind::freed) weights[e] = table_.unit;
  }
  if (two_borders && table_.merged) weights[n + 1] = table_.unit;
  if (two_borders && merged_) rows[n + 1] = 1.0 / table_.unit;
  for (Index c = 0; c < size; ++c)
    for (Index e = 0; e < size; ++e) system[c * size + e] *= rows[e] * weights[c];
  for (Index e = 0; e < size; ++e) right[e] *= rows[e];
  std::vector<int> pivots(size);
  int failed;
  lapack::gesv(size, 1, system.data(), size, pivots.data(), right.data(), size, &failed);
  if (failed) return false;
  for (Index e = 0; e < size; ++e) {
    right[e] *= weights[e];
    if (!std::isfinite(right[e])) return false;
  }
  weights = right;
  if (!known_.empty()) {
    columns.push_back(given.data());
    weights.push_back(1.0);
  }
  std::vector<T> moves(table_.width);
  loops().of<T>().combine(moves.data(), columns.data(), weights.data(), static_cast<int>(columns.size()), table_.width);

  rho_[0] = table_.rho[0] + double(moves[m]);
  rho_[1] = table_.rho[1] + double(moves[m + 1]);
  for (Index k = 0; k < f; ++k) {
    beta_[k] = table_.beta[k] + double(moves[k]);
    const int own = table_.merged ? (states_[k] == 1 ? 0 : 1) : (table_.states[k] < 0 ? 1 : 0);
    scores_[k] = rho_[own];
  }
  for (Index k = f; k < m; ++k) {
    beta_[k] = table_.beta[k];
    scores_[k] = table_.scores[k] + double(moves[k]);
  }
  for (Index at : known_) beta_[at] = target_or_bound(at);
  for (Index e = 0; e < n; ++e) {
    const Unknown& unknown = unknowns_[e];
    if (unknown.kind == Kind::freed) {
      beta_[unknown.at] += right[e];
      continue;
    }
    const int own = table_.merged || table_.states[unknown.at] < 0 ? 1 : 0;
    scores_[unknown.at] = rho_[own] + right[e];
    if (unknown.kind == Kind::fixed) beta_[unknown.at] = target_or_bound(unknown.at);
  }
  return true;
}

template <class T>
bool Leaving<T>::flipped() {
  Index fewest = table_.m;
  int patience = APART_PATIENCE;
  for (int turn = 0; turn < (merged_ ? FLIPS : APART_FLIPS); ++turn) {
    give_each_plane_one(problem_, table_.cap1.data(), table_.cap2.data(), scores_.data(), states_, merged_);
    if (!solve()) return false;
    Judgement right = judge(problem_, table_.cap1.data(), table_.cap2.data(), here(), states_, merged_,
                            table_.slack, Table<T>::tolerance);
    if (right.wrong == 0) return true;
    if (!merged_ || !right.merged) {
      patience = right.wrong < fewest ? patience : patience - 1;
      if (patience < 0 || right.wrong > MANY) return false;
      fewest = std::min(fewest, right.wrong);
    }
    states_ = std::move(right.states);
    merged_ = right.merged;
  }
  return false;
}

template <class T>
bool Leaving<T>::followed(int most) {
  const Index m = table_.m;
  Doubles beta = beta_, scores = scores_;  // how far the path has come
  double rho[2] = {rho_[0], rho_[1]}, t = 0;
  const double slack = NONE * table_.scale;
  for (int turn = 0; turn < most; ++turn) {
    give_each_plane_one(problem_, table_.cap1.data(), table_.cap2.data(), scores.data(), states_, merged_);
    if (!solve()) return false;
    // The first event on the way from here to the end: where some room is used up.
    double first = 1.0;
    Index who = -1;
    State becomes = 0;
    bool joins = false, any_between = false;
    const auto meets = [&](double room, double later, double least, Index at, State next) {
      if (!(later < -least && later < room)) return;
      const double when = t + (1.0 - t) * std::max(room, 0.0) / (std::max(room, 0.0) - later);
      if (when < first) first = when, who = at, becomes = next;
    };
    for (Index k = 0; k < m; ++k) {
      const State state = states_[k];
      const double least = NONE * (table_.cap1[k] + table_.cap2[k]);
      if (is_free(state)) {
        const double floor = merged_ || state == -1 ? -table_.cap2[k] : 0.0;
        const double ceiling = merged_ || state == 1 ? table_.cap1[k] : 0.0;
        meets(beta[k] - floor, beta_[k] - floor, least, k, merged_ || state == -1 ? -2 : 0);
        meets(ceiling - beta[k], ceiling - beta_[k], least, k, merged_ || state == 1 ? 2 : 0);
      } else if (state == 2) {
        meets(rho[0] - scores[k], rho_[0] - scores_[k], slack, k, 1);
      } else if (state == -2) {
        meets(scores[k] - rho[1], scores_[k] - rho_[1], slack, k, -1);
      } else if (state == 0 && !merged_) {
        any_between = true;
        meets(scores[k] - rho[0], scores_[k] - rho_[0], slack, k, 1);
        meets(rho[1] - scores[k], rho_[1] - scores_[k], slack, k, -1);
      }
    }
    if (!merged_ && !any_between) {
      const double before = first;
      meets(rho[1] - rho[0], rho_[1] - rho_[0], slack, -1, 0);
      joins = first < before;
    }
    if (merged_ && problem_.two) {
      // What both planes hold of the same samples must not be less than nothing.
      const auto above = [&](double when) {
        const double share = t < 1.0 ? (when - t) / (1.0 - t) : 1.0;
        double sum = 0;
        for (Index k = 0; k < m; ++k) sum += std::max(beta[k] + share * (beta_[k] - beta[k]), 0.0);
        return sum - problem_.totals[0];
      };
      if (above(first) > Table<T>::tolerance * problem_.totals[0]) {
        double least = t, latest = first;
        for (int halving = 0; halving < HALVINGS; ++halving) {
          const double middle = 0.5 * (least + latest);
          (above(middle) <= 0 ? least : latest) = middle;
        }
        first = least, who = -1, joins = true;
      }
    }
    if (who < 0 && !joins) return true;
    const double share = (first - t) / (1.0 - t);
    for (Index k = 0; k < m; ++k) {
      beta[k] += share * (beta_[k] - beta[k]);
      scores[k] += share * (scores_[k] - scores[k]);
    }
    for (int p = 0; p < 2; ++p) rho[p] += share * (rho_[p] - rho[p]);
    t = first;
    if (joins) {
      merged_ = !merged_;
      if (!merged_)
        for (Index k = 0; k < m; ++k)
          if (is_free(states_[k])) states_[k] = beta[k] >= 0 ? 1 : -1;
    } else {
      states_[who] = becomes;
    }
  }
  return false;
}

template class Leaving<float>;
template class Leaving<double>;

}  // namespace slabsvm
