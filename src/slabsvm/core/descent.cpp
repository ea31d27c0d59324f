#include "descent.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#ifdef SLABSVM_X86
#include <xmmintrin.h>
#endif

namespace slabsvm {

namespace {

// A violation of so many units of the scores' rounding is none.
constexpr double RESOLUTION = 4.0;

// While it lives, results below the range of normal numbers are 0, and such arguments count as 0. They would make
// descents in float32 two to three times slower, where scores of far samples cancel.
struct FlushToZero {
#ifdef SLABSVM_X86
  static constexpr unsigned FLUSH_RESULTS = 0x8000, FLUSH_ARGUMENTS = 0x0040;
  const unsigned before = _mm_getcsr();

  FlushToZero() { _mm_setcsr(before | FLUSH_RESULTS | FLUSH_ARGUMENTS); }
  ~FlushToZero() { _mm_setcsr(before); }
  FlushToZero(const FlushToZero&) = delete;
#endif
};

// The masks of a block's multipliers, and its diagonal, at the start of a descent.
template <class T>
struct Arrays {
  std::vector<T> rise, fall, diagonal, image;

  explicit Arrays(const Block<T>& block)
      : rise(block.planes * block.padded, FAR<T>),
        fall(block.planes * block.padded, -FAR<T>),
        diagonal(block.padded),
        image(block.padded) {
    for (int p = 0; p < block.planes; ++p)
      for (Index i = 0; i < block.n; ++i) {
        const double value = block.values[p * block.n + i];
        if (value < block.upper_bounds[p * block.n + i]) rise[p * block.padded + i] = 0;
        if (value > 0) fall[p * block.padded + i] = 0;
      }
    for (Index i = 0; i < block.n; ++i) diagonal[i] = block.gram[i * block.stride + i];
  }
};

}  // namespace

template <class T>
Descended descend(const Block<T>& block, double objective, Stop stop, const Interrupt& interrupt, Index at_once) {
  Arrays<T> arrays(block);
  const Scratch<T> scratch{arrays.rise.data(), arrays.fall.data(), arrays.diagonal.data(), arrays.image.data()};
  Progress progress;
  progress.objective = objective;
  double largest = 0;
  for (Index i = 0; i < block.n; ++i) largest = std::max(largest, std::abs(static_cast<double>(block.scores[i])));
  progress.resolution = RESOLUTION * static_cast<double>(std::numeric_limits<T>::epsilon()) * largest;
  const Index slice = std::max<Index>(1, at_once / block.n), most = stop.until;
  for (bool ended = false; !ended && progress.steps < most;) {
    if (progress.steps > 0) interrupt();
    stop.until = progress.steps + std::min(slice, most - progress.steps);
    [[maybe_unused]] const FlushToZero flushing;
    ended = loops().of<T>().advance(block, stop, scratch, progress);
  }
  return {progress.steps, progress.lowest_curvature};
}

template Descended descend<float>(const Block<float>&, double, Stop, const Interrupt&, Index);
template Descended descend<double>(const Block<double>&, double, Stop, const Interrupt&, Index);

}  // namespace slabsvm
