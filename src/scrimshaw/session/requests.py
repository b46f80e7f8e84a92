"""What the user asked for: the task, later requests, and a title made of the task and its outcome. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from scrimshaw.models import RecordedEvent
from scrimshaw.session.changes import COMMIT
from scrimshaw.session.evidence import LONGEST_SENTENCE, SUMMARY, USER, Sentence, Statement, cut, flat, prose
from scrimshaw.session.phrases import issues, says_something
from scrimshaw.session.words import VERBS

LONGEST_TITLE, LONGEST_TASK = 90, 420  # characters
MOST_REQUESTS = 8
_TELLING_WORDS = 2  # a request that names less has no subject of its own: "go on", "commit"
_SENTENCE_WORDS, _ENOUGH_WORDS = 6, 6
_FIRST_PROMPTS = 6  # the task is among them; what comes later redirects it
_FIRST_SENTENCES = 6  # the goal is among them

_POLITE = re.compile(
    r"(?i)\A(?:(?:hi|hello|hey|ok|okay|so|please|pls|thanks|good|great|perfect|wait|w8|claude|yes|no|not yet|nope|well"
    r"|right|and|but|then|also|ehm|hmm|lgtm|alright|first|sure|cool|next|again|now(?! that\b))\b[,.!:]* *"
    r"|(?:can|could|would|will) you (?:please |also )?|I(?:'d| would) (?:like|love) (?:for )?(?:us |you )?to "
    r"|I want(?:ed)? (?:us |you )?to "
    r"|I need (?:us |you )?to |let's |lets |let us |we (?:should|need to|have to|could) |help me (?:to )?"
    r"|(?:think|ultrathink)(?: (?:really |super ?)?(?:hard|harder|deeply))?(?: about)? )+"
)
_OPENING = re.compile(
    r"(?i)\A(?:/[\w:-]+(?: is running…)?\s+|we're currently solving the following \w+ [^.:]*[.:]\s*"
    r"|here's the issue text:\s*|issue:\s*|consider the following PR description:\s*|(?:hi|hello|hey)(?: \w+)?[,!.]\s+"
    r"|(?:initial|primary|original|user(?:'s)?(?: initial)?) (?:request|task|context|goal)(?: and intent)?:\s*"
    r"|(?:the )?user (?:asked|wants|wanted)(?: me)? to )+"
)
_IMPERATIVE = re.compile(rf"(?i)\A(?:{'|'.join(sorted(VERBS))})\b")
_GOAL = re.compile(
    r"(?i)\b(?:(?:our|the|my) (?:main |ultimate )?(?:goal|task|objective)\b|I(?:'d| would) (?:like|love|prefer)"
    r"|I wan'?t|I need|let's|please|help me|we (?:should|need)|can you|could you)\b"
)
_WISH = re.compile(
    r"(?i)(?:\bI (?:would like|wan'?t|need)|\bI'd like|\b(?:goal|task) [^.]{0,40}\b(?:is|was))"
    r"(?: (?:you|us))? to (\w.*)"
)
_NAMED_GOAL = re.compile(r"(?i)\b(?:goal|task) (?:for|of|is|in)\b")
_ONLY_ASKS = re.compile(
    r"(?i)\A(?:what|why|how|who|where|when|which|do you|did you|is|are|was|does|shouldn't)\b.*\?\W*\Z"
)
_ORIENTATION = re.compile(
    r"(?i)\b(?:orient yourself|look around|get oriented|familiari[sz]e yourself|where did we le(?:ft|ave))\b"
)
_SUMMARY_TASK = re.compile(
    r"(?i)\b(?:initial request|primary request|user (?:asked|wants|wanted|requested)"
    r"|(?:main|the) (?:task|goal) (?:was|is)|asked (?:me )?to)\b"
)
_LOOSE_END = re.compile(
    r"(?i)(?:\s+(?:and|or|with|for|to|the|of|if|in|into|from|by|a|an|on|at|as|that|which|is|our|your))+\Z"
)
_SUBJECT = re.compile(r"\A(?:\w+(?:\([^)]*\))?!?: )?(.*)")

Prompts = Mapping[int, Sequence[Sentence]]


def task_of(events: Sequence[RecordedEvent], said: Sequence[Sentence]) -> Statement | None:
    """What was asked first, as asked; in a continued conversation what its summary names as the request.

    Greetings, slash commands and plain questions give way to the first prompts that want something.
    """
    prompts = _prompts(said)
    first = list(prompts.values())[:_FIRST_PROMPTS]
    wanted = next((told for told in first if _wants(told) and _is_plain(told)), None)
    chosen = wanted or next((told for told in prompts.values() if _names(told)), None) or next(iter(first), None)
    if not chosen:
        return None
    event = next(each for each in events if each.number == chosen[0].event)
    return _opening(event, chosen)


def later_requests(said: Sequence[Sentence], task: Statement | None) -> list[Statement]:
    """What the user asked for after that: the telling sentence of each later prompt, of many those that say most."""
    later = [told for event, told in _prompts(said).items() if task and event > task.event and told[0].by == USER]
    found = [each for told in later if (each := next((each for each in told if _is_request(each)), None))]
    ranked = sorted(found, key=lambda each: -min(_ENOUGH_WORDS, says_something(each.text)))[:MOST_REQUESTS]
    return [Statement(text=each.text, event=each.event) for each in sorted(ranked, key=lambda each: each.event)]


def title_of(
    task: Statement | None, said: Sequence[Sentence], requests: Sequence[Statement], changed: Sequence[Statement]
) -> str:
    """What was asked and, where that alone names too little, what came of it."""
    told = _told(task, said)
    asked_for = _headline([text for text in told if not _is_preface(text)] or ([task.text] if task else []))
    commits = [subject(each.text) for each in changed if each.note == COMMIT]
    outcome = commits[-1] if commits else _headline([each.text for each in requests[:1]])
    if _is_specific(asked_for) or not outcome:
        return _clipped(asked_for or _headline([each.text for each in changed[:1]]))
    return _clipped(f"{_clipped(asked_for, LONGEST_TITLE // 2)}: {outcome}" if asked_for else outcome)


def _is_specific(title: str) -> bool:
    """Whether a title tells what a session is about: four telling words, or two in a sentence, issue numbers aside."""
    telling = says_something(title) - sum(map(says_something, issues(title)))
    return telling > _TELLING_WORDS + 1 or (telling >= _TELLING_WORDS and len(title.split()) >= _SENTENCE_WORDS)


def _told(task: Statement | None, said: Sequence[Sentence]) -> list[str]:
    """The sentences of the task, after the heading above them where there is one."""
    told = [each.text for each in said if task and each.event == task.event and each.by == USER]
    if not task or not told:
        return []
    above = task.text[: max(0, task.text.find(told[0]))].strip(" -:")
    return [above, *told] if says_something(above) >= _TELLING_WORDS else told


def subject(commit: str) -> str:
    """A commit's subject without its kind: what stands after `feat(x): `."""
    return _SUBJECT.sub(r"\1", commit)


