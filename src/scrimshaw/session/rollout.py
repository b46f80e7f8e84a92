"""Which sessions have a feature that only a share of sessions gets. Pure."""

from zlib import crc32


def is_given(feature: str, percent: int, session: str) -> bool:
    """Whether a session is among the `percent` of a hundred that have a feature: always the same answer."""
    return percent > crc32(f"{feature}\n{session}".encode()) % 100
