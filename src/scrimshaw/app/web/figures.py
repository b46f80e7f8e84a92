"""The pages of figures: the health of every part, and what is searched for, how fast, and what there is."""

from collections.abc import Iterator, Mapping

from scrimshaw.app.checks import process_checks
from scrimshaw.app.web.markup import Html, join, link, make_url, tag
from scrimshaw.app.web.page import Page, Site, Values, make_bar, make_table, parse_number, render_notes
from scrimshaw.engine import counts
from scrimshaw.engine.health import Health, check_health
from scrimshaw.engine.lint import DAYS, quality_figures
from scrimshaw.engine.query_log import SHARES, SearchFigures, search_figures
from scrimshaw.models import Filters

_PERIODS = (1, 7, 14, 90)  # days
_MOST_COUNTS, _MOST_MEASURED = 12, 20
_VERDICTS = {"met": "ok", "missed": "problem", "-": ""}
_SENTENCES = {
    "healthy": "Everything works.",
    "degraded": "It works, without what the warnings name.",
    "broken": "Something needs repair: until then it may answer wrongly, or keep nothing.",
}


def show_health(site: Site, values: Values) -> Page:
    """Every part as measured now; with `thorough` also every page of the databases and the ledger."""
    engine = site.engine
    site.follow_files()
    is_thorough = bool(values.get("thorough"))
    health = check_health(engine, thorough=is_thorough, more=process_checks(engine.settings))
    problems = [tag("p", problem, class_="note") for problem in health.problems]
    parts = [tag("p", _SENTENCES[health.status], role="status"), problems, _render_parts(health)]
    if not is_thorough:
        read_all = link("Read every page of the databases and the ledger too", "/health?thorough=1")
        parts.append(tag("p", read_all, class_="onward"))
    return Page("Health", join(parts), "/health")


def _render_parts(health: Health) -> Html:
    items = []
    for part in health.capabilities:
        verdict = health.verdicts[part.name]
        what = [tag("b", part.name.replace("_", " ")), " ", part.detail]
        advice = health.advice.get(part.name, "")
        change = f"{part.was} until {part.since}" if part.was else ""
        lines = [tag("p", text, class_="dim") for text in (advice, change) if text]
        items.append(tag("li", tag("span", verdict, class_=f"verdict {verdict}"), tag("div", what, lines)))
    return tag("ul", items, class_="verdicts")


def show_statistics(site: Site, values: Values) -> Page:
    """What there is, and the searches of some days; with `quality` and `usage` also slower figures."""
    engine = site.engine
    site.follow_files()
    days = parse_number(values, "days") or int(DAYS)
    found = counts.stats(engine, Filters())
    periods = [
        link(
            "a day" if each == 1 else f"{each} days",
            make_url("/stats", days=each),
            aria_current="true" if each == days else None,
        )
        for each in _PERIODS
    ]
    dates = f"{found.oldest[:10] or '-'} to {found.newest[:10] or '-'}"
    ready, pieces = found.vectors
    look = link("Look what the last sessions made of it", make_url("/stats", days=days, usage=1))
    judge = link("Judge the newest memories", make_url("/stats", days=days, quality=1))
    parts = [
        tag("h2", "Searches"),
        tag("p", periods, class_="onward"),
        _render_searches(search_figures(engine, days)),
        tag("h2", "What sessions were told unasked"),
        render_usage(site) if values.get("usage") else tag("p", look),
        tag("h2", "Memories"),
        tag("p", f"{found.total} memories, updated {dates}; {ready} of {pieces} pieces have a vector."),
        [_render_counts(name, getattr(found, f"by_{name}")) for name in ("type", "tier", "source")],
        render_notes(found.degradations),
        tag("h2", "Quality"),
        _render_quality(site, days) if values.get("quality") else tag("p", judge),
    ]
    return Page("Statistics", join(parts), "/stats")


def _render_searches(figures: SearchFigures) -> Html:
    if not figures.searches:
        return tag("p", "Nothing was searched for in that time.")
    shares = {words: getattr(figures, name) for name, words in SHARES.items()}
    rows = ((name, "-" if share is None else (make_bar(share), f" {share:.1%}")) for name, share in shares.items())
    slowest = max(late for _, late in figures.stages.values()) or 1.0
    stages = (
        (stage, f"{median:.2f}", (make_bar(late / slowest), f" {late:.2f}"))
        for stage, (median, late) in figures.stages.items()
    )
    return join(
        tag("p", f"{figures.searches} searches."),
        make_table("What became of searches", ("share of searches in which", ""), rows),
        make_table("Milliseconds of each stage", ("stage", "median ms", "95th percentile ms"), stages),
    )


def render_usage(site: Site) -> Html:
    """How much of the texts that the newest sessions were given they wrote again or read."""
    sessions = counts.contexts(site.engine, _MOST_MEASURED)
    unasked, uses = sum(each.unasked for each in sessions), sum(each.uses for each in sessions)
    share = uses / unasked if unasked else 0.0
    words = f"{len(sessions)} sessions were given {unasked} texts unasked; {uses} were repeated or read."
    return tag("p", make_bar(share), f" {share:.1%} ", words)


def _render_counts(name: str, by: Mapping[str, int]) -> Html:
    most = max(by.values(), default=1)
    ordered = sorted(by.items(), key=lambda pair: (-pair[1], pair[0]))[:_MOST_COUNTS]
    rows = ((key or "-", (make_bar(count / most), f" {count}")) for key, count in ordered)
    return make_table(f"Memories by {name}", (name, "memories"), rows)


def _render_quality(site: Site, days: int) -> Html:
    figures = quality_figures(site.engine.settings, days=days)

    def rows() -> Iterator[tuple[Html | str, ...]]:
        for each in figures["measures"]:
            share = "-" if each["share"] is None else f"{each['share']:.1%}"
            bound = f"{'at most' if each['at_most'] else 'at least'} {each['target']:.0%}"
            met = "-" if each["share"] is None else "met" if each["met"] else "missed"
            yield (
                each["name"],
                share,
                f"{each['count']} of {each['of']}",
                bound,
                tag("span", met, class_=f"verdict {_VERDICTS[met]}"),
            )

    table = make_table("Quality of the newest memories", ("measure", "share", "memories", "bound", "it is"), rows())
    return join(tag("p", f"{figures['files']} memories were created in {days} days."), table)
