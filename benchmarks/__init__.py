"""Measures Scrimshaw beside the least that could do the same. Not part of the package; see `run`."""

from scrimshaw.config import limit_native_threads

limit_native_threads()  # as in the product, and before a benchmark loads numpy
