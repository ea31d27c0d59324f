// For every processor of the architecture.
#include "loops.h"

namespace slabsvm::baseline {

#include "loops.inc"

const Loops LOOPS = loops_named("baseline");

}  // namespace slabsvm::baseline
