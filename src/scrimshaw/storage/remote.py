"""A repository's remote: git clones, fetches and pushes it, and combines its commits with those made here."""

import re
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from scrimshaw.errors import ConfigError
from scrimshaw.storage.durable import storage_errors
from scrimshaw.storage.git import PLAIN, SERVER_ADDRESS, ask_git

NETWORK_S, CHECKOUT_S = 120.0, 600.0  # for commands that use a network; for those that write a whole work tree
REVIEW, CONFLICT = "refs/heads/scrimshaw/", "conflict-"  # branches that a person has to look at; conflicts among them
_ATTRIBUTES = Path(__file__).with_name("memories.gitattributes")  # a repository's own take precedence
_PERSONS = ("AUTHOR_NAME", "AUTHOR_EMAIL", "AUTHOR_DATE", "COMMITTER_NAME", "COMMITTER_EMAIL")
_COMMIT = "--format=%P%x00%an%x00%ae%x00%aI%x00%cn%x00%ce%x00%B"


class Remote(NamedTuple):
    """The remote of a project's branch, to pull from and push to; its methods raise StorageFailure."""

    project: Path
    url: str
    driver: str  #: the command that git runs to merge a memory
    is_reviewed: bool  #: whether a server's commits go to branches of their own

    def clone(self, branch: str) -> None:
        """Clone the remote's branch, or its main one, into the project's folder, completely or not at all.

        Links become plain files: people who push them must not choose what this machine reads.
        """
        with storage_errors("write", self.project):
            self.project.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(prefix=f".{self.project.name}-", dir=self.project.parent) as place:
                clone = Path(place, "clone")
                options = ("--quiet", "--config", "core.symlinks=false", *(("--branch", branch) if branch else ()))
                _ask_remote(self.project.parent, "clone", *options, "--", self.url, str(clone), timeout_s=CHECKOUT_S)
                clone.rename(self.project)

    @property
    def ref(self) -> str:
        """The ref of the checked-out branch; raises ConfigError for a branch under review."""
        if (ref := ask_git(self.project, "symbolic-ref", "HEAD").strip()).startswith(REVIEW):
            raise ConfigError(f"{ref} of {self.project} is for review.", "Check out another branch.")
        return ref

    @property
    def base(self) -> str:
        """The last known commit of the remote's branch."""
        return ask_git(self.project, "rev-parse", "--verify", find_mirror(self.ref)).strip()

    def fetch(self) -> None:
        """Fetch the remote's branch, and those for review, into their mirrors."""
        specs = [f"+{ref}:{find_mirror(ref)}" for ref in (self.ref, f"{REVIEW}*")]
        options = ("--quiet", "--prune", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
        _ask_remote(self.project, "fetch", *options, "--", self.url, *specs)

    def rebase(self) -> dict[str, str]:
        """Move the checked-out branch to the remote's, with the commits made here on top. Nobody may write meanwhile.

        Returns the refs of commits that are now on branches of their own, for review or because they conflict.
        """
        base, head, aside, staying = self.base, self._find("HEAD"), dict[str, str](), list[str]()
        # Commits that the remote has removed from its history are not restored from here.
        fork = ask_git(self.project, "merge-base", "--fork-point", find_mirror(self.ref), head, answers=(0, 1)).strip()
        form = ("--reverse", "--topo-order", "--no-merges", "--format=%H%x00%ce%x00%an")
        for line in filter(None, ask_git(self.project, "log", *form, head, "--not", base, fork or base).split("\n")):
            commit, address, name = line.split("\0")
            if self.is_reviewed and address == SERVER_ADDRESS:
                ref = REVIEW + re.sub(r"[^\w-]+", "-", name)  # as a branch may be called
                onto = self._find(ref) or self._find(find_mirror(ref)) or base
                tip, conflicts = self._cherry_pick([commit], base if self._is_merged(onto, base) else onto)
                aside[commit] = f"{ref}-{commit[:12]}" if conflicts else ref
                ask_git(self.project, "update-ref", aside[commit], commit if conflicts else tip)
            else:
                staying.append(commit)
        tip, conflicts = self._cherry_pick(staying, base) if aside or not self._is_merged(base, head) else (head, [])
        for commit in conflicts:
            aside[commit] = f"{REVIEW}{CONFLICT}{commit[:12]}"
            ask_git(self.project, "update-ref", aside[commit], commit)
        if tip != head:
            move = ("switch", "--quiet", "--no-overwrite-ignore", "--no-track", "--force-create")
            ask_git(self.project, *PLAIN, *move, self.ref.removeprefix("refs/heads/"), tip, timeout_s=CHECKOUT_S)
        return aside

    def push(self, refs: Mapping[str, str]) -> dict[str, str]:
        """Push commits to their refs, never by force; returns the refs that the remote refuses, and why.

        A pushed branch for review only remains in its mirror; one to which somebody added commits is left alone.
        """
        refused = dict.fromkeys(refs, "no answer")
        options = ("--porcelain", "--no-follow-tags", "--no-recurse-submodules", "--", self.url)
        specs = (f"{commit}:{ref}" for ref, commit in refs.items())
        for line in _ask_remote(self.project, "push", *options, *specs, answers=(0, 1)).split("\n"):
            flag, _, rest = line.partition("\t")  # `FLAG TAB FROM:TO TAB SUMMARY`
            spec, _, summary = rest.partition("\t")
            commit, _, ref = spec.partition(":")
            if ref not in refs:
                continue
            refused[ref] = summary
            if flag != "!":
                del refused[ref]
                ask_git(self.project, "update-ref", find_mirror(ref), commit)
            elif summary.startswith("[rejected]") and ref.startswith(REVIEW):
                ask_git(self.project, "update-ref", f"{ref}-{commit[:12]}", commit)
            if ref.startswith(REVIEW) and not summary.startswith("[remote"):
                # Unless it has more commits by now.
                ask_git(self.project, "update-ref", "-d", ref, commit, answers=(0, 1, 128))
        return refused

    def list_refs(self, prefix: str) -> dict[str, str]:
        """The commits of the refs with a prefix, by name."""
        lines = ask_git(self.project, "for-each-ref", "--format=%(objectname) %(refname)", prefix).split("\n")
        return {name: commit for commit, _, name in (line.partition(" ") for line in lines) if name}

    def _find(self, ref: str) -> str:
        return ask_git(self.project, "rev-parse", "--verify", "--quiet", ref, answers=(0, 1)).strip()

    def _is_merged(self, old: str, new: str) -> bool:
        return ask_git(self.project, "merge-base", old, new, answers=(0, 1)).strip() == old

    def _cherry_pick(self, commits: Iterable[str], onto: str) -> tuple[str, list[str]]:
        """Repeat the changes of commits on top of another one; returns the last one, and the conflicting ones."""
        tip, conflicts = onto, list[str]()
        settings = (f"core.attributesFile={_ATTRIBUTES}", f"merge.scrimshaw.driver={self.driver}")
        merge = (*(word for each in settings for word in ("-c", each)), "merge-tree", "--write-tree", "--name-only")
        for commit in commits:
            parent, *persons, message = ask_git(self.project, "log", "-1", _COMMIT, commit).strip().split("\0")
            variables: dict[str, Any] = {f"GIT_{name}": value for name, value in zip(_PERSONS, persons, strict=True)}
            make = partial(ask_git, self.project, "commit-tree", "-m", message, **variables)
            # git before 2.40 has no option for the common ancestor, so this side is one commit on top of it.
            side = make("-p", parent, f"{tip}^{{tree}}").strip()
            tree, *files = ask_git(self.project, *merge, "--no-messages", side, commit, answers=(0, 1)).splitlines()
            if files:
                conflicts.append(commit)
            elif tree != self._find(f"{tip}^{{tree}}"):  # a change that is there already is not repeated
                tip = make("-p", tip, tree).strip()
        return tip, conflicts


def find_mirror(ref: str) -> str:
    """The local ref that mirrors a ref of the remote."""
    return ref.replace("refs/heads/", "refs/remotes/scrimshaw/", 1)


def _ask_remote(folder: Path, *arguments: str, answers: Collection[int] = (0,), timeout_s: float = NETWORK_S) -> str:
    """The output of a git command that talks to a remote; it fails if it would ask a person for a password."""
    ssh = ask_git(folder, "config", "core.sshCommand", answers=(0, 1)).strip() or "ssh"
    options = ("-c", f"core.sshCommand={ssh} -o BatchMode=yes -o ServerAliveInterval=15", *PLAIN)
    return ask_git(folder, *options, *arguments, answers=answers, timeout_s=timeout_s, GIT_TERMINAL_PROMPT="0")
