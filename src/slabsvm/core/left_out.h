// Left-out scores: what samples score under the optimum of the program without them.
//
// A row leaves alone, or one of the copies of a sample, or all rows of a group. The multiplier of what leaves goes to
// its target: 0, or what the smaller box of the copies that stay still holds. All other multipliers become optimal
// again.
//
//  * Rows that leave alone and change no other state need one column of the table each. They are judged all at once;
//    of merged planes they are most.
//  * What leaves is given to the lowest scores that have room, where that is all there is to do: where many samples are
//    one point to within rounding, a path would have an event for each.
//  * Others go by blocks, or along a path (leaving.h).
//  * What cycles gets a second table, where the term that is added is a hundred times as large.
//  * The last resort is a refit: the program is solved again without what leaves.
//
// The certificate of all of them: K C = S, where a column of C has the changes of multipliers as one set leaves, and a
// column of S the changes of scores. Both sides are compared in the products with eight Gaussian vectors, in 8 m^2
// multiplications in place of m^3. That all eight miss an error of ten times what they read has probability 2e-9.
#pragma once
#include "optimum.h"

namespace slabsvm {

// Sets of samples that leave together, and whose scores are asked for.
struct Sets {
  std::vector<Index> begins;   // (r + 1,): where each set begins in what follows
  std::vector<Index> samples;  // whose scores are asked for
  std::vector<char> leaves;    // whether they leave; a sample that another group has, too, stays
  Doubles targets;             // what their multipliers go to

  Index count() const { return static_cast<Index>(begins.size()) - 1; }

  // Those of a set that leave, and what their multipliers go to.
  struct Leavers {
    std::vector<Index> samples;
    Doubles targets;
  };

  Leavers leaving(Index set) const {
    Leavers found;
    for (Index e = begins[set]; e < begins[set + 1]; ++e)
      if (leaves[e]) found.samples.push_back(samples[e]), found.targets.push_back(targets[e]);
    return found;
  }

  // Give a set's samples their scores, by a function of the sample.
  template <class ScoreOf>
  void give(Index set, Doubles& scores, ScoreOf score_of) const {
    for (Index e = begins[set]; e < begins[set + 1]; ++e) scores[e] = score_of(samples[e]);
  }
};

struct LeftOut {
  Doubles scores;          // for each of `Sets::samples`
  double certificate = 0;  // relative to the offsets
  // Sets that went each way. In float32 the first that neither flips nor a path lead to the end of is counted as
  // refitted, and ends it all.
  Index at_once = 0, handed_on = 0, stepwise = 0, again = 0, refitted = 0;
};

// Solve the program anew without a set, or try to; return scores, (m,), without the term that is added, or nothing.
using Refit = std::function<Doubles(const std::vector<Index>& leaving)>;

template <class T>
LeftOut left_out(const Problem& problem, Optimum<T>& optimum, const Sets& sets, const Refit& hand_on,
                 const Refit& refit, const Interrupt& interrupt);

}  // namespace slabsvm
