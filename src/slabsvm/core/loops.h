// The hot loops, compiled once for each instruction set, and the choice of one of them.
//
// A table, `Loops`, points to the loops of one instruction set. loops.inc holds their text; loops_baseline.cpp,
// loops_avx2.cpp and loops_avx512.cpp each compile it with their own flags. The best table that the processor can run
// is chosen when the module is loaded. Each loop gives the same bits in every table: no product is fused with a sum,
// and sums are taken over lanes in an order that the text fixes.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace slabsvm {

using Index = std::int64_t;

// Reductions of a descent run over so many partial results side by side: a compiler vectorises this, and a plain
// search for a minimum it does not. The padded length of every row is a multiple of it.
constexpr int LANES = 64;

// How many multipliers a conjugate direction may move before it starts afresh, and how many one more pair makes of it.
constexpr int LONGEST = 10;
constexpr int MOVED_AT_MOST = LONGEST + 2;

// A number that no score comes near. Finite, so that infinities need no care.
template <class T>
constexpr T FAR = std::numeric_limits<T>::max() / 4;

// What a descent works on, as in descent.h. Rows of gram and scores are padded with zeros.
template <class T>
struct Block {
  const T* gram;               // K: n rows, each stride long
  Index stride;                // at least padded
  Index n;
  Index padded;                // a multiple of LANES, at least n
  int planes;                  // 1 or 2
  T* scores;                   // (padded,)
  double* values;              // (planes, n)
  const double* upper_bounds;  // (planes, n)
  const T* signs;              // (planes,)
};

// When a descent stops, as in descent.h.
struct Stop {
  double smallest, tol, share, floor;
  Index until;  // steps in all
};

// What one call of `advance` leaves to the next one, beside the block: arrays.
template <class T>
struct Scratch {
  T* rise;      // (planes, padded): 0 where a multiplier may rise, else FAR
  T* fall;      // (planes, padded): 0 where it may fall, else -FAR
  T* diagonal;  // (padded,) of K
  T* image;     // (padded,): K times the direction of the last step
};

// What one call of `advance` leaves to the next one: numbers.
struct Progress {
  double objective = 0;
  double curvature = 0;         // of the last direction
  double lowest_curvature = 0;  // of any pair met
  double target = 0;            // the gap to stop at, from that at the start
  double resolution = 0;        // a violation this small is rounding
  Index steps = 0;
  // The last direction: which multipliers it moves, and by how much. None where a bound cut its step short.
  int moved = 0;
  Index sample[MOVED_AT_MOST] = {};
  int plane[MOVED_AT_MOST] = {};
  double amount[MOVED_AT_MOST] = {};
};

// The loops on numbers of type T, float or double.
template <class T>
struct LoopsOf {
  // Go on with a descent until it has taken stop.until steps in all; return whether it has ended before.
  bool (*advance)(const Block<T>&, const Stop&, const Scratch<T>&, Progress&);
  void (*add_minima)(T* sums, T x, const T* z, Index n);      // sums_k += min(x, z_k)
  void (*add_harmonic)(T* sums, T x, const T* z, Index n);    // sums_k += x z_k / (x + z_k), for x > 0, z >= 0
  T (*least_sum)(const T* a, T factor, const T* b, Index n);  // min_k (factor a_k + b_k), or FAR
  T (*sum_above)(const T* a, T factor, const T* b, Index n);  // sum_k max(0, factor a_k + b_k)
  // out = sum_c weights_c columns_c, of k >= 1 columns; weights are rounded to T.
  void (*combine)(T* out, const T* const* columns, const double* weights, int k, Index n);
};

// The loops of one instruction set.
struct Loops {
  const char* name;
  // Replace n values, none of them positive, by their exponentials: exact to a few units of 1's rounding, and 0 below
  // exp(-700).
  void (*exponentials)(double* values, Index n);
  // row_k = exp(min(0, row_k - own_norm - norms_k)) for n products of a row with others; norms are halves of squares.
  void (*rbf_row)(double* row, double own_norm, const double* norms, Index n);
  LoopsOf<float> singles;
  LoopsOf<double> doubles;

  template <class T>
  const LoopsOf<T>& of() const {
    if constexpr (std::is_same_v<T, float>) return singles;
    else return doubles;
  }
};

namespace baseline {
extern const Loops LOOPS;
}

namespace avx2 {
extern const Loops LOOPS;
}

namespace avx512 {
extern const Loops LOOPS;
}

inline std::atomic<const Loops*> chosen{&baseline::LOOPS};

// The table in use.
inline const Loops& loops() { return *chosen.load(std::memory_order_relaxed); }

// The instruction sets that this processor has, the plainest first: "baseline", and on x86-64 "avx2", "avx512".
std::vector<std::string> available();

// Use the loops of one instruction set from now on; std::invalid_argument if the processor lacks it.
void use(const std::string& name);

// Choose the best table, or the one that the environment variable SLABSVM_INSTRUCTIONS names; std::invalid_argument
// as above.
void choose();

}  // namespace slabsvm
