"""The memory over HTTP, for several people: tokens, vaults, and the server."""
