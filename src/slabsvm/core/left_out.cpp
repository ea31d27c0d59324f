#include "left_out.h"

#include <optional>
#include <random>

#include "leaving.h"

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
  std::vector<T> below, above;       // free: beta - floor, ceiling - beta
  std::vector<T> beyond[2];          // of each plane: sign (s - rho)
  T box_slack, plane_slack;
  std::vector<T> positive;           // of merged planes: beta of the free samples
  T most_above = 0;                  // what sum(max(beta_F, 0)) may be

  explicit Rooms(const Table<T>& table) : plane_slack(static_cast<T>(table.slack)) {
    const Problem& problem = table.problem;
    const Index m = table.m, f = table.f;
    const Point& at = table.at;
    double largest = 0;
    for (Index k = 0; k < m; ++k) {
      const Box box = box_of(table.upper_bounds, table.states, k);
      below.push_back(static_cast<T>(at.beta[k] - box.floor));
      above.push_back(static_cast<T>(box.ceiling - at.beta[k]));
      for (int p = 0; p < 2; ++p) beyond[p].push_back(static_cast<T>(sign_of(p) * (at.scores[k] - at.rho[p])));
      largest = std::max(largest, table.upper_bounds[k] + table.upper_bounds[m + k]);
    }
    box_slack = static_cast<T>(Table<T>::tolerance * largest);
    if (problem.planes == 2 && table.states.merged) {
      double held = 0;
      for (Index k = 0; k < f; ++k) positive.push_back(static_cast<T>(at.beta[k]));
      for (Index k = f; k < m; ++k) held += std::max(at.beta[k], 0.0);
      most_above = static_cast<T>(problem.totals[0] * (1.0 + Table<T>::tolerance) - held);
    }
  }

  // Whether nobody's state changes where a free sample's column is followed by an amount.
  bool hold(const Table<T>& table, const T* column, T amount) const {
    const Index f = table.f, m = table.m, *begins = table.begins, between = begins[2], bounded = begins[3];
    const LoopsOf<T>& loops = slabsvm::loops().of<T>();
    if (loops.least_sum(column, amount, below.data(), f) < -box_slack) return false;
    if (loops.least_sum(column, -amount, above.data(), f) < -box_slack) return false;
    for (int p = 0; p < 2; ++p) {
      const T outwards = sign_of(p) * amount, edge = outwards * column[m + p];
      const T* rooms = beyond[p].data();
      if (between < bounded && !(loops.least_sum(column + between, outwards, rooms + between, bounded - between) >=
                                 edge - plane_slack))
        return false;
      for (Index k = begins[3 + p]; k < begins[4 + p]; ++k)
        if (rooms[k] + outwards * column[k] > edge + plane_slack) return false;
    }
    if (table.problem.planes == 1) return true;
    if (table.states.merged) return loops.sum_above(column, amount, positive.data(), f) <= most_above;
    const T low = amount * column[m], high = amount * column[m + 1];
    return table.at.rho[1] - table.at.rho[0] + double(high - low) >= -double(plane_slack);
  }
};

// The sets that leave, one after the other.
template <class T>
class Without {
 public:
  Without(const Problem& problem, Optimum<T>& optimum, const Sets& sets, const Refit& hand_on, const Refit& refit,
          const Interrupt& interrupt)
      : problem_(problem), states_(optimum.states), sets_(sets), hand_on_(hand_on), refit_(refit),
        interrupt_(interrupt), table_(problem, optimum, interrupt), certificate_(problem.m) {
    found_.scores.resize(sets.samples.size());
    const auto [lowest, highest] = std::minmax_element(table_.at.scores.begin(), table_.at.scores.end());
    range_ = *highest - *lowest;
  }

  LeftOut run() {
    for (Index set : all_at_once()) {
      interrupt_();
      one(set);
      if (sizeof(T) == 4 && found_.refitted > 0) return std::move(found_);
    }
    found_.certificate = worst();
    return std::move(found_);
  }

