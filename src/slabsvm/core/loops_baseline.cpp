// For every processor of the architecture.
#include <cstdint>
#include <cstring>
#include <limits>

#include "loops.h"

namespace slabsvm::baseline {

#include "loops.inc"

extern const Loops LOOPS;
const Loops LOOPS = loops_named("baseline");

}  // namespace slabsvm::baseline
