"""Client hooks: a payload in, an event out, and the answer the client understands. One small parser per client."""
