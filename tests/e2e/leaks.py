"""Whose files hold a secret: the client's may, Scrimshaw's must not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from tests.e2e.watch import Sightings, shape

_OURS = ("project/.scrimshaw/", "project/.git/scrimshaw/", "home/.scrimshaw/")
_TEMPORARY = "tmp/"


class Leaks:
    """Files of runs with Scrimshaw, told apart by a control run without it.

    `ours` is all that the control run has not, what setup `touched`, and Scrimshaw's own folders; `theirs` the rest.
    """

    def __init__(self, control: Sightings, runs: Iterable[Sightings], touched: Collection[str]) -> None:
        self._touched = touched
        self._files = set(map(shape, control.files))
        # The control run may have missed a file of a moment, but not the folder that the client keeps for such files.
        self._temporary = {shape(path) for path in control.folders if path.startswith(_TEMPORARY)}
        self.ours: dict[str, frozenset[str]] = {}
        self.theirs: dict[str, frozenset[str]] = {}
        for path, secrets in (each for seen in runs for each in seen.files.items()):
            side = self.ours if self._is_ours(path) else self.theirs
            side[path] = side.get(path, frozenset()) | secrets

    def problems(self, secrets: Mapping[str, str]) -> Iterator[str]:
        """Files of ours with a secret; and secrets by their place that no file of the client holds, or nothing would
        prove that any could be found."""
        for path, held in self.ours.items():
            if held:
                yield f"{path} holds the secret of the {self._places(held, secrets)}"
        held_by_client = frozenset().union(*self.theirs.values())
        if missing := set(secrets.values()) - held_by_client:
            yield f"the client's own files do not hold the secret of the {self._places(missing, secrets)}"

    def _is_ours(self, path: str) -> bool:
        if path.startswith(_OURS) or path in self._touched:
            return True
        return shape(path) not in self._files and shape(str(PurePosixPath(path).parent)) not in self._temporary

    @staticmethod
    def _places(held: Collection[str], secrets: Mapping[str, str]) -> str:
        return ", ".join(place for place, secret in secrets.items() if secret in held)
