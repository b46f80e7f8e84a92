"""The side of each program, run in its own environment."""
