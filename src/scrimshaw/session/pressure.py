"""How full the client's context is, and how long an answer may be. Pure."""

from collections.abc import Mapping

from scrimshaw.config import ContextSettings
from scrimshaw.models import Mode, Pressure

# Modes by the length of their answers, ascending; auto has not chosen yet, so any other is narrower.
_WIDTHS: Mapping[Mode, int] = {Mode.QUICK: 0, Mode.FOCUSED: 1, Mode.DEEP: 2, Mode.AUTO: 3}
_WIDEST: Mapping[Pressure, Mode] = {Pressure.ELEVATED: Mode.FOCUSED, Pressure.HIGH: Mode.QUICK}
# A title and a sentence or two; with 300 an answer tipped one of 50 replayed sessions over, with this none.
SMALLEST_ANSWER = 200
# Under pressure an answer gets half its budget when so many passages are in the context: some three full answers.
_HALVED_BY = 20


def pressure_level(share: float | None, thresholds: tuple[float, float]) -> Pressure:
    """The pressure of a share; both thresholds belong to elevated."""
    if share is None:
        return Pressure.UNKNOWN
    elevated, high = thresholds
    return Pressure.HIGH if share > high else Pressure.ELEVATED if share >= elevated else Pressure.NORMAL


def narrow_mode(mode: Mode, pressure: Pressure) -> Mode:
    """The mode under pressure, never a wider one. Resume stays resume, with a smaller budget: see `token_budget`."""
    return mode if mode is Mode.RESUME else min(mode, _WIDEST.get(pressure, mode), key=_WIDTHS.__getitem__)


def token_budget(
    mode: Mode, pressure: Pressure, settings: ContextSettings, *, share: float, high: float, shown: int = 0
) -> int:
    """The tokens that an answer may have.

    Above the threshold `high` it shrinks with the remaining context, and under any pressure with the number of passages
    `shown` that are still in the context: whoever asked often has much of what is known.
    """
    least: int = min(getattr(settings, f"{each}_tokens") for each in (mode, _WIDEST.get(pressure, mode)))
    if pressure not in _WIDEST:
        return least
    rest = (1 - share) / (1 - high) if pressure is Pressure.HIGH else 1.0
    return min(least, max(SMALLEST_ANSWER, round(least * rest / (1 + shown / _HALVED_BY))))


def describe_pressure(share: float | None, pressure: Pressure) -> str:
    """What the reader should know about the pressure; empty when it is normal."""
    if share is None:
        return "Context use is unknown: no token_usage was passed and the client reports none, so nothing is narrowed."
    widest = _WIDEST.get(pressure)
    return f"The context is {share:.0%} full: answers are {widest} at most." if widest else ""
