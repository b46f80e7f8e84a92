"""Where bytes live: files, databases, and what keeps them in step."""