def _prompts(said: Sequence[Sentence]) -> Prompts:
    """The sentences of users and summaries by event; of a summary only those that name the request."""
    found: dict[int, list[Sentence]] = {}
    for each in said:
        if each.by == USER or (each.by == SUMMARY and _SUMMARY_TASK.search(each.text)):
            found.setdefault(each.event, []).append(each)
    return found


def _wants(told: Sequence[Sentence]) -> bool:
    whole = " ".join(each.text for each in told)
    if _ORIENTATION.search(whole):
        return False
    asks_only = all(_ONLY_ASKS.search(_POLITE.sub("", each.text)) for each in told)
    return not asks_only and (len(told) > 1 or told[0].by == SUMMARY or bool(_GOAL.search(whole)) or _is_wish(whole))


def _is_plain(told: Sequence[Sentence]) -> bool:
    """Whether prompts say enough to be a task: two telling words, or a wish in a few more words."""
    bare = _POLITE.sub("", told[0].text)
    wishes = _IMPERATIVE.match(bare) or _GOAL.search(told[0].text)
    return _names(told) >= _TELLING_WORDS or (bool(wishes) and len(told[0].text.split()) > _TELLING_WORDS + 1)


def _names(told: Sequence[Sentence]) -> int:
    return sum(says_something(each.text) for each in told)