 private:
  // Give each set's scores where what leaves has no multiplier, or where no state changes; return the other sets.
  std::vector<Index> all_at_once() {
    const Index m = table_.m, f = table_.f, width = table_.width;
    const Point& at = table_.at;
    const Rooms<T> rooms(table_);
    // Where there is much more room than mass, no row that leaves takes all of it.
    const bool ample = ample_spare();
    std::vector<Index> rest;
    std::vector<T> weights(PROBES * f, T(0));  // (f, PROBES), column by column
    for (Index set = 0; set < sets_.count(); ++set) {
      sets_.give(set, found_.scores, [&](Index sample) {
        const Index k = table_.place[sample];
        return at.scores[k] - problem_.delta * (at.beta[k] - table_.near[k]);
      });
      const Index begin = sets_.begins[set];
      bool moves = false;
      for (Index e = begin; e < sets_.begins[set + 1]; ++e)
        moves = moves || (sets_.leaves[e] && sets_.targets[e] != at.beta[table_.place[sets_.samples[e]]]);
      if (!moves) continue;
      rest.push_back(set);
      const Index k = table_.place[sets_.samples[begin]];
      if (sets_.begins[set + 1] != begin + 1 || k >= f) continue;
      const T* column = table_.column(k);
      const double move = sets_.targets[begin] - at.beta[k], size = double(column[k]), amount = move / size;
      if (!(size > ALONE / (problem_.diagonal(table_.order[k]) + problem_.delta)) ||
          !rooms.hold(table_, column, static_cast<T>(amount)) || !(ample || has_spare(followed(column, amount), {k})))
        continue;
      rest.pop_back();
      const int plane = table_.plane_of(k);
      found_.scores[begin] = at.rho[plane] + amount * (double(column[m + plane]) + 1.0) - problem_.delta * move;
      ++found_.at_once;
      const auto numbers = certificate_.draw();
      for (int r = 0; r < PROBES; ++r) weights[r * f + k] = static_cast<T>(amount * numbers[r]);
    }
    if (found_.at_once == 0) return rest;
    std::vector<T> moved(PROBES * width);
    lapack::gemm('N', 'N', width, PROBES, f, 1.0, table_.column(0), width, weights.data(), f, 0.0, moved.data(), width);
    for (int r = 0; r < PROBES; ++r) {
      const T* sum = moved.data() + r * width;
      double* changes = certificate_.changes.data() + r * m;
      double* scores = certificate_.scores.data() + r * m;
      for (Index k = 0; k < f; ++k) {
        changes[k] += double(sum[k]);
        scores[k] += double(sum[m + table_.plane_of(k)]) + double(weights[r * f + k]) - problem_.delta * double(sum[k]);
      }
      for (Index k = f; k < m; ++k) scores[k] += double(sum[k]);
    }
    return rest;
  }

  // A sample's room for what both planes hold of it.
  double room(const Doubles& beta, Index k) const {
    return std::min(table_.upper_bounds[k] - std::max(beta[k], 0.0),
                    table_.upper_bounds[table_.m + k] - std::max(-beta[k], 0.0));
  }

  bool ample_spare() const {
    if (problem_.planes == 1) return true;
    double spare = 0;
    for (Index k = 0; k < table_.m; ++k) spare += room(table_.at.beta, k);
    return spare >= AMPLE * problem_.totals[0];
  }

  // Whether samples have room for the mass that both planes hold of the same ones, which beta does not show.
  bool has_spare(const Doubles& beta, const std::vector<Index>& places) const {
    if (problem_.planes == 1) return true;
    double missing = problem_.totals[0], spare = 0;
    for (Index k = 0; k < table_.m; ++k) {
      missing -= std::max(beta[k], 0.0);
      spare += std::max(room(beta, k), 0.0);
    }
    for (Index k : places) spare -= std::max(room(beta, k), 0.0);
    return missing <= 1e-9 * problem_.totals[0] || missing <= spare;
  }

  // Whether the boxes of those that stay can hold what each plane has.
  bool has_room(const std::vector<Index>& places) const {
    for (int plane = 0; plane < problem_.planes; ++plane) {
      const double* upper_bounds = table_.upper_bounds.data() + plane * table_.m;
      double room = 0;
      for (Index k = 0; k < table_.m; ++k) room += upper_bounds[k];
      for (Index k : places) room -= upper_bounds[k];
      if (room < problem_.totals[plane] * (1.0 + 1e-9)) return false;
    }
    return true;
  }

  // The multipliers after a free sample's column is followed by an amount.
  Doubles followed(const T* column, double amount) const {
    Doubles beta = table_.at.beta;
    for (Index k = 0; k < table_.f; ++k) beta[k] += amount * double(column[k]);
    return beta;
  }

  // Leave a set out that did not leave with the others.
  void one(Index set) {
    const auto leavers = sets_.leaving(set);
    if (const Doubles scores = hand_on_(leavers.samples); !scores.empty()) {
      ++found_.handed_on;
      give(set, scores);
      return;
    }
    const auto places_in = [&](const Table<T>& table) {
      std::vector<Index> places;
      for (Index sample : leavers.samples) places.push_back(table.place[sample]);
      return places;
    };
    const auto led = [&](Table<T>& table, int events) {
      const std::vector<Index> places = places_in(table);
      Leaving<T> at(table, places, leavers.targets);
      const bool there = at.go(events) && has_spare(at.at().beta, places) && holds(table, at.at());
      if (there) take(set, table, at.at());
      return there;
    };
    const bool fits = has_room(places_in(table_));
    if (fits) {
      if (led(table_, EVENTS)) {
        ++found_.stepwise;
        return;
      }
      for (int level = 0; sizeof(T) == 8 && level < STIFFER_TABLES; ++level)
        if (Table<T>* table = stiffer(level); table != nullptr && led(*table, EVENTS_AGAIN)) {
          ++found_.again;
          return;
        }
    }
    ++found_.refitted;
    if (sizeof(T) == 8 || !fits) give(set, refit_(leavers.samples));
  }

