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
#include "table.h"

namespace slabsvm {

template <class T>
class Leaving {
 public:
  // places: where the samples that leave are in the table; targets: what their multipliers go to.
  Leaving(Table<T>& table, const std::vector<Index>& places, const Doubles& targets);

  // Go to the end; return whether that was reached. Events: at most so many on a path.
  bool go(int most_events);

  // At the end, in the table's order; scores have the term that is added.
  const Doubles& beta() const { return beta_; }
  const Doubles& scores() const { return scores_; }

 private:
  enum class Kind { fixed, freed, moved };
  struct Unknown {
    Index at;
    Kind kind;
  };

  void begin();
  bool flipped();           // by blocks, from these states
  bool followed(int most);  // along the path, with so many events at most
  // Put beta_, scores_ and rho_ at the targets for these states; return whether the system is regular.
  bool solve();
  double target_or_bound(Index at) const {
    return goes_[at] >= 0 ? targets_[goes_[at]] : table_.bound(states_[at], at);
  }
  // On which plane's side a sample's multiplier counts.
  int side(Index at) const;
  double equation(const T* column, const Unknown& unknown) const;
  double sum_of(const T* column, const Doubles& base_sums, Index unknown, int side) const;
  View here() const { return View{beta_.data(), scores_.data(), {rho_[0], rho_[1]}}; }

  Table<T>& table_;
  const Problem& problem_;
  std::vector<Index> places_;
  Doubles targets_;
  std::vector<int> goes_;  // (m,) which of the samples that leave each is; -1 for none
  States states_;
  bool merged_ = true;
  Doubles beta_, scores_;
  double rho_[2] = {0, 0};
  std::vector<Unknown> unknowns_;
  std::vector<Index> known_;  // bounded samples whose multiplier changes
};

}  // namespace slabsvm
