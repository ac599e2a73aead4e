"""Code that all benchmarks share: records and their store, a pool, images, seconds per
step, tables and pages.
"""

import os

# The command line sets it too, so timings agree with those of a command. PyTorch reads
# it when it is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
