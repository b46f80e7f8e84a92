"""The page of a memory's relations: a drawing to navigate, and the same as a table."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from scrimshaw.app.web.markup import Html, join, link, make_table, make_url, tag
from scrimshaw.app.web.memory import make_edge_table
from scrimshaw.app.web.page import Page, Site, Values, link_memory, parse_number, read_asset
from scrimshaw.engine import Engine, links
from scrimshaw.models import EdgeKind, Memory, Neighbor

_HOPS, _MOST_ROWS, _MOST_EDGES = 2, 12, 200
_COLUMNS, _MOST_DRAWN, _MOST_LISTED = 4, 32, 200  # of neighbourhoods
_WIDTH, _HEIGHT, _STEP_X, _STEP_Y, _MARGIN = 172, 40, 222, 52, 12  # of a box, and from one to the next
_TITLE_LENGTH = 24  # characters that fit into a box


class Box(NamedTuple):
    """A memory in the drawing: its column (0 in the middle, its sources on the left), and its upper left corner."""

    column: int
    x: float
    y: float
    relation: str  #: how the drawing reached it


def show_neighbourhoods(site: Site, values: Values) -> Page:
    """The whole memory as its largest neighbourhoods, each named by the memory in its middle, and their relations."""
    engine = site.engine
    edges = [(edge.source, place) for edge, place in engine.index.edges() if place not in ("", edge.source)]
    if not edges:
        return Page("Graph", tag("p", "No memory is related to another yet."), "/graph")
    middles = find_middles(edges)
    sizes = Counter(middles.values())
    across = Counter((middles[a], middles[b]) for a, b in edges if middles[a] != middles[b])
    listed = [name for name, _ in sizes.most_common(_MOST_LISTED)]
    boxes = {}
    for at, name in enumerate(listed[:_MOST_DRAWN]):
        row, column = divmod(at, _COLUMNS)
        place = _MARGIN + column * _STEP_X, _MARGIN + row * _STEP_Y
        boxes[name] = Box(column, *place, f"{sizes[name]} memories")
    near = [pair for pair, _ in across.most_common() if boxes.keys() >= {*pair}][:_MOST_DRAWN]
    lines = [Neighbor(start=a, hop=1, source=a, target=b, relation="link", strength=1, evidence="") for a, b in near]
    memories = engine.index.get(listed)
    titles = ((name, memories[name].title if name in memories else name) for name in listed)
    rows = ((link(title, make_url("/graph", name)), name, sizes[name]) for name, title in titles)
    table = make_table("Neighbourhoods", ("memory in the middle", "id", "memories"), rows)
    words = f"{len(middles)} related memories in {len(sizes)} neighbourhoods; "
    words += f"{len(boxes)} are drawn, {len(listed)} listed."
    drawing = tag("div", draw_graph(boxes, lines, memories), class_="scroll")
    return Page("Graph", join(tag("p", words, class_="dim"), drawing, table), "/graph")


def find_middles(edges: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Every memory with the one in the middle of its neighbourhood: the most related one takes its neighbours first."""
    near, middles = defaultdict[str, set[str]](set), dict[str, str]()
    for one, other in edges:
        near[one].add(other)
        near[other].add(one)
    for name in sorted(near, key=lambda name: (-len(near[name]), name)):
        if name not in middles:
            middles |= {name: name, **dict.fromkeys((each for each in near[name] if each not in middles), name)}
    return middles


def show_graph(site: Site, values: Values) -> Page:
    """The neighbourhood of a memory; raises NotFound."""
    engine = site.engine
    memory = engine.memory(values["id"])
    edges = links.list_dependencies(engine, memory.id, hops=1, direction="both")
    if len(edges) <= _MOST_EDGES:  # otherwise there are more than fit on a page
        edges = links.list_dependencies(engine, memory.id, hops=_HOPS, direction="both")
    boxes = place_boxes(memory.id, edges)
    drawing = draw_graph(boxes, edges, engine.index.get([*boxes]))
    absent = len({edge.place for edge in edges if not edge.unresolved} - boxes.keys())
    more = f" {absent} more memories are as near and not drawn." if absent else ""
    words = "From left to right: what leads here, this memory, where it leads. A box leads on."
    hint = tag("p", words, more, class_="dim")
    back = tag("p", link_memory(memory.id, "Read this memory"))
    first = parse_number(values, "first")
    rest = link("More relations", make_url("/graph", memory.id, first=first + _MOST_EDGES))
    onward = tag("p", rest, class_="onward") if len(edges) > first + _MOST_EDGES else None
    table = make_edge_table(edges[first : first + _MOST_EDGES])
    parts = [back, hint, tag("div", drawing, class_="scroll"), table, onward]
    parts = parts if edges else [back, tag("p", "No relation leads here or from here.")]
    return Page(memory.title, join(parts), "/graph")


