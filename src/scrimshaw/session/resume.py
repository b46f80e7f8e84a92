"""The wording of a session's items and memory, and the items that answer a query. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.models import Item
from scrimshaw.search.periods import Period
from scrimshaw.search.results import StateLine
from scrimshaw.search.tokens import STEM, STOP_WORDS, count_shared, query_terms

# The sections of a session's memory, what says most first; its title and the prompt name the task.
_TASKS, _DONE = ("Task", "Asked later"), ("Changed", "Tests")
_SECTIONS = ("Outcome", "Open", "Next", "Decisions", "Learned", *_DONE)
_MARKS = re.compile(r"(?m)(?<=^- )commit [0-9a-f]+: | \(e\d+(?:, e\d+)*\)$")

# Replaces text that speaks to the agent and is not a person's; the entry can still be read by its id.
WITHHELD = "held instruction-like text, not shown"

# Occasions for a summary; each gets a different one.
Occasion = StrEnum("Occasion", "START RESUME COMPACT CLEAR")

# Wording that asks for the session itself, whatever its subject.
RECALL = re.compile(
    r"\b(recent(?:ly)?|last|latest|previous(?:ly)?|earlier|so far|just (?:did|done|now)|"
    r"where (?:were|was|did) (?:we|i)|left off|continue|resume|current (?:work|task|session)|this session|today|"
    r"what (?:did|have) (?:we|i)|what(?: i|')?s (?:left|open|missing|next|still open|still missing)|next steps?|"
    r"open (?:points|ends|tasks)|what remains|unfinished|left to do|todos?|leave off|progress)\b",
    re.IGNORECASE,
)
# Wording that asks where the work on a subject stands: what is not done, how far it is, or to go on with it.
_END = r"(?=\s*([?!,;:]|\.(?!\w)|$)| (to|on|for|in|with|of|at|about|from|yet|already|now|right)\b)"
_POINTS = r"(points?|ends?|tasks?|items?|questions?|issues?|work|to-?dos?)"
_GO_ON = r"(continue|resume|pick up|carry on|go on|keep going|proceed|get back|go back|back)"
_STATES = (
    rf"\b(left off|leave off|what remains|remains to|unfinished|left (to do|undone)|next steps?{_END})",
    r"\b(what|which|any(thing)?|list|show)\b[^.?!]{0,40}\b((still|left) (open|missing|pending|outstanding|unresolved)|"
    rf"(still|left) to (be )?do(ne)?|still (need|ha[sv]e)|missing still|open {_POINTS}|to-?dos?{_END})",
    r"\b(what|anything)('?s| is| are| was)?( there)?( still| left)* "
    rf"(blocking|open|left|next|missing|remaining|outstanding|pending|undone|unresolved){_END}",
    r"\bwhat (do|does|must|should|can) \w+ (still|do next)\b|\b(is|are)( not|n't) (yet )?(done|finished)( yet)?\W*$",
    rf"^\W*(still (open|to do)|(still )?(open|remaining) {_POINTS})\b",
    r"(^|\b(the|current|quick|any) )(state|status|progress|update) (of|on|with)\b[^.?!]{0,40}\W*$|[^.?!] status\W*\?",
    r"\bhow far (did|have|are|is|along)\b|\b(catch me up|up to speed) (on|with)\b|\bcoming along\b|\bwrapped up\b",
    r"\bwhere (are|were|was|am) (we|i|things)\b|\bwhere('?s| do| does| did| is| was) [^.?!]{1,40}? (stand|stop|at)\W*"
    r"( (with|on|in)\b.*)?$|\bwhat (was|were) (i|we) (doing|working)\b|\bwhere (we|you|i|it) (stopped|ended)\b",
    r"\b(did|have|has) (we|i|you) (already |ever )?(finish|complete)(ed)?\b|\bare (we|you) done with\b",
    r"^(is|are|was|were) (?!.* (when|if|after|once|while|until) )[^.?!]{1,50} "
    r"(finished|completed?|done)( yet| already| now)?\W*$",
    r"^\W*((please|let'?s|can you|ok|now|hey|hi),? )*((pick|take) [^.?!]{1,40} up\b|"
    rf"{_GO_ON} (with\b|to the\b|(the )?work|[^.?!]{{1,30}} (again|work|thing)\b))",
)
ASKS_STATE = re.compile("|".join(_STATES), re.IGNORECASE)
_LONGEST_QUESTION, _MOST_SUBJECTS = 400, 16  # characters and words; who writes more gives a task
# Words that name no subject: "recent work", "the last changes".
_SUBJECTLESS = STOP_WORDS.union(
    ["change", "changes", "changed", "context", "day", "days", "decide", "decided", "decisions", "done", "happen"],
    ["happened", "finish", "finished", "make", "morning", "recap", "session", "sessions", "show", "stuff", "summarise"],
    ["summarize", "summary", "tell", "thing", "things", "week", "work", "worked", "working", "yesterday"],
)
# Nor do these, of days that are over: "what did we fix on Monday?".
_DEEDS = _SUBJECTLESS.union(
    ["achieve", "add", "anything", "build", "commit", "commits", "complete", "discuss", "fix", "give", "implement"],
    ["learn", "list", "merge", "ship", "talk", "try", "write"],
)
# Nor do these, of work that is to go on: "which tasks are still open in the import?".
_NO_SUBJECTS = _SUBJECTLESS.union(
    ["along", "already", "anything", "at", "back", "blocking", "can", "carry", "catch", "complete", "completed"],
    ["continue", "do", "doing", "ends", "ever", "far", "get", "go", "going", "issues", "items", "keep", "leave"],
    ["left", "let", "lets", "list", "missing", "need", "needs", "next", "off", "ok", "open", "outstanding"],
    ["pending", "pick", "please", "points", "progress", "questions", "quick", "remain", "remaining", "remains"],
    ["remind", "resume", "speed", "stand", "state", "status", "step", "steps", "still", "stop", "stopped"],
    ["stuff", "task", "tasks", "todo", "todos", "undone", "unfinished", "unresolved", "update", "whats", "where"],
    ["wheres", "yet"],
)
# Wording that asks how the work goes on, not what was done: "where did we leave off yesterday?".
_GOES_ON = re.compile(
    r"\b(next|left|leave|open|missing|remain\w*|todos?|unfinished|continue|resume|where|plan\w*|tomorrow|let'?s|"
    r"should|shall|will|can|could|must|want|need|have to|going to)\b",
    re.IGNORECASE,
)
# Wording that asks what was done; so does a text that is nothing but days.
_WAS_DONE = re.compile(
    r"\b(did|was|were|have|happened|done|worked|decided|decisions?|changed|finished|recap|sessions?|summar\w+)\b|"
    r"^\W*(the)?\W*$",
    re.IGNORECASE,
)
# Without recall wording, half of the words that name a subject must occur in an entry.
_LEAST_SHARE = 0.5
_RECALLED = 0.5  # the least score of a recalled entry; the rest comes from its initial attention


def asks_only_for_session(query: str) -> bool:
    """Whether a text names nothing but the session itself: "where were we?", "continue"."""
    return bool(RECALL.search(query)) and _SUBJECTLESS.issuperset(query_terms(RECALL.sub(" ", query)))


def find_asked_days(query: str, period: Period | None) -> Period | None:
    """The days that a text names, if it asks for nothing but what was done then: "what did we do yesterday?"."""
    if period is None or _GOES_ON.search(query) or not _WAS_DONE.search(period.rest):
        return None
    return period if _DEEDS.issuperset(query_terms(RECALL.sub(" ", period.rest))) else None


def find_asked_subject(query: str) -> tuple[str, ...]:
    """The words that name the subject whose state a text asks for: "what is left to do for the import?"; or none."""
    if len(query) > _LONGEST_QUESTION or not ASKS_STATE.search(query):
        return ()
    subject = tuple(word for word in query_terms(query) if word not in _NO_SUBJECTS)
    return subject if len(subject) <= _MOST_SUBJECTS else ()


class RecalledItem(Struct, frozen=True, kw_only=True):
    """An item that answers a query; `score` is 0..1, `boost` the share that its attention adds."""

    item: Item
    score: float
    boost: float = 0.0


def recall_items(query: str, items: Sequence[Item], limit: int, attention_boost: float) -> list[RecalledItem]:
    """The items that answer the query, best and newest first; all, boosted, if it asks for the session itself."""
    stems = {term[:STEM] for term in query_terms(query)}
    asks_for_session = bool(RECALL.search(query))
    has_no_subject = asks_only_for_session(query)
    found = []
    for item in items:
        text = f"{item.path} {item.text}".casefold()
        share = sum(stem in text for stem in stems) / max(1, len(stems))
        recalled = _RECALLED + (1 - _RECALLED) * item.attention if asks_for_session else 0.0
        score = 1.0 if has_no_subject else max(share if share >= _LEAST_SHARE else 0.0, recalled)
        boost = attention_boost * item.attention if has_no_subject else 0.0
        if score > 0:
            found.append(RecalledItem(item=item, score=score, boost=boost))
    return sorted(found, key=lambda each: (-each.score, -each.boost, -each.item.event, -each.item.number))[:limit]


def shorten_origins(lines: Iterable[StateLine]) -> Iterator[StateLine]:
    """The lines with only `#eN` and `/N` for an origin in the session named by the line before, or `same` as there."""
    session = origin = ""
    for each in lines:
        if each.origin == origin:
            yield replace(each, origin="same")
            continue
        origin = each.origin
        named, mark, number = each.origin.rpartition("#" if "#" in each.origin else "/")
        is_same, session = named == session, named or session
        yield replace(each, origin=f"{mark}{number}") if is_same and named.startswith("session:") else each


def sort_sections(body: str, words: Sequence[str]) -> str:
    """What a session's memory says besides the task, what says most first; of changes and tests what has a word."""
    before, *sections = f"\n{body}".split("\n## ")
    parts = {name: lines for name, *lines in map(str.splitlines, sections)}
    parts |= {name: [line for line in parts.get(name, ()) if count_shared(line, words)] for name in _DONE}
    told = [name for name in dict.fromkeys((*_SECTIONS, *parts)) if any(parts.get(name, ())) and name not in _TASKS]
    return _MARKS.sub("", "\n".join([before, *("\n".join([f"## {name}", *parts[name]]) for name in told)]))
