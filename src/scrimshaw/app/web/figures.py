"""The pages of figures: the health of every part, and what is searched for, how fast, and what there is."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from scrimshaw.app.checks import list_process_checks
from scrimshaw.app.web.markup import Child, Html, draw_lines, join, link, make_bar, make_table, make_url, tag
from scrimshaw.app.web.page import Page, Site, Values, parse_number, render_notes
from scrimshaw.engine import counts
from scrimshaw.engine.health import check_health
from scrimshaw.engine.lint import DAYS, list_grades, sum_grades
from scrimshaw.engine.query_log import SHARES, SearchFigures, describe_dark, search_figures
from scrimshaw.ingest.quality import BANDS
from scrimshaw.models import Filters

_PERIODS, _MOST_DAYS = (1, 7, 14, 90), 9999
_MOST_COUNTS, _MOST_MEASURED, _MOST_PERIODS = 12, 12, 14
_BANDS = (*BANDS, "not graded")
Course = Sequence[tuple[str, Mapping[str, Any]]]  # of periods, oldest first: the first day, and the sums of its grades
_VERDICTS = {"met": "ok", "missed": "problem", "-": ""}
_SENTENCES = {
    "healthy": "Everything works.",
    "degraded": "It works, without what the warnings name.",
    "broken": "Something needs repair: until then it may answer wrongly, or keep nothing.",
}


def show_health(site: Site, values: Values) -> Page:
    """Every part as measured now; with `thorough` also every page of the databases and the ledger."""
    engine = site.engine
    is_thorough = bool(values.get("thorough"))
    health = check_health(engine, thorough=is_thorough, more=list_process_checks(engine.settings))
    problems = [tag("p", problem, class_="note") for problem in health.problems]
    items = []
    for part in health.capabilities:
        verdict, advice = health.verdicts[part.name], health.advice.get(part.name, "")
        what = [tag("b", part.name.replace("_", " ")), " ", part.detail]
        change = f"{part.was} until {part.since}" if part.was else ""
        lines = [tag("p", text, class_="dim") for text in (advice, change) if text]
        items.append(tag("li", tag("span", verdict, class_=f"verdict {verdict}"), tag("div", what, lines)))
    parts = [tag("p", _SENTENCES[health.status], role="status"), problems, tag("ul", items, class_="verdicts")]
    if not is_thorough:
        read_all = link("Read every page of the databases and the ledger too", "/health?thorough=1")
        parts.append(tag("p", read_all, class_="onward"))
    return Page("Health", join(parts), "/health")


def show_statistics(site: Site, values: Values) -> Page:
    """What there is, and the searches of some days; with `usage` also slower figures."""
    engine = site.engine
    days = parse_number(values, "days") or int(DAYS)
    found = counts.count_memories(engine, Filters())
    dates = f"{found.oldest[:10] or '-'} to {found.newest[:10] or '-'}"
    ready, pieces = found.vectors
    usage: Sequence[Child] = (link("How the last sessions used it", make_url("/stats", days=days, usage=1)),)
    if values.get("usage"):  # how much of the texts that the newest sessions were shown they wrote again or read
        sessions = counts.list_tokens(engine, _MOST_MEASURED)
        unasked, uses = sum(each.unasked for each in sessions), sum(each.uses for each in sessions)
        share = uses / unasked if unasked else 0.0
        words = f"Sessions: {len(sessions)}; texts they were shown unasked: {unasked}; repeated or read: {uses}."
        usage = (make_bar(share), f" {share:.1%} ", words)
    tables = list[Html]()
    for name in ("type", "tier", "source"):
        ordered = Counter(getattr(found, f"by_{name}")).most_common(_MOST_COUNTS)
        rows = ((key or "-", (make_bar(count / ordered[0][1]), f" {count}")) for key, count in ordered)
        tables.append(make_table(f"Memories by {name}", (name, "memories"), rows))
    quality = link("Quality of the newest memories", make_url("/quality", days=days))
    searches = tag("h2", "Searches"), _link_periods("/stats", days), _render_searches(search_figures(engine, days))
    shown = tag("h2", "Shown to agents unasked"), tag("p", usage)
    words = f"{found.total} memories, updated {dates}; {ready} of {pieces} pieces have a vector."
    memories = tag("h2", "Memories"), tag("p", words), tables
    end = render_notes(found.degradations), tag("p", quality, class_="onward")
    return Page("Statistics", join(searches, shown, memories, end), "/stats")


def _link_periods(path: str, days: int) -> Html:
    periods = ((each, "a day" if each == 1 else f"{each} days") for each in _PERIODS)
    links = (link(name, make_url(path, days=n), aria_current="true" if n == days else None) for n, name in periods)
    return tag("p", links, class_="onward")


def _render_searches(figures: SearchFigures) -> Html:
    if not figures.searches:
        return tag("p", "Nothing was searched for in that time.")
    shares = {words: getattr(figures, name) for name, words in SHARES.items()}
    rows = ((name, "-" if share is None else (make_bar(share), f" {share:.1%}")) for name, share in shares.items())
    took = figures.stages.items()
    slowest = max(late for _, (_, late) in took) or 1.0
    stages = ((name, f"{median:.2f}", (make_bar(late / slowest), f" {late:.2f}")) for name, (median, late) in took)
    became = make_table("What became of searches", ("share of searches in which", ""), rows)
    dark = [tag("p", words) for words in describe_dark(figures.dark)]
    times = make_table("Milliseconds of each stage", ("stage", "median ms", "95th percentile ms"), stages)
    return join(tag("p", f"{figures.searches} searches."), became, dark, times)


def show_quality(site: Site, values: Values) -> Page:
    """The grades of the newest memories, as the index has them, in all and over time."""
    days = min(parse_number(values, "days") or int(DAYS), _MOST_DAYS)
    graded, width = list_grades(site.engine, days), -(-days // _MOST_PERIODS)
    periods = [[each for age, each in graded if age // width == place] for place in range(-(-days // width))]
    today = datetime.fromtimestamp(site.engine.clock(), UTC).date()
    starts = [str(today - timedelta(width * (place + 1) - 1)) for place in range(len(periods))]
    course = [(start, sum_grades(some)) for start, some in zip(starts[::-1], periods[::-1], strict=True)]
    words = f"Memories of the last {days} days: {len(graded)}. Each has the grade from when it was saved; "
    again = tag("p", words, tag("code", "scrimshaw stats --quality"), " grades their files again.")
    measures = _render_measures(sum_grades([each for _, each in graded])["measures"], course)
    return Page("Quality", join(_link_periods("/quality", days), again, _draw_bands(course), measures), "/stats")


def _draw_bands(course: Course) -> Html:
    """A column for each period, of as many memories as each band has; and the same as a table."""
    counts = [(start, [*each["bands"].values(), each["files"] - sum(each["bands"].values())]) for start, each in course]
    most, shapes = max(max(sum(each) for _, each in counts), 1), list[Html]()
    for place, (start, some) in enumerate(counts):
        base = 100.0
        for name, count in zip(_BANDS, some, strict=True):
            height = 100 * count / most
            base -= height
            title = tag("title", f"since {start}: {count} {name}")
            box = {"x": place + 0.1, "y": round(base, 2), "width": 0.8, "height": round(height, 2)}
            shapes += [tag("rect", title, class_=f"band-{name[0]}", **box)] if count else []
    keys = [(tag("svg", tag("rect", width="100%", height="100%", class_=f"band-{name[0]}"), class_="key",
                 aria_hidden="true"), f" {name} ") for name in _BANDS]  # fmt: skip
    words = f"Memories by band since {counts[0][0]}; the highest column has {most}."
    frame = {"viewBox": f"0 0 {len(counts)} 100", "preserveAspectRatio": "none"}
    plot = tag("svg", shapes, class_="plot", role="img", aria_label=words, **frame)
    table = make_table("Memories by band over time", ("since", *_BANDS), ((start, *some) for start, some in counts))
    details = tag("details", tag("summary", "As a table"), table)
    return join(plot, tag("p", keys), tag("p", words, class_="dim"), details)


def _render_measures(measures: Sequence[Mapping[str, Any]], course: Course) -> Html:
    def rows() -> Iterator[tuple[Child, ...]]:
        for place, each in enumerate(measures):
            shares = [some["measures"][place]["share"] for _, some in course]
            steps = [(x, share) for at, share in enumerate(shares) if share is not None for x in (at, at + 1)]
            bound = f"{'at most' if each['at_most'] else 'at least'} {each['target']:.0%}"
            met = "-" if each["share"] is None else "met" if each["met"] else "missed"
            lines = [("bound", bound, [(0, each["target"]), (len(course), each["target"])]), ("", each["name"], steps)]
            yield (
                each["name"],
                "-" if each["share"] is None else f"{each['share']:.1%}",
                f"{each['count']} of {each['of']}",
                bound,
                tag("span", met, class_=f"verdict {_VERDICTS[met]}"),
                draw_lines(lines, len(course), f"{each['name']} over time") if steps else "-",
            )

    return make_table("Quality", ("measure", "share", "memories", "bound", "it is", "over time"), rows())
