#include "left_out.h"

#include <algorithm>
#include <memory>
#include <random>

#include "lapack.h"
#include "loops.h"

namespace slabsvm {

namespace {

// Gaussian vectors of the certificate, and of the check of a single set. Its scores may be off by these shares of how
// much scores differ: by rounding, and by what is added to K.
constexpr int PROBES = 8, CHECKS = 2;
constexpr double LARGEST_ERROR = 1e-6, LARGEST_SHIFT = 1e-4;
// Events of a path at most, with the first table and with others, and how many others there are. What is added to K
// grows by this factor from one to the next.
constexpr int EVENTS = 200, EVENTS_AGAIN = 400, STIFFER_TABLES = 2;
constexpr double STIFFER = 100.0;
// Where a free sample's own entry of the inverse is less than this, relative to 1 / K_jj, no other sample on the plane
// can take what leaves.
constexpr double ALONE = 1e-12;
// With this much room for what both planes hold of the same samples, relative to the lower plane's mass, none is short.
constexpr double AMPLE = 4.0;

// Sums over sets of their changes times Gaussian numbers, in the table's order: (PROBES, m).
struct Certificate {
  Index m;
  Doubles changes, scores;
  std::mt19937_64 random{1};
  std::normal_distribution<double> normal;

  explicit Certificate(Index m) : m(m), changes(PROBES * m, 0.0), scores(PROBES * m, 0.0) {}

  std::array<double, PROBES> draw() {
    std::array<double, PROBES> numbers;
    for (double& each : numbers) each = normal(random);
    return numbers;
  }
};

// How the samples of one column are compared with the planes, all at once.
//
// Of a column V of changes, a multiplier stays in its box where V + beta - floor >= 0 and ceiling - beta - V >= 0, and
// a sample stays on its side of a plane where sign (s + V - rho - V_rho) >= 0. Each is a minimum over V times +-1 plus
// numbers that do not depend on what leaves.
template <class T>
struct Rooms {
  std::vector<T> below, above;          // free: beta - floor, ceiling - beta
  std::vector<T> from_lower, to_upper;  // others: sign (s - rho_1), sign (rho_2 - s)
  T box_slack, plane_slack;
  std::vector<T> positive;              // of merged planes: beta of the free samples
  T most_above = 0;                     // what sum(max(beta_F, 0)) may be

  explicit Rooms(const Table<T>& table) {
    const Problem& problem = table.problem;
    const Index m = table.m, f = table.f;
    double largest = 0;
    for (Index k = 0; k < m; ++k) {
      const double beta = table.beta[k];
      const bool lower = table.merged || table.states[k] > 0, upper = table.merged || table.states[k] < 0;
      below.push_back(static_cast<T>(beta - (upper ? -table.cap2[k] : 0.0)));
      above.push_back(static_cast<T>((lower ? table.cap1[k] : 0.0) - beta));
      from_lower.push_back(static_cast<T>(table.scores[k] - table.rho[0]));
      to_upper.push_back(static_cast<T>(table.rho[1] - table.scores[k]));
      largest = std::max(largest, table.cap1[k] + table.cap2[k]);
    }
    box_slack = static_cast<T>(Table<T>::tolerance * largest);
    plane_slack = static_cast<T>(table.slack);
    if (problem.two && table.merged) {
      double held = 0;
      for (Index k = 0; k < f; ++k) positive.push_back(static_cast<T>(table.beta[k]));
      for (Index k = f; k < m; ++k) held += std::max(table.beta[k], 0.0);
      most_above = static_cast<T>(problem.totals[0] * (1.0 + Table<T>::tolerance) - held);
    }
  }

