// For processors that have AVX2 and FMA.
#ifdef SLABSVM_X86

#include <cstdint>
#include <cstring>
#include <limits>

#include "loops.h"

namespace slabsvm::avx2 {

#include "loops.inc"

extern const Loops LOOPS;
const Loops LOOPS = loops_named("avx2");

}  // namespace slabsvm::avx2

#endif
