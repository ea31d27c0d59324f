// The optimum as the multipliers of some samples go to targets, from the table of the optimum that they leave.
//
// Where samples change their states only those are solved for: one equation for each sample that changes and one or two
// for the planes. An unknown is the disturbance at a free sample that is free no more, at a bounded one that is free
// now, or at one that changes planes.
//
// Two ways lead to the end:
//
//  * by blocks: flip all states that are wrong, and solve again. Where planes are merged that mostly ends in one to
//    four solves. Where they are apart, a flip moves the planes by more than the slab is wide: blocks are tried only
//    while ever fewer are wrong.
//  * along the path: the optimum is affine in how far the multipliers have gone while states hold. The first sample
//    that meets its bound or its plane changes its state, and so on: 4 to 17 events a row.
#pragma once
#include <array>

#include "table.h"

namespace slabsvm {

template <class T>
class Leaving {
 public:
  // places: where the samples that leave are in the table; targets: what their multipliers go to.
  Leaving(Table<T>& table, const std::vector<Index>& places, const Doubles& targets)
      : table_(table), problem_(table.problem), places_(places), targets_(targets), goes_(table.m, -1) {
    for (std::size_t k = 0; k < places.size(); ++k) goes_[places[k]] = static_cast<int>(k);
  }

  // Go to the end; return whether that was reached. Events: at most so many on a path.
  bool go(int most_events) {
    begin();
    if (flipped()) return true;
    begin();
    // Several events at once may leave states wrong at the end of a path.
    return followed(most_events) && flipped();
  }

  // At the end, in the table's order; scores have the term that is added.
  const Point& at() const { return at_; }

 private:
  // Where planes are merged all that is wrong is flipped so many times at most. Where they are apart, blocks end after
  // so many flips, or so many that leave no fewer wrong, or where more than MANY are.
  static constexpr int FLIPS = 8, APART_FLIPS = 20, APART_PATIENCE = 2;
  static constexpr Index MANY = 30;
  // A room that is less than this, relative to what it is part of, is none.
  static constexpr double NONE = 1e-14;
  // Halvings of an interval, to rounding.
  static constexpr int HALVINGS = 60;
  // A system of more unknowns is no small one: the program is solved anew instead.
  static constexpr std::size_t MOST_UNKNOWNS = 150;

  // What was free and is bounded now, the reverse, and what is free on the other plane.
  enum class Kind { fixed, freed, moved };
  struct Unknown {
    Index at;
    Kind kind;
  };

  void begin() {
    states_ = table_.states;
    for (Index at : places_) states_[at] = OUT;
    at_ = table_.at;
  }

  double target_or_bound(Index at) const {
    return goes_[at] >= 0 ? targets_[goes_[at]] : bound(table_.upper_bounds, states_[at], at);
  }

  // On which plane's side a sample's multiplier counts.
  int side(Index at) const {
    const double beta = table_.at.beta[at];
    return goes_[at] < 0 ? states_[at] : beta > 0 ? 1 : beta < 0 ? -1 : 0;
  }

  // Which plane an unknown was on, or either of merged ones, and which it goes to.
  int own(Index at) const { return table_.states.merged || table_.states[at] < 0; }
  int to(Index at) const { return states_[at] < 0; }

  // What an unknown's equation says of a column: that a multiplier is fixed, or that a sample is on its plane.
  double equation(const T* column, const Unknown& unknown) const {
    const Index at = unknown.at;
    const double on = double(column[table_.m + to(at)]);
    if (unknown.kind == Kind::moved) return double(column[table_.m + own(at)]) - on;
    return unknown.kind == Kind::fixed ? double(column[at]) : double(column[at]) - on;
  }

  // And how far it is from that at the optimum.
  double goal(const Unknown& unknown) const {
    const Index at = unknown.at;
    if (unknown.kind == Kind::fixed) return target_or_bound(at) - table_.at.beta[at];
    const auto& rho = table_.at.rho;
    return rho[to(at)] - (unknown.kind == Kind::moved ? rho[own(at)] : table_.at.scores[at]);
  }

  // How a column changes the sum of multipliers on a side of 0, or with side 0 of all.
  //
  // Columns of samples leave each plane's sum of the optimum's free multipliers what it is; base says what others do.
  // What has changed sides since is moved from one sum to the other.
  double sum_of(const T* column, const std::array<double, 2>& base, const Unknown* unknown, int side) const {
    double sum = 0;
    if (side == 0) {
      sum = base[0] + base[1];
    } else if (table_.states.merged) {
      for (Index k = 0; k < table_.f; ++k)
        if (this->side(k) * side > 0) sum += double(column[k]);
    } else {
      sum = base[side > 0 ? 0 : 1];
      for (const Unknown& each : unknowns_) {
        if (each.kind == Kind::freed) continue;
        const int was = table_.states[each.at] * side, is = this->side(each.at) * side;
        if (was > 0 && is <= 0) sum -= double(column[each.at]);
        if (was < 0 && is > 0) sum += double(column[each.at]);
      }
    }
    const bool freed = unknown && unknown->kind == Kind::freed;
    return freed && (side == 0 || this->side(unknown->at) * side > 0) ? sum + 1.0 : sum;
  }

