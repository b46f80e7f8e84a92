"""Times as files write them."""

from datetime import UTC, datetime


def format_time(at: float) -> str:
    """Seconds since 1970 as ISO in UTC, to the second."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
