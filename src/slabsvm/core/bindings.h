// What the files of bindings share.
#pragma once
#include <nanobind/nanobind.h>

namespace slabsvm {

// Throw what a signal's handler raised, such as KeyboardInterrupt; called without the GIL.
void signals_seen();

// Add `fit` to the module (fit_bindings.cpp).
void bind_fit(nanobind::module_& module);

}  // namespace slabsvm
