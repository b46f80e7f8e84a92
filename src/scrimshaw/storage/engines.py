"""Where the engine of a project's databases is chosen. Light to import: hooks use it."""

from pathlib import Path

from scrimshaw.config import Settings
from scrimshaw.errors import StorageFailure
from scrimshaw.storage.databases import Storage


def open_storage(
    settings: Settings,
    *,
    folder: Path | None = None,
    busy_timeout_ms: int = 0,
    replace_lost_journal: bool = False,
    word_lists: bool = True,
) -> Storage:
    """The databases of a project, on the engine that its settings name; `word_lists` cost a short process too much."""
    folder, busy_timeout_ms = folder or settings.folder, busy_timeout_ms or settings.index.busy_timeout_ms
    if settings.storage.engine == "postgres":
        try:
            from scrimshaw.storage.postgres.storage import open_vault  # noqa: PLC0415 - an extra that few install
        except ImportError as error:
            raise StorageFailure(f"No PostgreSQL: {error}.", "pip install 'scrimshaw[postgres]'") from error

        return open_vault(folder, settings.storage, busy_timeout_ms=busy_timeout_ms)
    return Storage(
        folder,
        busy_timeout_ms=busy_timeout_ms,
        ram_scan_max=settings.index.ram_scan_max,
        word_lists_mb=settings.index.word_lists_mb if word_lists else 0,
        replace_lost_journal=replace_lost_journal,
    )
