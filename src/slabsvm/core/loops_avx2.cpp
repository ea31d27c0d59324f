// For processors that have AVX2 and FMA.
#include "loops.h"

namespace slabsvm::avx2 {

#include "loops.inc"

const Loops LOOPS = loops_named("avx2");

}  // namespace slabsvm::avx2
