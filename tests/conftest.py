"""One thread for each linear algebra library in each test process: the processes are as many as the cores."""

import os

# Read when NumPy is first imported, which pytest does after this.
for library in ("OPENBLAS", "MKL", "OMP"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
