"""Entry points of processes: the only code that knows a protocol, a client or a terminal."""
