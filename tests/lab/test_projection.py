"""The fit of what reduces token vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.conftest import OpenMemory
from tests.samples import write_memory

from scrimshaw.app.cli.main import main
from scrimshaw.engine.index import scan
from scrimshaw.search.token_vectors import DIMENSIONS, FILE, load_projection
from scrimshaw_lab.projection import fit_projection


def test_the_directions_of_most_variance_are_kept() -> None:
    random = np.random.default_rng(0)
    scales = np.concatenate([np.full(DIMENSIONS, 3.0), np.full(32, 0.01)])
    tokens = (random.normal(size=(4000, len(scales))) * scales + 5).astype(np.float32)
    numbers, share = fit_projection(tokens)
    assert share > 0.999
    directions = numbers[len(scales) : -DIMENSIONS].reshape(len(scales), DIMENSIONS)
    assert np.abs(directions[DIMENSIONS:]).max() < 0.01
    assert numbers[: len(scales)] == pytest.approx(5, abs=0.3)


def test_the_command_writes_a_file_of_the_form_that_is_read(
    open_memory: OpenMemory, vault: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        write_memory(vault, f"n{number}", f"Writer {number} waits while the database is locked by reader {number}.")
    engine = open_memory()
    scan(engine)
    (engine.folder / "config.toml").write_text("")
    monkeypatch.chdir(engine.settings.project)
    output = tmp_path / "projection.f16"
    assert main(["eval", "projection", "--output", str(output), "--sample", "5"]) == 0
    assert output.stat().st_size == FILE.stat().st_size
    mean, directions, steps = load_projection()
    assert (mean.shape, directions.shape, steps.shape) == ((384,), (384, DIMENSIONS), (DIMENSIONS,))
