"""Working memory, sessions, resume."""
