"""The pages of health and figures, and the drawing of what memories are related to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from starlette.testclient import TestClient
from tests.app.web.test_reading import HOSTILE, read
from tests.samples import write_memory

from scrimshaw.app.web.graph import place_boxes
from scrimshaw.engine import Engine
from scrimshaw.engine.query_log import LoggedSearch, append, read_log
from scrimshaw.models import Neighbor


def edge(hop: int, source: str, target: str, *, outward: bool = True, relation: str = "supports") -> Neighbor:
    return Neighbor(
        start="a", hop=hop, source=source, target=target, relation=relation, strength=1.0, evidence="", outward=outward
    )


@pytest.mark.parametrize(
    ("edges", "columns"),
    [
        ([], {"a": 0}),
        ([edge(1, "a", "b"), edge(1, "c", "a", outward=False)], {"a": 0, "b": 1, "c": -1}),
        ([edge(2, "b", "d"), edge(1, "a", "b")], {"a": 0, "b": 1, "d": 2}),
        ([edge(1, "a", "b"), edge(2, "e", "b", outward=False)], {"a": 0, "b": 1, "e": 2}),
        ([edge(1, "c", "a", outward=False), edge(2, "c", "d")], {"a": 0, "c": -1, "d": -2}),
        ([edge(1, "a", "b"), edge(1, "b", "a", outward=False)], {"a": 0, "b": 1}),
        ([edge(1, "a", f"b{n:02}") for n in range(20)], {"a": 0} | {f"b{n:02}": 1 for n in range(12)}),
    ],
)
def test_what_leads_here_is_left_and_what_it_leads_to_is_right(edges: list[Neighbor], columns: dict[str, int]) -> None:
    boxes = place_boxes("a", edges)
    assert {name: box.column for name, box in boxes.items()} == columns
    corners = {(box.x, box.y) for box in boxes.values()}
    assert len(corners) == len(boxes)
    assert all(x >= 0 and y >= 0 for x, y in corners)


def test_a_walk_goes_from_box_to_box(browser: TestClient, vault: Path) -> None:
    write_memory(vault, "north", "The old pier.\n", "title: North")
    write_memory(vault, "south", "A pier.\n", "title: South\nrelations: {supersedes: [{id: north, evidence: it sank}]}")
    write_memory(vault, "west", "See [[south]] and [[nobody]].\n")
    page = read(browser, "/graph/north")
    walk = {each.attributes["href"]: each.text for each in page.find("a")}
    assert walk["/graph/south"].startswith("South, supersedes")
    assert walk["/graph/west"].startswith("west, link")
    assert "south supersedes north it sank" in page.text
    assert len([*page.find("path", **{"marker-end": "url(#tip)"})]) == 2
    assert "leads nowhere" in read(browser, "/graph/west").text
    assert [*read(browser, "/memory/north").find("a", href="/graph/north")]


def test_a_memory_without_relations_says_so(browser: TestClient, vault: Path) -> None:
    write_memory(vault, "north", "The old pier.\n")
    assert "No relation" in read(browser, "/graph/north").text
    assert "No memory is related" in read(browser, "/graph").text
    read(browser, "/graph/none", 404)


def test_hostile_titles_are_drawn_as_text(browser: TestClient, vault: Path) -> None:
    for number, text in enumerate(HOSTILE):
        title = text.replace("\n", " ").replace("'", "''")
        write_memory(vault, f"m{number}", "See [[north]].\n", f"title: '{title}'")
    write_memory(vault, "north", "The old pier.\n")
    read(browser, "/graph/north")
    for path in ("/health", "/stats", "/quality", "/graph"):
        read(browser, path)


def test_health_names_every_part(browser: TestClient, engine: Engine, vault: Path) -> None:
    write_memory(vault, "north", "The harbour closes at dusk.\n")
    page = read(browser, "/health")
    assert "Everything works." in page.text
    assert "ledger" not in next(page.find("ul", **{"class": "verdicts"})).text
    parts = [each.text for each in page.find("li") if each.text.startswith(("ok", "note", "warning", "problem"))]
    assert any("journal" in part for part in parts)
    assert "Read every page" not in read(browser, "/health?thorough=1").text


def test_figures_tell_what_was_searched(browser: TestClient, engine: Engine, vault: Path) -> None:
    write_memory(vault, "north", "The harbour closes at dusk.\n", "created: 2026-01-01T00:00:00Z\ntier: important")
    assert "Nothing was searched for" in read(browser, "/stats").text
    read(browser, "/?q=harbour")
    read(browser, "/?q=parliament")
    page = read(browser, "/stats?days=1")
    assert "2 searches." in page.text
    assert "nothing was sure enough to be shown 50.0%" in page.text
    assert "candidate" in page.text
    assert "important 1" in page.text
    assert "lacked a boost" not in page.text
    searched = [each for each in read_log(engine) if isinstance(each, LoggedSearch)]
    append(engine, replace(searched[0], dark=("north",)))
    assert "1 of the searches lacked a boost." in read(browser, "/stats?days=1").text
    assert [each.text for each in page.find("a", **{"aria-current": "true"})] == ["a day"]


def test_quality_is_read_from_the_index_and_drawn_over_time(browser: TestClient, engine: Engine, vault: Path) -> None:
    today = datetime.fromtimestamp(engine.clock(), UTC)
    for number, (days, score) in enumerate([(0, 0.9), (1, 0.9), (1, 0.5), (40, 0.9)]):
        quality = f"created: {today - timedelta(days):%Y-%m-%dT%H:%M:%SZ}\nquality: {{score: {score}, flags: []}}"
        write_memory(vault, f"m{number}", f"The pier has {number} posts.\n", quality)
    file = write_memory(vault, "plain", "The pier.\n", f"created: {today:%Y-%m-%d}\ntopics: [pier]")
    read(browser, "/quality")
    Path(file).chmod(0)  # the page needs no file
    page = read(browser, "/quality?days=14")
    assert "Memories of the last 14 days: 4" in page.text
    assert "bands A and B 66.7% 2 of 3 at least 70% missed" in page.text
    assert "empty topics 75.0% 3 of 4" in page.text
    assert [each.text for each in page.find("title")][1:5] == [
        f"since {today - timedelta(1):%Y-%m-%d}: 1 A", f"since {today - timedelta(1):%Y-%m-%d}: 1 C",
        f"since {today:%Y-%m-%d}: 1 A", f"since {today:%Y-%m-%d}: 1 not graded",
    ]  # fmt: skip
    steps = [each.attributes["points"] for each in page.find("polyline", **{"class": ""})]
    assert "12,50 13,50 13,0 14,0" in steps  # half of yesterday's in A or B, all of today's
    assert "Memories of the last 90 days: 5" in read(browser, "/quality?days=90").text
    assert "9999 days: 5" in read(browser, "/quality?days=999999999").text


def test_the_whole_memory_is_drawn_by_neighbourhoods(browser: TestClient, vault: Path) -> None:
    write_memory(vault, "pier", "The pier.\n", "title: Pier")
    for number in range(30):
        write_memory(vault, f"post{number:02}", "See [[pier]].\n")
    write_memory(vault, "crane", "The crane.\n", "relations: {supports: [hook, pier]}")
    write_memory(vault, "hook", "See [[chain]], [[rope]] and [[eye]].\n")
    for name in ("chain", "rope", "eye", "alone"):
        write_memory(vault, name, "A part.\n")
    page = read(browser, "/graph")
    assert "36 related memories in 2 neighbourhoods" in page.text
    boxes = {each.attributes["href"]: each.text for each in page.find("a") if "memories" in each.text}
    assert boxes["/graph/pier"].startswith("Pier, 32 memories")
    assert boxes["/graph/hook"].startswith("hook, 4 memories")
    assert len([*page.find("path", **{"marker-end": "url(#tip)"})]) == 1


def test_every_relation_of_a_memory_with_very_many_can_be_reached(browser: TestClient, vault: Path) -> None:
    for number in range(450):
        write_memory(vault, f"post{number:03}", "See [[pier]].\n")
    write_memory(vault, "pier", "The pier.\n")
    seen, path = set[str](), "/graph/pier"
    while path:
        page = read(browser, path)
        seen |= {each.text.split()[0] for each in page.find("tr")}
        path = next((each.attributes["href"] for each in page.find("a") if each.text == "More relations"), "")
    assert len(seen) == 451  # with the head of the table
