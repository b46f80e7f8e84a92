"""Measures Scrimshaw beside the least that could do the same. Not part of the package; see `run`."""
