"""Canonical memory first; peers augment."""
