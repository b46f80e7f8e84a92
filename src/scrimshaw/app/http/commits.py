"""Commits the changes of a call over HTTP, under the name of the caller, and exchanges commits with a remote."""

import logging
import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from msgspec import structs

from scrimshaw.config import PROJECT_FOLDER, VaultSettings
from scrimshaw.engine import Engine
from scrimshaw.engine.degradations import WORDS
from scrimshaw.engine.index import scan
from scrimshaw.engine.ledger import read_file
from scrimshaw.errors import ScrimshawError, StorageFailure, VaultBusy
from scrimshaw.ingest.memory_file import is_private_text
from scrimshaw.ingest.redact import redact
from scrimshaw.models import Degradation
from scrimshaw.storage.git import ask_git, commit_files, list_changed_files
from scrimshaw.storage.remote import CONFLICT, REVIEW, Remote, find_mirror

FIRST_RETRY_S, MOST_RETRY_S = 2.0, 300.0  # until a failed remote is tried again; doubled each time
DRIVER = f'{shlex.quote(sys.executable)} -P -c "from scrimshaw.app.cli import run; run()" git merge %O %A %B --path %P'
_MOST_ROWS = 1000  # of one call; a delete of many has a row for each
_REMOTE = "remote"  # the part that is degraded
_LOST = Degradation(**WORDS[_REMOTE])

_log = logging.getLogger(__name__)


class Exchange:
    """Clones, pulls and pushes a vault in a thread of its own, since no answer may wait for a network."""

    def __init__(self, stated: VaultSettings, project: Path, open_engine: Callable[[], Engine]) -> None:
        self._stated, self._open_engine = stated, open_engine
        self.remote = Remote(project, stated.remote, DRIVER, stated.write == "branch")
        self.has_failed, self._is_over, self._due = False, False, threading.Event()
        self._engine: Engine | None = None
        self._thread = threading.Thread(target=self._run, name=f"remote-{stated.name}", daemon=True)
        self.start, self.request = self._thread.start, self._due.set

    def stop(self) -> None:
        """End the thread; git finishes its current command, and the next start finds the result."""
        self._is_over = True
        self._due.set()
        self._thread.join(timeout=2.0)

    def _run(self) -> None:
        retry_s = FIRST_RETRY_S
        while not self._is_over:
            self._due.clear()
            try:
                detail = fault = self.exchange()
                self.has_failed = False
            except (ScrimshawError, OSError, ValueError) as error:  # ValueError: unexpected output of git
                detail, fault = redact(str(error)).text, _LOST.failure_mode
                self.has_failed = True
            if fault:
                _log.warning("The remote of %s: %s", self._stated.name, detail)
            if self._engine and fault:
                self._engine.degradations.put(_REMOTE, structs.replace(_LOST, failure_mode=fault))
            elif self._engine:
                self._engine.degradations.clear(_REMOTE)
            self._due.wait(retry_s if self.has_failed else self._stated.pull_minutes * 60 or None)
            retry_s = min(retry_s * 2, MOST_RETRY_S) if self.has_failed else FIRST_RETRY_S

    def exchange(self) -> str:
        """Pull, open the vault if it exists, and push; returns branches that need a person. Raises ScrimshawError."""
        remote, found = self.remote, self.remote.project / PROJECT_FOLDER
        if not remote.project.exists():
            remote.clone(self._stated.branch)
        if found.is_dir():
            self._engine = self._engine or self._open_engine()
        remote.fetch()
        if self._is_over:
            return ""
        with self._engine.write_lock() if self._engine else nullcontext():
            remote.rebase()
        self._engine = self._engine or self._open_engine()
        scan(self._engine)
        if self._stated.push or remote.is_reviewed:
            self.push()
        refs = {*remote.list_refs(REVIEW), *remote.list_refs(find_mirror(REVIEW))}
        conflicts = sorted({f"scrimshaw/{each.rpartition('/')[2]}" for each in refs if f"/{CONFLICT}" in each})
        return f"remote_conflicts: not merged are {', '.join(conflicts)}" if conflicts else ""

    def push(self) -> None:
        """Push the new commits, unless they are private; raises StorageFailure."""
        remote, base, refs = self.remote, self.remote.base, self.remote.list_refs(REVIEW)
        if not remote.is_reviewed:
            refs |= remote.list_refs(remote.ref)
        refs = {ref: commit for ref, commit in refs.items() if commit != base}
        for ref, commit in refs.items():
            for each in list_changed_files(remote.project, base, 0.0, ("*.md",), commit):
                text = "" if each.status == "D" else ask_git(remote.project, "show", f"{each.commit}:./{each.path}")
                if is_private_text(text):
                    raise StorageFailure(f"{each.path} is private, so {ref} is not pushed.", "Remove it from git.")
        if refs and (refused := remote.push(refs)):
            raise StorageFailure(f"The remote refuses {refused}.", "It is tried again.")


@contextmanager
def commit_changes(engine: Engine, what: str, exchange: Exchange | None) -> Iterator[dict[str, str]]:
    """Commit the files that this person changed in the block according to the ledger, and no other changed files.

    Changes that cannot be committed remain: they were acknowledged, and the log says why they wait. The dictionary
    afterwards contains what the answer has to say about the commit.
    """
    review = exchange.remote if exchange and exchange.remote.is_reviewed else None
    _ = review and review.base  # raises if no base for a proposed change is known yet
    newest, more = engine.journal.history(limit=1), dict[str, str]()
    before = newest[0]["seq"] if newest else 0
    yield more
    rows = [row for row in engine.journal.history(limit=_MOST_ROWS) if row["seq"] > before]
    names = dict.fromkeys(row["memory_id"] for row in rows if row["actor"].endswith(f":{engine.person}"))
    try:
        if paths := [str(read_file(engine, name).path) for name in names if name]:
            title = f"{what}: {', '.join(names)}"
            with engine.write_lock():  # git refuses concurrent commits
                commit_files(engine.settings.project, paths, engine.person, title if len(title) <= 72 else what)
                aside = review.rebase() if review else {}
            if exchange and not exchange.has_failed:  # after a failure it tries again by itself
                exchange.request()
            if aside:
                branch = [*aside.values()][-1].removeprefix("refs/heads/")
                more["review"] = f"The change is on the branch {branch}; until that is merged, nothing changes here."
                scan(engine)
    except (StorageFailure, VaultBusy) as error:
        _log.warning("A change in %s is not committed: %s", engine.settings.project, error)