def _is_wish(text: str) -> bool:
    return bool(_IMPERATIVE.match(_POLITE.sub("", _OPENING.sub("", text)))) or not text.rstrip().endswith("?")


def _is_request(sentence: Sentence) -> bool:
    text, bare = sentence.text, _POLITE.sub("", sentence.text)
    if len(text) > LONGEST_SENTENCE or _ONLY_ASKS.search(bare):
        return False
    if _IMPERATIVE.match(bare):
        return says_something(text) > 0
    return bare != text and bool(_GOAL.search(text)) and says_something(text) >= _TELLING_WORDS


def _opening(event: RecordedEvent, told: Sequence[Sentence]) -> Statement:
    """The beginning of a request up to the end of a sentence, or the sentence that names its goal and what follows."""
    if told[0].by == SUMMARY:
        named = next((each for each in told if says_something(each.text) > _TELLING_WORDS), told[0])
        return Statement(text=_OPENING.sub("", named.text), event=event.number)
    source = flat(next((part for part in prose(event) if flat(told[0].text)[:30] in flat(part)), told[0].text))
    begin = 0
    goal = next((each for each in told if each.place and _GOAL.search(each.text)), None)
    if goal and says_something(told[0].text) < _TELLING_WORDS and source.find(flat(goal.text)) > LONGEST_TASK:
        begin = source.find(flat(goal.text))
    text = _OPENING.sub("", source[begin:])
    return Statement(text=_whole_sentences(text, LONGEST_TASK), event=event.number)


def _whole_sentences(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    ends = [found.end() for found in re.finditer(r"[。！？](?=.)|(?<!\d)[.!?:][\"')`]*(?=\s)", text[:most])]
    return (text[: ends[-1]] if ends and ends[-1] > most // 4 else cut(text, most)).rstrip(" :")


def _is_preface(text: str) -> bool:
    return not _OPENING.sub("", text + " ").strip() or text.endswith(":")


def _headline(told: Sequence[str]) -> str:
    """The first sentence that names a goal, without greeting, at most LONGEST_TITLE characters."""
    strong = [text for text in told if _NAMED_GOAL.search(text)]
    goals = [text for text in told[:_FIRST_SENTENCES] if _GOAL.search(text) or _IMPERATIVE.match(_POLITE.sub("", text))]
    ranked = [*strong, *goals, *told[:2]] if says_something(" ".join(told[:1])) < _TELLING_WORDS + 1 else told
    best = next((text for text in ranked if says_something(text) >= 1), ranked[0] if ranked else "")
    opened = _OPENING.sub("", flat(best))
    wish = _WISH.search(opened)
    bare = _POLITE.sub("", wish[1] if wish and says_something(wish[1]) else opened).strip(" .!,:;?-\"'")
    for mark in ('"', "`"):
        bare = bare if bare.count(mark) % 2 == 0 else bare.replace(mark, "")
    return _clipped(bare[:1].upper() + bare[1:])


def _clipped(text: str, most: int = LONGEST_TITLE) -> str:
    if len(text) <= most:
        return text
    head = text[:most]
    clause = max(head.rfind(mark) for mark in (", ", "; ", ": ", " - ", " -- ", " — ", " ("))
    short = head[:clause] if clause > most // 2 else head.rpartition(" ")[0] or head
    return _LOOSE_END.sub("", short).rstrip(" ,;:-—(")
