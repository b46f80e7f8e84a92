"""Which sentences state a choice, and which of them matter most. Pure.

A user's choice is a wish with an objection or an alternative ("use uv, not pip"); an agent's is its own act with an
alternative or a reason ("I'll reuse the pool because ..."). Questions, conditions and announced looking are none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from scrimshaw.session.evidence import LONGEST_SENTENCE, SUMMARY, USER, Sentence, Statement
from scrimshaw.session.phrases import says_something

MOST, LEAST, _CALLS_PER_DECISION = 12, 4, 20
_ALIKE = 0.6  # share of common words above which two sentences state one choice
_UNDER_HEADING = 5.0  # the weight of a line under a heading "Decisions"
_WEAK, _WEAK_UP_TO = 0.5, 3  # steps taken for a reason fill up where few choices were stated
_FEWEST_WORDS, _SHORT = 4, 20

_NO_STATEMENT = re.compile(
    r"(?i)\?\W*\Z|\bif (?:we|you|I)\b|\bunless\b|\beither\b.*\bor\b"
    r"|\A(?:because|this happened|if|whether|should|could|would|do|does|did|can|may|what|how|why|which|where|is|are"
    r"|were|option)\b"
    r"|\b(?:might|maybe|perhaps|would you|do you|(?:haven't|not)(?: yet)?(?: been)? decided|could (?:also|either)"
    r"|think (?:hard|really)|ultrathink|pros/cons|move (?:on|to)|I was|your last|let me know)\b"
)
_HEADING = re.compile(r"(?i)\bdecisions?\b")
_EXPLICIT = re.compile(
    r"(?i)\b(?:decided|chose|chosen|opted|settled on|agreed (?:to|on|not|that)|going with|go with|went with"
    r"|reject(?:ed|ing)?|ruled out|stick(?:ing)? (?:with|to)|prefer(?:red)?|best (?:approach|option|solution)"
    r"|cleanest (?:approach|option|solution|fix)|right (?:approach|fix|place)|(?:definite|clear) winner)\b"
)
_ALTERNATIVE = re.compile(
    r"(?i)\b(?:instead(?: of)?|rather than|in favou?r of|as opposed to|no longer|switch(?:ed|ing)? (?:from|to)"
    r"|replac(?:e|ed|ing)\b.*\b(?:with|by)|without (?:adding|using|changing|touching|modifying|breaking))\b"
    r"|,? (?:and |but )?not (?!only|just|sure|yet|be\b|been\b)\w+"
)
_REASON = re.compile(
    r"(?i)\b(?:because|since|so that|to avoid|to prevent|to keep|to ensure|due to|which (?:means|keeps|avoids|lets)"
    r"|otherwise|that way|in order to)\b"
)
_TROUBLE = re.compile(
    r"(?i)\b(?:doesn't|does not|can't|cannot|won't|isn't|is not|aren't|fails?|failed|warns?|missing|unused|broken|bug"
    r"|conflict|issue|problem|too (?:many|deep|long)|unsupported|gitignored|hardcoded|misleading|incorrect|wrong)\b"
)
_AGENCY = re.compile(
    r"(?i)\b(?:I|we)(?:'ll| will|'ve| have| should| need to| must| can|'m| am)?\b|\blet(?:'s| us| me)\b|\bthe fix is\b"
    r"|\A(?:use|used|using|keep|kept|switch|replace|move|extract|rewr[io]te|put|make|made|add|skip|drop|avoid|remove)"
    r"(?:d|ed|s)?\b"
)
_VERB = (
    r"(?:use|keep|leave|follow|suppress|rewrite|replace|extract|move|skip|avoid|drop|remove|rename|reuse|inline|exclude"
    r"|ignore|mark|pin|store|return|treat|force|wrap|split|merge|change|set|switch|modify|fix|put|make|apply|implement"
    r"|handle|convert|override|revert|disable|enable|restrict|limit|add|delete|ensure)"
)
_ACT = re.compile(
    rf"(?i)(?:\A(?:now |then |also |so )*{_VERB}(?:d|ed|s|ping|ing)?"
    rf"|\b(?:I|we)(?:'ll| will| should(?! have)| need to| must| have to)?"
    rf"(?: (?:also|then|just|now|only|simply|probably))? {_VERB}"
    rf"|\blet(?:'s| us| me)(?: (?:also|then|just|now|simply))? {_VERB})\b"
)
_CODE = re.compile(r"`[^`]*`|\bgit \w+")
_LOOKING = re.compile(
    r"(?i)\b(?:let me|let's|I'll|I will|I should|I need to|I'm going to|now)\s+"
    r"(?:now |also |first |just |then |quickly )*"
    r"(?:check|look|see|read|re-?read|run|re-?run|explore|search|find|verify|test|understand|examine|inspect|try|view"
    r"|start|continue|analy[sz]e|review|list|investigate|think|wait|confirm|reproduce|need to reproduce"
    r"|create a (?:\w+ )?(?:test|reproduction|script))\b"
)
_SCAFFOLD = re.compile(
    r"(?i)\b(?:reproduc\w+|temporary|edit command|my syntax|submit\w*|standalone script|sed command|payload"
    r"|plan mode)\b"
)
_ABLE = re.compile(r"(?i)\b(?:I|we) can\b")
_INTENDS = re.compile(r"(?i)\b(?:I'll|we'll|I will|we will|let's)\b")
_WANTED = re.compile(
    r"(?i)\A(?:no|nope|nah|yes|ok|okay|wait|w8|actually|please|hmm)?[,.! ]*"
    r"(?:I(?:'d| would)? (?:want|like|prefer|rather|still want|don't want|disagree|opt)|let(?:'s|s| us)|don't|do not"
    r"|never|always|use|keep|skip|drop|revert|exclude|remove|rename|put|make"
    r"|we (?:should|shouldn't|want|need|don't|agreed))\b"
)
_OBJECTION = re.compile(
    r"(?i)\b(?:don't|do not|shouldn't|should not|never|not|no need|unnecessary|overkill|instead|rather|only|yagni)\b"
)
_TAKEN_BACK = re.compile(r"(?i)\b(?:revert|scrap|roll back|forget)\b")


def decisions(said: Sequence[Sentence], commits: Sequence[Statement], calls: int) -> list[Statement]:
    """The choices that were stated, in the order of events: at most LEAST and one more per 20 calls, MOST at all.

    Commits whose subject names an alternative count as well, after what was said.
    """
    most = min(MOST, LEAST + calls // _CALLS_PER_DECISION)
    scored = [(_weight(sentence, said, place), place) for place, sentence in enumerate(said)]
    chosen: list[int] = []
    texts: list[set[str]] = []
    for weight, place in sorted(scored, key=lambda each: (-each[0], each[1])):
        if not weight or len(chosen) == most or (weight <= _WEAK and len(chosen) >= _WEAK_UP_TO):
            break
        words = set(re.findall(r"\w{3,}", said[place].text.lower()))
        if not any(_alike(words, known) for known in texts):
            chosen.append(place)
            texts.append(words)
    found = [*_statements(said, sorted(chosen)), *(each for each in commits if _ALTERNATIVE.search(each.text))]
    return sorted(found[:most], key=lambda each: each.event)


def _weight(sentence: Sentence, said: Sequence[Sentence], place: int) -> float:
    """How much a sentence looks like a choice; 0 if it does not."""
    text = sentence.text
    if len(text) > LONGEST_SENTENCE or len(text.split()) < _FEWEST_WORDS or _NO_STATEMENT.search(text):
        return 0.0
    if _HEADING.search(sentence.heading):
        return _UNDER_HEADING
    weight = _of_user(text) if sentence.by == USER else _of_agent(sentence, said, place)
    return weight if weight and says_something(text) else 0.0


def _of_user(text: str) -> float:
    wanted = bool(_WANTED.search(text))
    takes_back = bool(_TAKEN_BACK.search(text)) and len(text.split()) < _SHORT
    explicit = bool(_EXPLICIT.search(text)) or takes_back
    alternative = bool(_ALTERNATIVE.search(text)) or (wanted and bool(_OBJECTION.search(text)))
    if not explicit and not (wanted and alternative):
        return 0.0
    return 2.0 + 2 * explicit + alternative + bool(_REASON.search(text))


def _of_agent(sentence: Sentence, said: Sequence[Sentence], place: int) -> float:
    text = sentence.text
    if not _AGENCY.search(text) or _LOOKING.search(text) or _SCAFFOLD.search(text):
        return 0.0
    explicit, alternative = bool(_EXPLICIT.search(text)), bool(_ALTERNATIVE.search(text))
    acts = bool(_ACT.search(_CODE.sub(" ", text))) and not text.endswith(":")
    reason = not _ABLE.search(text) and (bool(_REASON.search(text)) or _cause(said, place) is not None)
    if not explicit and not (acts and (alternative or reason)) and not (alternative and _INTENDS.search(text)):
        return 0.0
    weight = 2 * explicit + 1.5 * alternative + reason + 0.5 * (sentence.by == SUMMARY)
    return weight if weight > 1 else _WEAK


def _cause(said: Sequence[Sentence], place: int) -> Sentence | None:
    """The sentence just before, if it tells what was wrong."""
    before = said[place - 1] if place else None
    if before is None or before.event != said[place].event or before.is_item:
        return None
    return before if _TROUBLE.search(before.text) else None


def _statements(said: Sequence[Sentence], chosen: Sequence[int]) -> Iterator[Statement]:
    """The chosen sentences, each with its cause before it where it names no reason itself."""
    for place in chosen:
        sentence, cause = said[place], _cause(said, place)
        text = sentence.text
        if cause and sentence.by != USER and not _REASON.search(text) and place - 1 not in chosen:
            both = f"{cause.text} {text}"
            text = both if len(both) < LONGEST_SENTENCE else text
        yield Statement(text=text, event=sentence.event)


def _alike(words: set[str], known: set[str]) -> bool:
    return len(words & known) >= _ALIKE * max(1, min(len(words), len(known)))
