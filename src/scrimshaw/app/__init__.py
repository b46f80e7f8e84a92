"""What a process starts: the only code that knows a protocol, a client or a terminal."""
