"""Measures Scrimshaw beside the least that could do the same. Not part of the package; see `run`."""

import os

# One thread, as in the product, and before a benchmark loads numpy; peers run this where Scrimshaw is not installed.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
