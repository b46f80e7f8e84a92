"""What was there before: transcripts of earlier sessions, and memories that other tools keep."""