  // Whether nobody's state changes where a free sample's column is followed by an amount.
  bool hold(const Table<T>& table, const T* column, T amount) const {
    const Index f = table.f, m = table.m, *begins = table.begins;
    if (loops().of<T>().least_sum(column, amount, below.data(), f) < -box_slack) return false;
    if (loops().of<T>().least_sum(column, -amount, above.data(), f) < -box_slack) return false;
    const T low = amount * column[m], high = amount * column[m + 1];
    const auto above_lower = [&](Index from, Index to) {
      return loops().of<T>().least_sum(column + from, amount, from_lower.data() + from, to - from) >= low - plane_slack;
    };
    const auto below_upper = [&](Index from, Index to) {
      return loops().of<T>().least_sum(column + from, -amount, to_upper.data() + from, to - from) >= -high - plane_slack;
    };
    // States 0, 2 and -2.
    const Index from = begins[1], to = begins[2];
    if (from < to && !(above_lower(from, to) && below_upper(from, to))) return false;
    for (Index k = begins[2]; k < begins[3]; ++k)
      if (from_lower[k] + amount * column[k] > low + plane_slack) return false;
    for (Index k = begins[3]; k < begins[4]; ++k)
      if (to_upper[k] - amount * column[k] > -high + plane_slack) return false;
    if (!table.problem.two) return true;
    if (table.merged) return loops().of<T>().sum_above(column, amount, positive.data(), f) <= most_above;
    return table.rho[1] - table.rho[0] + double(high - low) >= -double(plane_slack);
  }
};

// The sets that leave, one after the other.
template <class T>
class Without {
 public:
  Without(const Problem& problem, Optimum<T>& optimum, const Sets& sets, const Refit& hand_on, const Refit& refit,
          const Interrupt& interrupt)
      : problem_(problem), states_(optimum.states), sets_(sets), hand_on_(hand_on), refit_(refit),
        interrupt_(interrupt),
        table_(problem, optimum, interrupt), certificate_(problem.m) {
    found_.scores.resize(sets.samples.size());
    const auto [lowest, highest] = std::minmax_element(table_.scores.begin(), table_.scores.end());
    range_ = *highest - *lowest;
  }

  LeftOut run() {
    std::vector<Index> rest = all_at_once();
    for (Index set : rest) {
      interrupt_();
      one(set);
      if (sizeof(T) == 4 && found_.refitted > 0) return std::move(found_);
    }
    found_.certificate = worst();
    return std::move(found_);
  }

 private:
  bool single(Index set) const { return sets_.begins[set + 1] == sets_.begins[set] + 1; }

  // Give each set's scores where what leaves has no multiplier, or where no state changes; return the other sets.
  std::vector<Index> all_at_once() {
    const Index m = table_.m, f = table_.f, count = static_cast<Index>(sets_.begins.size()) - 1;
    const Rooms<T> rooms(table_);
    // Where there is much more room than mass, no row that leaves takes all of it.
    const bool ample = ample_spare();
    std::vector<Index> rest;
    std::vector<T> weights(PROBES * f, T(0));  // (f, PROBES), column by column
    std::vector<char> went(f, 0);
    std::vector<double> own(f, 0.0);
    for (Index set = 0; set < count; ++set) {
      const Index begin = sets_.begins[set];
      bool moves = false;
      for (Index e = begin; e < sets_.begins[set + 1]; ++e) {
        const Index at = table_.place[sets_.samples[e]];
        found_.scores[e] = table_.scores[at] - problem_.delta * (table_.beta[at] - table_.near[at]);
        moves = moves || (sets_.leaves[e] && sets_.targets[e] != table_.beta[at]);
      }
      if (!moves) continue;
      const Index at = table_.place[sets_.samples[begin]];
      if (!single(set) || at >= f) {
        rest.push_back(set);
        continue;
      }
      const T* column = table_.column(at);
      const double move = sets_.targets[begin] - table_.beta[at], size = double(column[at]);
      if (!(size > ALONE / table_.kernel(at, at)) || !rooms.hold(table_, column, static_cast<T>(move / size)) ||
          !(ample || has_spare(followed(column, move / size), {at}))) {
        rest.push_back(set);
        continue;
      }
      const double amount = move / size;
      const int plane = table_.merged || table_.states[at] > 0 ? 0 : 1;
      found_.scores[begin] = table_.rho[plane] + amount * (double(column[m + plane]) + 1.0) - problem_.delta * move;
      ++found_.at_once;
      went[at] = 1;
      own[at] = amount;
      const auto numbers = certificate_.draw();
      for (int r = 0; r < PROBES; ++r) weights[r * f + at] = static_cast<T>(amount * numbers[r]);
    }
    if (found_.at_once == 0) return rest;
    std::vector<T> moved(PROBES * table_.width);
    lapack::gemm('N', 'N', table_.width, PROBES, f, 1.0, table_.column(0), table_.width, weights.data(), f, 0.0,
                 moved.data(), table_.width);
    for (int r = 0; r < PROBES; ++r) {
      const T* sum = moved.data() + r * table_.width;
      double* changes = certificate_.changes.data() + r * m;
      double* scores = certificate_.scores.data() + r * m;
      for (Index k = 0; k < f; ++k) {
        const int plane = table_.merged || table_.states[k] > 0 ? 0 : 1;
        changes[k] += double(sum[k]);
        scores[k] += double(sum[m + plane]) + double(weights[r * f + k]) - problem_.delta * double(sum[k]);
      }
      for (Index k = f; k < m; ++k) scores[k] += double(sum[k]);
    }
    return rest;
  }

