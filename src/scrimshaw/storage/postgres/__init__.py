"""The storage ports on a PostgreSQL server with pgvector."""

import sys
import typing

if sys.modules.get("typing_extensions") is typing:  # what a hook loads instead lacks what the driver needs
    del sys.modules["typing_extensions"]
