// For processors that have AVX-512 (F, DQ, VL and BW).
#ifdef SLABSVM_X86

#include <cstdint>
#include <cstring>
#include <limits>

#include "loops.h"

namespace slabsvm::avx512 {

#include "loops.inc"

extern const Loops LOOPS;
const Loops LOOPS = loops_named("avx512");

}  // namespace slabsvm::avx512

#endif
