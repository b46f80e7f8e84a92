"""Measuring on one's own memory: golden queries, metrics."""
