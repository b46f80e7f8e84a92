"""Fits the reduction of token vectors: the directions in which tokens differ most, and their steps."""

import random
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from scrimshaw.app.cli import frame
from scrimshaw.app.cli.frame import example, settings_of
from scrimshaw.app.cli.output import progress, show
from scrimshaw.engine import open_engine
from scrimshaw.errors import InvalidRequest
from scrimshaw.search.embedders import MiniLMEmbedder
from scrimshaw.search.token_vectors import DIMENSIONS, LEVELS

REACH = 2.5  # standard deviations that the levels reach to

app = typer.Typer()


@app.command("projection", epilog=example("scrimshaw eval projection --half 0 --output projection.f16"))
def evaluate_projection(
    output: Annotated[Path, typer.Option(help="The file to write.")],
    project: frame.Project = None,
    half: Annotated[int | None, typer.Option(min=0, max=1, help="Take only the texts of one half.")] = None,
    sample: Annotated[int, typer.Option(min=1, help="Number of texts to take.")] = 800,
    as_json: frame.AsJson = False,
) -> None:
    """Fit the reduction of token vectors on texts of a project and its record."""
    import numpy as np  # noqa: PLC0415 - the help lists this command

    with open_engine(settings_of(project)) as engine, progress("Reading tokens") as advance:
        embedder = engine.embedder
        if not isinstance(embedder, MiniLMEmbedder):
            raise InvalidRequest("Only the bundled model gives token vectors.", "Set provider to minilm.")
        found = (engine.index.chunks_to_embed("none", after=0, limit=10**7, record=of) for of in (False, True))
        texts = [each.text for each in chain.from_iterable(found) if half in (None, int(each.key, 16) % 2)]
        chosen = random.Random(0).sample(texts, min(sample, len(texts)))
        rows = []
        for text in chosen:
            hidden = embedder.run_model(embedder.read_pieces(text))
            rows.append(hidden / np.linalg.norm(hidden, axis=1, keepdims=True))
            advance(len(rows), len(chosen))
    numbers, share = fit_projection(np.concatenate(rows))
    output.write_bytes(numbers.astype("<f2").tobytes())
    figures = {"texts": len(chosen), "variance kept": share, "bytes": output.stat().st_size}
    show(figures, as_json, lambda known: (f"{name}: {value:.4g}" for name, value in known.items()))


def fit_projection(tokens: Any) -> tuple[Any, float]:
    """The numbers of the file, and the share of the variance that the directions explain."""
    import numpy as np  # noqa: PLC0415 - the help lists a command of this module

    mean = tokens.mean(axis=0, dtype=np.float64)
    values, vectors = np.linalg.eigh(np.cov((tokens - mean).T))
    directions = vectors[:, : -DIMENSIONS - 1 : -1]
    reduced = (tokens - mean) @ directions
    reduced /= np.linalg.norm(reduced, axis=1, keepdims=True)
    steps = 2 * REACH * reduced.std(axis=0) / LEVELS
    return np.concatenate([mean, directions.ravel(), steps]), float(values[-DIMENSIONS:].sum() / values.sum())