  bool ample_spare() const {
    double spare = 0;
    for (Index k = 0; k < table_.m && problem_.two; ++k)
      spare += std::min(table_.cap1[k] - std::max(table_.beta[k], 0.0),
                        table_.cap2[k] - std::max(-table_.beta[k], 0.0));
    return !problem_.two || spare >= AMPLE * problem_.totals[0];
  }

  // The multipliers after a free sample's column is followed by an amount.
  Doubles followed(const T* column, double amount) const {
    Doubles beta = table_.beta;
    for (Index k = 0; k < table_.f; ++k) beta[k] += amount * double(column[k]);
    return beta;
  }

  // Whether K times the changes of multipliers is the changes of scores, as far as two Gaussian vectors tell.
  bool holds(const Table<T>& table, const Leaving<T>& at) {
    const Index m = table.m;
    if (checks_.empty()) {
      for (Index k = 0; k < CHECKS * m; ++k) checks_.push_back(certificate_.normal(certificate_.random));
      images_.resize(CHECKS * m);
      lapack::symm('L', 'L', m, CHECKS, 1.0, problem_.K, problem_.stride, checks_.data(), m, 0.0, images_.data(), m);
    }
    double moves = 0;
    for (Index k = 0; k < m; ++k) moves = std::max(moves, std::abs(at.beta()[k] - table.near[k]));
    if (table.problem.delta * moves > LARGEST_SHIFT * range_ + table_.slack) return false;
    for (int r = 0; r < CHECKS; ++r) {
      double off = 0;
      for (Index k = 0; k < m; ++k) {
        const Index j = r * m + table.order[k];
        const double change = at.beta()[k] - table.beta[k];
        const double moved = at.scores()[k] - table.scores[k] - table.problem.delta * change;
        off += checks_[j] * moved - images_[j] * change;
      }
      if (!(std::abs(off) <= std::sqrt(double(m)) * (LARGEST_ERROR * range_ + table_.slack))) return false;
    }
    return true;
  }

  void one(Index set) {
    std::vector<Index> places, leaving;
    Doubles targets;
    for (Index e = sets_.begins[set]; e < sets_.begins[set + 1]; ++e) {
      if (!sets_.leaves[e]) continue;
      leaving.push_back(sets_.samples[e]);
      places.push_back(table_.place[sets_.samples[e]]);
      targets.push_back(sets_.targets[e]);
    }
    if (const Doubles scores = hand_on_(leaving); !scores.empty()) {
      ++found_.handed_on;
      give(set, scores);
      return;
    }
    if (has_room(places)) {
      Leaving<T> first(table_, places, targets);
      if (first.go(EVENTS) && has_spare(first.beta(), places) && holds(table_, first)) {
        ++found_.stepwise;
        take(set, table_, first);
        return;
      }
      if (sizeof(T) == 4) {
        ++found_.refitted;
        return;
      }
      for (int level = 0; level < STIFFER_TABLES; ++level) {
        Table<T>* other = stiffer(level);
        if (other == nullptr) continue;
        for (std::size_t k = 0; k < leaving.size(); ++k) places[k] = other->place[leaving[k]];
        Leaving<T> second(*other, places, targets);
        if (second.go(EVENTS_AGAIN) && has_spare(second.beta(), places) && holds(*other, second)) {
          ++found_.again;
          take(set, *other, second);
          return;
        }
      }
    }
    ++found_.refitted;
    give(set, refit_(leaving));
  }

  void give(Index set, const Doubles& scores) {
    for (Index e = sets_.begins[set]; e < sets_.begins[set + 1]; ++e) found_.scores[e] = scores[sets_.samples[e]];
  }

  // Whether the boxes of those that stay can hold what each plane has.
  bool has_room(const std::vector<Index>& places) const {
    for (int plane = 0; plane < (problem_.two ? 2 : 1); ++plane) {
      const Doubles& caps = plane == 0 ? table_.cap1 : table_.cap2;
      double room = 0;
      for (double cap : caps) room += cap;
      for (Index at : places) room -= caps[at];
      if (room < problem_.totals[plane] * (1.0 + 1e-9)) return false;
    }
    return true;
  }

