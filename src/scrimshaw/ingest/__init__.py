"""Raw text in, acceptable text out: pure functions without I/O or clock."""
