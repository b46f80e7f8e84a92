"""Own memories first; peers add to them."""
