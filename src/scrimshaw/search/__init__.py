"""A query becomes hits with a trace."""
