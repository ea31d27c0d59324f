// For processors that have AVX-512 (F, DQ, VL and BW).
#include "loops.h"

namespace slabsvm::avx512 {

#include "loops.inc"

const Loops LOOPS = loops_named("avx512");

}  // namespace slabsvm::avx512