  // Put the point at the targets for these states; return whether the system is regular.
  bool solve() {
    const Index m = table_.m, f = table_.f;
    const Point& was_at = table_.at;
    const bool merged = states_.merged, were_merged = table_.states.merged;
    unknowns_.clear();
    std::vector<Index> known;     // bounded samples whose multiplier changes
    std::vector<Index> lower;     // free on the lower plane, and before
    double there[3] = {0, 0, 0};  // what the sums are: of both sides, and of all
    for (Index k = 0; k < m; ++k) {
      const bool was = k < f, free = is_free(states_[k]);
      const bool crossed = was && free && !merged && !were_merged && (states_[k] < 0) != (table_.states[k] < 0);
      if (was != free) unknowns_.push_back({k, was ? Kind::fixed : Kind::freed});
      else if (crossed) unknowns_.push_back({k, Kind::moved});
      else if (was && states_[k] == 1) lower.push_back(k);
      const double counts = was || free ? was_at.beta[k] : target_or_bound(k);
      if (counts != was_at.beta[k]) known.push_back(k);
      const int on = side(k);
      there[2] += counts;
      if (on > 0) there[0] += counts;
      if (on < 0) there[1] += counts;
    }
    if (unknowns_.size() > MOST_UNKNOWNS) return false;

    // Columns of the unknowns and of the border, and what each adds to the sums of the optimum's planes.
    std::vector<const T*> columns;
    for (const Unknown& unknown : unknowns_) columns.push_back(table_.column(unknown.at));
    std::vector<std::array<double, 2>> sums(columns.size(), {0.0, 0.0});
    std::vector<T> width;
    columns.push_back(table_.of_sum(0));
    sums.push_back({1.0, 0.0});
    const bool two_borders = !(were_merged && merged);
    if (two_borders) {
      if (were_merged) width = table_.of_width(lower);
      columns.push_back(were_merged ? width.data() : table_.of_sum(1));
      sums.push_back({0.0, were_merged ? 0.0 : 1.0});
    }
    const Index n = static_cast<Index>(unknowns_.size()), size = static_cast<Index>(columns.size());

    // What is known already: bounded samples whose multiplier goes elsewhere.
    std::vector<T> given(table_.width, T(0));
    if (!known.empty()) {
      std::vector<const T*> moving;
      Doubles by;
      for (Index at : known) {
        moving.push_back(table_.column(at));
        by.push_back(target_or_bound(at) - was_at.beta[at]);
      }
      combine(given, moving, by);
    }

    Doubles system(size * size), right(size);
    for (Index e = 0; e < n; ++e) {
      const Unknown& unknown = unknowns_[e];
      for (Index c = 0; c < size; ++c) system[c * size + e] = equation(columns[c], unknown);
      if (unknown.kind == Kind::moved) system[e * size + e] += 1.0;
      right[e] = goal(unknown) - equation(given.data(), unknown);
    }
    // The sums of all, or of each plane.
    for (int plane = 0; plane < (merged ? 1 : 2); ++plane) {
      const int side = merged ? 0 : sign_of(plane);
      const double total = merged ? problem_.totals[0] - problem_.totals[1] : side * problem_.totals[plane];
      for (Index c = 0; c < size; ++c)
        system[c * size + n + plane] = sum_of(columns[c], sums[c], c < n ? &unknowns_[c] : nullptr, side);
      right[n + plane] = total - there[merged ? 2 : plane];
      if (!merged) right[n + plane] -= sum_of(given.data(), {0.0, 0.0}, nullptr, side);
    }
    if (merged && two_borders) {  // both offsets are one
      for (Index c = 0; c < size; ++c) system[c * size + n + 1] = double(columns[c][m]) - double(columns[c][m + 1]);
      right[n + 1] = was_at.rho[1] - was_at.rho[0] - (double(given[m]) - double(given[m + 1]));
    }
    // Equations of scores and disturbances of distances are taken in the unit of K, or pivots would depend on it.
    Doubles rows(size, 1.0), weights(size, 1.0);
    for (Index e = 0; e < n; ++e) {
      if (unknowns_[e].kind != Kind::fixed) rows[e] = 1.0 / table_.unit;
      if (unknowns_[e].kind != Kind::freed) weights[e] = table_.unit;
    }
    if (two_borders && were_merged) weights[n + 1] = table_.unit;
    if (two_borders && merged) rows[n + 1] = 1.0 / table_.unit;
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
    if (!known.empty()) {
      columns.push_back(given.data());
      weights.push_back(1.0);
    }
    std::vector<T> moves(table_.width);
    combine(moves, columns, weights);

    for (int p = 0; p < 2; ++p) at_.rho[p] = was_at.rho[p] + double(moves[m + p]);
    for (Index k = 0; k < f; ++k) {
      at_.beta[k] = was_at.beta[k] + double(moves[k]);
      at_.scores[k] = at_.rho[were_merged ? states_[k] != 1 : table_.states[k] < 0];
    }
    for (Index k = f; k < m; ++k) {
      at_.beta[k] = was_at.beta[k];
      at_.scores[k] = was_at.scores[k] + double(moves[k]);
    }
    for (Index at : known) at_.beta[at] = target_or_bound(at);
    for (Index e = 0; e < n; ++e) {
      const auto [at, kind] = unknowns_[e];
      if (kind == Kind::freed) at_.beta[at] += right[e];
      else at_.scores[at] = at_.rho[own(at)] + right[e];
      if (kind == Kind::fixed) at_.beta[at] = target_or_bound(at);
    }
    return true;
  }

