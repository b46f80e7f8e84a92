"""From raw text to text that may be stored: pure functions without I/O or clock."""
