"""Where data is stored: files, databases, and the code that keeps them in step."""