  static void combine(std::vector<T>& out, const std::vector<const T*>& columns, const Doubles& weights) {
    loops().of<T>().combine(out.data(), columns.data(), weights.data(), static_cast<int>(columns.size()),
                            static_cast<Index>(out.size()));
  }

  // By blocks, from these states.
  bool flipped() {
    Index fewest = table_.m;
    int patience = APART_PATIENCE;
    for (int turn = 0; turn < (states_.merged ? FLIPS : APART_FLIPS); ++turn) {
      give_each_plane_one(problem_, table_.upper_bounds, at_.scores, states_);
      if (!solve()) return false;
      Judgement right = judge(problem_, table_.upper_bounds, at_, states_, table_.slack, Table<T>::tolerance);
      if (right.wrong == 0) return true;
      if (!states_.merged || !right.states.merged) {
        patience = right.wrong < fewest ? patience : patience - 1;
        if (patience < 0 || right.wrong > MANY) return false;
        fewest = std::min(fewest, right.wrong);
      }
      states_ = std::move(right.states);
    }
    return false;
  }

  // Along the path, with so many events at most.
  bool followed(int most) {
    const Index m = table_.m;
    Point now = at_;  // how far the path has come
    double t = 0;
    const double slack = NONE * table_.scale;
    for (int turn = 0; turn < most; ++turn) {
      give_each_plane_one(problem_, table_.upper_bounds, now.scores, states_);
      if (!solve()) return false;
      const bool merged = states_.merged;
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
        if (is_free(state)) {
          const double least = NONE * (table_.upper_bounds[k] + table_.upper_bounds[m + k]);
          const Box box = box_of(table_.upper_bounds, states_, k);
          meets(now.beta[k] - box.floor, at_.beta[k] - box.floor, least, k, box.below);
          meets(box.ceiling - now.beta[k], box.ceiling - at_.beta[k], least, k, box.above);
          continue;
        }
        any_between = any_between || (state == 0 && !merged);
        // Beyond a plane, or between both: on which side of each a sample is.
        for (int p = 0; p < 2; ++p) {
          const State sign = sign_of(p);
          const double inward = state == 0 ? sign : -sign;
          if (state == 2 * sign || (state == 0 && !merged))
            meets(inward * (now.scores[k] - now.rho[p]), inward * (at_.scores[k] - at_.rho[p]), slack, k, sign);
        }
      }
      if (!merged && !any_between) {
        const double before = first;
        meets(now.rho[1] - now.rho[0], at_.rho[1] - at_.rho[0], slack, -1, 0);
        joins = first < before;
      }
      if (merged && problem_.planes == 2) {
        // What both planes hold of the same samples must not be less than nothing.
        const auto above = [&](double when) {
          const double share = t < 1.0 ? (when - t) / (1.0 - t) : 1.0;
          double sum = 0;
          for (Index k = 0; k < m; ++k) sum += std::max(now.beta[k] + share * (at_.beta[k] - now.beta[k]), 0.0);
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
        now.beta[k] += share * (at_.beta[k] - now.beta[k]);
        now.scores[k] += share * (at_.scores[k] - now.scores[k]);
      }
      for (int p = 0; p < 2; ++p) now.rho[p] += share * (at_.rho[p] - now.rho[p]);
      t = first;
      if (!joins) states_[who] = becomes;
      else if (merged) part(now.beta, states_);
      else states_.merged = true;
    }
    return false;
  }

  Table<T>& table_;
  const Problem& problem_;
  std::vector<Index> places_;
  Doubles targets_;
  std::vector<int> goes_;  // (m,) which of the samples that leave each is; -1 for none
  States states_;
  Point at_;
  std::vector<Unknown> unknowns_;
};

}  // namespace slabsvm
