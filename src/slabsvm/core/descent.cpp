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
class FlushToZero {
 public:
#ifdef SLABSVM_X86
  FlushToZero() : before_(_mm_getcsr()) { _mm_setcsr(before_ | FLUSH_RESULTS | FLUSH_ARGUMENTS); }
  ~FlushToZero() { _mm_setcsr(before_); }
#else
  FlushToZero() {}
  ~FlushToZero() {}
#endif
  FlushToZero(const FlushToZero&) = delete;
  FlushToZero& operator=(const FlushToZero&) = delete;

 private:
#ifdef SLABSVM_X86
  static constexpr unsigned FLUSH_RESULTS = 0x8000, FLUSH_ARGUMENTS = 0x0040;
  unsigned before_;
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
    for (int p = 0; p < block.planes; ++p) {
      for (std::int64_t i = 0; i < block.n; ++i) {
        const double value = block.values[p * block.n + i];
        if (value < block.caps[p * block.n + i]) {
          rise[p * block.padded + i] = 0;
        }
        if (value > 0) {
          fall[p * block.padded + i] = 0;
        }
      }
    }
    for (std::int64_t i = 0; i < block.n; ++i) {
      diagonal[i] = block.gram[i * block.stride + i];
    }
  }
};

}  // namespace

template <class T>
Descended<T> descend(const Block<T>& block, double objective, double smallest, double tol, double share, double floor,
                     std::int64_t max_steps, const Interrupt& interrupt, std::int64_t at_once) {
  Arrays<T> arrays(block);
  const Scratch<T> scratch{arrays.rise.data(), arrays.fall.data(), arrays.diagonal.data(), arrays.image.data()};
  Course course;
  course.objective = objective;
  double largest = 0;
  for (std::int64_t i = 0; i < block.n; ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(block.scores[i])));
  }
  course.resolution = RESOLUTION * static_cast<double>(std::numeric_limits<T>::epsilon()) * largest;
  const std::int64_t slice = std::max<std::int64_t>(1, at_once / block.n);
  bool ended = false;
  while (!ended && course.steps < max_steps) {
    if (course.steps > 0 && interrupt) {
      interrupt();
    }
    const std::int64_t until = course.steps + std::min(slice, max_steps - course.steps);
    const FlushToZero flushing;
    ended = advance(block, Stop{smallest, tol, share, floor, until}, scratch, course);
  }
  return {course.steps, course.lowest_curvature, ended};
}

template Descended<float> descend<float>(const Block<float>&, double, double, double, double, double, std::int64_t,
                                         const Interrupt&, std::int64_t);
template Descended<double> descend<double>(const Block<double>&, double, double, double, double, double, std::int64_t,
                                           const Interrupt&, std::int64_t);

}  // namespace slabsvm
