"""Connecting agent clients: an MCP server and hooks in their files, put in and taken out without a trace."""