  // Whether samples have room for the mass that both planes hold of the same ones, which beta does not show.
  bool has_spare(const Doubles& beta, const std::vector<Index>& places) const {
    if (!problem_.two) return true;
    double missing = problem_.totals[0], spare = 0;
    const auto room = [&](Index k) {
      return std::min(table_.cap1[k] - std::max(beta[k], 0.0), table_.cap2[k] - std::max(-beta[k], 0.0));
    };
    for (Index k = 0; k < table_.m; ++k) {
      missing -= std::max(beta[k], 0.0);
      spare += std::max(room(k), 0.0);
    }
    for (Index at : places) spare -= std::max(room(at), 0.0);
    return missing <= 1e-9 * problem_.totals[0] || missing <= spare;
  }

  // The table of the same optimum with more added to K, which does not move it, but what leaves it; nothing if there is
  // none.
  Table<T>* stiffer(int level) {
    Stiffer& other = stiffer_[level];
    if (other.tried) return other.table.get();
    other.tried = true;
    other.problem = std::make_unique<Problem>(problem_);
    other.problem->delta = problem_.steadier * std::pow(STIFFER, level + 1);
    for (Index k = 0; k < table_.m; ++k) other.problem->near[table_.order[k]] = table_.beta[k];
    Optimum<T> optimum;
    if (find_optimum<T>(*other.problem, states_, table_.merged, 10, optimum, interrupt_))
      other.table = std::make_unique<Table<T>>(*other.problem, optimum, interrupt_);
    return other.table.get();
  }

  // Take the scores of a set from where its multipliers came to, and what the certificate asks.
  void take(Index set, const Table<T>& table, const Leaving<T>& at) {
    const Index m = table.m;
    const double delta = table.problem.delta;
    for (Index e = sets_.begins[set]; e < sets_.begins[set + 1]; ++e) {
      const Index k = table.place[sets_.samples[e]];
      found_.scores[e] = at.scores()[k] - delta * (at.beta()[k] - table.near[k]);
    }
    const auto numbers = certificate_.draw();
    for (Index k = 0; k < m; ++k) {
      const Index here = table_.place[table.order[k]];
      const double change = at.beta()[k] - table.beta[k];
      const double moved = at.scores()[k] - table.scores[k] - delta * change;
      for (int r = 0; r < PROBES; ++r) {
        certificate_.changes[r * m + here] += numbers[r] * change;
        certificate_.scores[r * m + here] += numbers[r] * moved;
      }
    }
  }

  // By how much K times the changes is off, relative to the offsets.
  double worst() const {
    const Index m = table_.m;
    Doubles changes(PROBES * m), images(PROBES * m);
    for (int r = 0; r < PROBES; ++r)
      for (Index k = 0; k < m; ++k) changes[r * m + table_.order[k]] = certificate_.changes[r * m + k];
    lapack::symm('L', 'L', m, PROBES, 1.0, problem_.K, problem_.stride, changes.data(), m, 0.0, images.data(), m);
    double worst = 0;
    for (int r = 0; r < PROBES; ++r)
      for (Index k = 0; k < m; ++k)
        if (const double off = std::abs(images[r * m + table_.order[k]] - certificate_.scores[r * m + k]);
            !(off <= worst))
          worst = off;
    return worst / table_.scale;
  }

  const Problem& problem_;
  const States states_;
  const Sets& sets_;
  const Refit &hand_on_, &refit_;
  const Interrupt& interrupt_;
  Table<T> table_;
  Certificate certificate_;
  LeftOut found_;
  double range_;             // by how much scores differ
  Doubles checks_, images_;  // (CHECKS, m), in the order of samples: Gaussian vectors, and K times them
  struct Stiffer {
    bool tried = false;
    std::unique_ptr<Problem> problem;
    std::unique_ptr<Table<T>> table;
  };
  Stiffer stiffer_[STIFFER_TABLES];
};

}  // namespace

template <class T>
LeftOut left_out(const Problem& problem, Optimum<T>& optimum, const Sets& sets, const Refit& hand_on,
                 const Refit& refit, const Interrupt& interrupt) {
  return Without<T>(problem, optimum, sets, hand_on, refit, interrupt).run();
}

template LeftOut left_out<float>(const Problem&, Optimum<float>&, const Sets&, const Refit&, const Refit&,
                                 const Interrupt&);
template LeftOut left_out<double>(const Problem&, Optimum<double>&, const Sets&, const Refit&, const Refit&,
                                  const Interrupt&);

}  // namespace slabsvm