def place_boxes(centre: str, edges: Sequence[Neighbor]) -> dict[str, Box]:
    """The position of each memory of a walk, nearest and strongest first, as many as fit on a screen."""
    columns: dict[int, list[str]] = defaultdict(list, {0: [centre]})
    found = {centre: (0, "")}
    for edge in sorted(edges, key=lambda edge: (edge.hop, edge.relation == EdgeKind.LINK, -edge.strength, edge.place)):
        origin = edge.source if edge.outward else edge.target
        if edge.unresolved or edge.place in found or origin not in found:
            continue
        column = found[origin][0]
        column += (1 if edge.outward else -1) if column == 0 else (1 if column > 0 else -1)
        if len(columns[column]) < _MOST_ROWS:
            columns[column].append(edge.place)
            found[edge.place] = column, edge.relation
    most, first = max(map(len, columns.values())), min(columns)
    boxes = {}
    for column, names in columns.items():
        top = (most - len(names)) * _STEP_Y / 2
        for row, name in enumerate(names):
            place = _MARGIN + (column - first) * _STEP_X, _MARGIN + top + row * _STEP_Y
            boxes[name] = Box(column, *place, found[name][1])
    return boxes


def draw_file(engine: Engine, memory_id: str) -> Html:
    """The neighbourhood of a memory as a separate file, light or dark like its reader's system; raises NotFound."""
    edges = links.list_dependencies(engine, memory_id, hops=_HOPS, direction="both")
    boxes = place_boxes(memory_id, edges)
    return draw_graph(boxes, edges, engine.index.get([*boxes]), style=read_asset("drawing.css"))


def draw_graph(
    boxes: Mapping[str, Box], edges: Sequence[Neighbor], memories: Mapping[str, Memory], style: str = ""
) -> Html:
    """The drawing, with each box as a link to the drawing around it; with `style` for a file, without links."""
    width = max(box.x for box in boxes.values()) + _WIDTH + _MARGIN
    height = max(box.y for box in boxes.values()) + _HEIGHT + _MARGIN
    tip = tag("path", d="M0 0L8 4L0 8z")
    arrow = tag("marker", tip, id="tip", markerWidth=8, markerHeight=8, refX=8, refY=4, orient="auto")
    drawn = [_draw_box(name, box, memories, is_link=not style) for name, box in boxes.items()]
    parts = [tag("style", Html(style)) if style else None, arrow, *_draw_edges(boxes, edges), *drawn]
    frame = f"0 0 {width:g} {height:g}"
    about = {"class_": "graph", "role": "group", "aria_label": "Related memories", "viewBox": frame}
    return tag("svg", parts, xmlns="http://www.w3.org/2000/svg", width=width, height=height, **about)


def _draw_box(name: str, box: Box, memories: Mapping[str, Memory], *, is_link: bool) -> Html:
    title = memories[name].title if name in memories else name
    shown = title if len(title) <= _TITLE_LENGTH else f"{title[: _TITLE_LENGTH - 1].rstrip()}…"
    relation = box.relation.replace("_", " ")
    label = f"{title}, {relation}" if relation else title
    frame = tag("rect", x=box.x, y=box.y, width=_WIDTH, height=_HEIGHT, rx=6)
    lines = [(shown, 17, None), (relation, 32, "label")] if relation else [(shown, 25, None)]
    texts = [tag("text", text, x=10, y=down, class_=kind, aria_hidden="true") for text, down, kind in lines]
    inside = tag("svg", texts, x=box.x, y=box.y, width=_WIDTH - 4, height=_HEIGHT)  # clips wide letters
    # A screen reader reads the title, which is complete.
    kind, content = None if relation else "centre", [tag("title", label), frame, inside]
    return link(content, make_url("/graph", name), class_=kind) if is_link else tag("g", content, class_=kind)


def _draw_edges(boxes: Mapping[str, Box], edges: Sequence[Neighbor]) -> Iterator[Html]:
    """Arrows from the source of each relation to its target."""
    for source, target, relation in dict.fromkeys((each.source, each.target, each.relation) for each in edges):
        if source not in boxes or target not in boxes:
            continue
        a, b = boxes[source], boxes[target]
        leaves, enters = (1, 0) if a.column < b.column else (0, 1) if a.column > b.column else (1, 1)
        x1, y1, x2, y2 = a.x + leaves * _WIDTH, a.y + _HEIGHT / 2, b.x + enters * _WIDTH, b.y + _HEIGHT / 2
        bend1, bend2 = (40 if leaves else -40), (40 if enters else -40)
        course = f"M{x1:g} {y1:g}C{x1 + bend1:g} {y1:g} {x2 + bend2:g} {y2:g} {x2:g} {y2:g}"
        yield tag("path", d=course, class_=f"edge {relation}", marker_end="url(#tip)")
