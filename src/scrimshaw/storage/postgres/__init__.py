"""The storage ports on a PostgreSQL server with pgvector."""