  void give(Index set, const Doubles& scores) {
    sets_.give(set, found_.scores, [&](Index sample) { return scores[sample]; });
  }

  // The table of the same optimum with more added to K, which does not move it, but what leaves it; nothing if there is
  // none.
  Table<T>* stiffer(int level) {
    auto& [tried, problem, table] = stiffer_[level];
    if (!tried) {
      tried = true;
      problem = problem_;
      problem->delta = problem_.steadier * std::pow(STIFFER, level + 1);
      for (Index k = 0; k < table_.m; ++k) problem->near[table_.order[k]] = table_.at.beta[k];
      Optimum<T> optimum;
      if (find_optimum<T>(*problem, states_, 10, optimum, interrupt_)) table.emplace(*problem, optimum, interrupt_);
    }
    return table ? &*table : nullptr;
  }

  // By how much a sample's multiplier and score have changed since the optimum.
  static std::pair<double, double> change(const Table<T>& table, const Point& at, Index k) {
    const double change = at.beta[k] - table.at.beta[k];
    return {change, at.scores[k] - table.at.scores[k] - table.problem.delta * change};
  }

  // Whether K times the changes of multipliers is the changes of scores, as far as two Gaussian vectors tell.
  bool holds(const Table<T>& table, const Point& at) {
    const Index m = table.m;
    if (checks_.empty()) {
      for (Index k = 0; k < CHECKS * m; ++k) checks_.push_back(certificate_.normal(certificate_.random));
      images_ = images_of(checks_, CHECKS);
    }
    double moves = 0;
    for (Index k = 0; k < m; ++k) moves = std::max(moves, std::abs(at.beta[k] - table.near[k]));
    if (table.problem.delta * moves > LARGEST_SHIFT * range_ + table.slack) return false;
    for (int r = 0; r < CHECKS; ++r) {
      double off = 0;
      for (Index k = 0; k < m; ++k) {
        const Index j = r * m + table.order[k];
        const auto [changed, moved] = change(table, at, k);
        off += checks_[j] * moved - images_[j] * changed;
      }
      if (!(std::abs(off) <= std::sqrt(double(m)) * (LARGEST_ERROR * range_ + table.slack))) return false;
    }
    return true;
  }

  // Take the scores of a set from where its multipliers came to, and what the certificate asks.
  void take(Index set, const Table<T>& table, const Point& at) {
    const Index m = table.m;
    sets_.give(set, found_.scores, [&](Index sample) {
      const Index k = table.place[sample];
      return at.scores[k] - table.problem.delta * (at.beta[k] - table.near[k]);
    });
    const auto numbers = certificate_.draw();
    for (Index k = 0; k < m; ++k) {
      const Index here = table_.place[table.order[k]];
      const auto [changed, moved] = change(table, at, k);
      for (int r = 0; r < PROBES; ++r) {
        certificate_.changes[r * m + here] += numbers[r] * changed;
        certificate_.scores[r * m + here] += numbers[r] * moved;
      }
    }
  }

  // K times n vectors, (n, m), in the order of samples.
  Doubles images_of(const Doubles& vectors, int n) const {
    const Index m = problem_.m;
    Doubles images(n * m);
    lapack::symm('L', 'L', m, n, 1.0, problem_.K, problem_.stride, vectors.data(), m, 0.0, images.data(), m);
    return images;
  }

  // By how much K times the changes is off, relative to the offsets.
  double worst() const {
    const Index m = table_.m;
    Doubles changes(PROBES * m);
    for (int r = 0; r < PROBES; ++r)
      for (Index k = 0; k < m; ++k) changes[r * m + table_.order[k]] = certificate_.changes[r * m + k];
    const Doubles images = images_of(changes, PROBES);
    double worst = 0;
    for (int r = 0; r < PROBES; ++r)
      for (Index k = 0; k < m; ++k) {
        const double off = std::abs(images[r * m + table_.order[k]] - certificate_.scores[r * m + k]);
        if (!(off <= worst)) worst = off;
      }
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
    std::optional<Problem> problem;
    std::optional<Table<T>> table;
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
