"""One thread for each linear algebra library in each test process: the processes are as many as the cores.

What comes of more threads is tested by test_threads, which sets their number itself, and by scripts/matrix.
"""

import os

# Read when NumPy is first imported, which pytest does after this.
for library in ("OPENBLAS", "MKL", "OMP"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
