"""Loops that numba compiles: plain arrays and scalars in and out, and nothing else.

No file here knows of detectors, kernels or data frames. Whoever needs a loop imports its module inside the function
that calls it, so that `import slabsvm` does not wait for numba. No `parallel=True`, no `fastmath=True`, no `jitclass`:
docs/developers/method.md says why.
"""
