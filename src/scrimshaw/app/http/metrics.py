"""Counts and latencies of calls, by vault, in the text format of Prometheus."""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping

_BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds: a search takes tens of ms, a restore some s


class Metrics:
    """The calls since the start; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls, self._sums, self._buckets = Counter[tuple[str, str, str]](), Counter[str](), Counter[object]()

    def observe(self, vaults: Iterable[str], tool: str, seconds: float, error: str) -> None:
        """Count a call in these vaults; `error` is the code of its error, empty if it succeeded."""
        with self._lock:
            for vault in vaults:
                self._calls[vault, tool, error or "ok"] += 1
                self._sums[vault] += seconds  # type: ignore[assignment]  # a Counter adds any number
                self._buckets[vault, next((bound for bound in _BOUNDS if seconds <= bound), "+Inf")] += 1

    def render(self, vaults: Iterable[str], gauges: Mapping[str, Mapping[str, float]]) -> str:
        """What a token may see: calls of these vaults, and `gauges` by name and vault."""
        vaults, lines = sorted(vaults), ["# TYPE scrimshaw_calls_total counter"]
        with self._lock:
            for (vault, tool, outcome), count in sorted(self._calls.items()):
                if vault in vaults:
                    lines.append(f"scrimshaw_calls_total{_labels(vault=vault, tool=tool, outcome=outcome)} {count}")
            lines.append("# TYPE scrimshaw_call_seconds histogram")
            for vault in vaults:
                total = 0
                for bound in (*_BOUNDS, "+Inf"):
                    total += self._buckets[vault, bound]
                    lines.append(f"scrimshaw_call_seconds_bucket{_labels(vault=vault, le=str(bound))} {total}")
                lines.append(f"scrimshaw_call_seconds_sum{_labels(vault=vault)} {self._sums[vault]:.6f}")
                lines.append(f"scrimshaw_call_seconds_count{_labels(vault=vault)} {total}")
        for name, values in gauges.items():
            lines.append(f"# TYPE scrimshaw_{name} gauge")
            lines += (f"scrimshaw_{name}{_labels(vault=vault)} {value:g}" for vault, value in values.items())
        return "\n".join([*lines, ""])


def _labels(**labels: str) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"
