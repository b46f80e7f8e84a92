"""Token vectors: how well each word of a query matches some word of a passage (late interaction).

The model computes a vector for every token before that of the text. Here they are reduced to the directions in
which the tokens of notes and sessions differ most, scaled to length 1, and packed with 4 bits per number.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.float32]

# Nearly as good as 128 directions in floating point (docs/evaluation.md).
DIMENSIONS, LEVELS = 64, 16
_HALF, _MIDDLE = DIMENSIONS // 2, (LEVELS - 1) / 2
# A passage scoring this much less than the best counts less by a factor of e (docs/evaluation.md).
AGREEMENT_RANGE = 0.1
# Little-endian float16, made by `scrimshaw eval projection`: the mean token, a row for each of its numbers with its
# share in every direction, and the step between two levels in every direction.
FILE = Path(__file__).with_name("model") / "token_projection.f16"


@cache
def load_projection() -> tuple[Rows, Rows, Rows]:
    """The mean token, the directions as columns, and the steps."""
    import numpy as np  # noqa: PLC0415 - heavy, only where vectors are made

    numbers = np.fromfile(FILE, "<f2").astype(np.float32)
    width = (len(numbers) - DIMENSIONS) // (DIMENSIONS + 1)
    return numbers[:width], numbers[width:-DIMENSIONS].reshape(width, DIMENSIONS), numbers[-DIMENSIONS:]


def project_tokens(hidden: Rows) -> Rows:
    """The model's rows, one per token, reduced to DIMENSIONS numbers and length 1."""
    mean, directions, _ = load_projection()
    return scale_rows(scale_rows(hidden) @ directions - mean @ directions)


def pack_tokens(rows: Rows) -> bytes:
    """The rows packed as a level per number, two per byte."""
    import numpy as np  # noqa: PLC0415 - heavy, only where vectors are made

    levels = np.clip(np.rint(rows / load_projection()[2] + _MIDDLE), 0, LEVELS - 1).astype(np.uint8)
    packed: bytes = (levels[:, :_HALF] << 4 | levels[:, _HALF:]).tobytes()
    return packed


def match_tokens(query: Rows, passages: Sequence[bytes]) -> tuple[list[float], float]:
    """The mean over query tokens of the best cosine with a token: of each non-empty passage, and of all of them."""
    import numpy as np  # noqa: PLC0415 - heavy, only where vectors are searched

    packed = np.frombuffer(b"".join(passages), np.uint8).reshape(-1, _HALF)
    scaled = query * load_projection()[2]
    high, low = (packed >> 4).astype(np.float32), (packed & LEVELS - 1).astype(np.float32)
    cosines = scaled[:, :_HALF] @ high.T + scaled[:, _HALF:] @ low.T - _MIDDLE * scaled.sum(axis=1, keepdims=True)
    starts = [0, *accumulate(len(each) // _HALF for each in passages)][:-1]
    best = np.maximum.reduceat(cosines, starts, axis=1)
    return best.mean(axis=0).tolist(), float(best.max(axis=1, initial=0.0).mean())


def compare_vectors(
    vectors: Sequence[bytes], scores: Sequence[float], same: float
) -> tuple[list[float], list[list[int]]]:
    """Each float16 vector's mean cosine to the others, weighted by scores; pairs of positions of at least `same`."""
    import numpy as np  # noqa: PLC0415 - heavy, only where vectors are searched

    rows = np.frombuffer(b"".join(vectors), np.float16).reshape(len(vectors), -1).astype(np.float32)
    weights = np.exp((np.asarray(scores) - max(scores)) / AGREEMENT_RANGE)
    cosines = rows @ rows.T
    agreement = cosines * (1 - np.eye(len(rows))) @ weights / np.maximum(weights.sum() - weights, 1e-9)
    return agreement.tolist(), np.argwhere(np.triu(cosines, 1) >= same).tolist()


def scale_rows(rows: Rows) -> Rows:
    """The rows scaled to length 1; a row of zeros stays."""
    import numpy as np  # noqa: PLC0415 - heavy, only where vectors are made

    unit: Rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return unit
