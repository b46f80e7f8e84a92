"""The wording by which a text speaks to an agent instead of telling it something: data for `instructions`.

A cue is read from its first word on, in folded text. In `rest` a blank stands for what separates two words of a
sentence, `~` for at most four words between two others. A weight of 1 is enough alone; developers write every weaker
one now and then, so those must meet. Weights were set on half of the attack sets and on real transcripts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple

_BETWEEN = r"[^\w.!?;]{1,12}"
_FEW_WORDS = rf"(?:{_BETWEEN}\w{{1,40}}){{0,5}}?{_BETWEEN}"


class Cue(NamedTuple):
    """One wording: what it is a sign of, how much it says (0..1), the words it begins with, and what follows."""

    kind: str
    weight: float
    heads: str
    rest: str


_OBJECTS = (
    "(instruction|prompt|guideline|direction|directive|command|rule|message|training|programming|context|conversation"
    "|request|task|order|polic|guidance|question)(s|ies|y)?"
)
_EARLIER = (
    "(previous|prior|preceding|above|earlier|before|foregoing|former|past|original|initial|system|your|you|existing)"
)
_MODEL = "(ai|llm|assistant|agent|model|language model|chatgpt|gpt|claude|gemini|copilot|chatbot|bot)s?"
_SECRET = (
    r"(secrets?|api keys?|access keys?|passwords?|tokens?|credentials?|private keys?|ssh keys?|id rsa|env"
    r" file|conversation"
    r"|chat history|system prompt|environment variables|file contents?|contents of|personal data|user data|2fa|codes?)"
)

CUES = (
    # override: what was said before shall count no more
    Cue("override", 1.0, "ignore ignoring disregard disregarding forget", f"~{_EARLIER}~{_OBJECTS}"),
    Cue(
        "override",
        1.0,
        "ignore disregard forget",
        f"~{_OBJECTS}~(before|above|earlier|previously|given|told|have|received)",
    ),
    Cue(
        "override",
        0.7,
        "override overrule overlook neglect bypass discard cancel",
        f"( (all|any|every|the|these|those|of|my)){{0,3}} {_EARLIER} (\\w{{1,20}} )?(instructions?|prompts?"
        f"|guidelines|directions|directives|commands|programming|training)",
    ),
    Cue("override", 0.5, "ignore disregard forget", f"( (the|this|that|its|their|user's))?( \\w{{1,20}})? {_OBJECTS}"),
    Cue(
        "override",
        0.7,
        "ignore disregard forget",
        "( (all|everything|anything|what|the|of|that)){0,3} (above|previous|preceding|prior|before|earlier)",
    ),
    Cue("override", 0.6, "ignore disregard forget", f"( (all|any|every|the|these|those|other)){{1,3}} {_OBJECTS}"),
    Cue("override", 0.7, "forget", " (everything|all (of )?(that|this|what))"),
    Cue(
        "override",
        1.0,
        "ignorez oubliez ignora olvida olvide ignorar ignoriere ignorieren vergiss ignore",
        "~(instrucciones|consignes|istruzioni|anweisungen|instruktionen|befehle|instructions (pr.c.dentes"
        "|ant.rieures))",
    ),
    Cue(
        "override",
        0.8,
        "not don't never stop",
        f" (follow|following|obey|obeying|listen to|adhere to)~{_EARLIER}~{_OBJECTS}",
    ),
    Cue(
        "override",
        0.8,
        "prior previous current original earlier",
        f" {_OBJECTS}~(is|are|was|were|been) (cancel|void|obsolete|suspended|over|revoked|complete|superseded"
        f"|no longer)",
    ),
    Cue(
        "override",
        0.5,
        "new updated actual real revised",
        r" (instructions?|tasks?|objectives?|directives?|orders|system prompt|rules)( (is|are))?\s?:",
    ),
    Cue(
        "override",
        0.6,
        "your",
        " (new|real|actual|only|true) (instructions?|tasks?|objective|goal|directive|job|role|purpose)",
    ),
    Cue("override", 1.0, "decode decrypt unscramble decipher", "~and (follow|execute|obey|perform|comply|carry)"),
    # role: somebody else's voice, or another self for the model
    Cue("role", 0.5, "you", " (are|will be|become) now"),
    Cue("role", 0.7, "you", " are no longer"),
    Cue(
        "role",
        0.5,
        "you",
        " (are going to|will|must|should|need to|have to|can|shall)( now)? (act|pretend|roleplay|role play"
        "|behave|respond|answer|simulate|impersonate|play|speak|talk) (as|like|the|that|to|a|an|in)",
    ),
    Cue("role", 0.8, "from", " now on you"),
    Cue("role", 0.4, "your", " (name|persona|personality|character) (is|will)"),
    Cue("role", 0.4, "answer answers do generate say", " (any|anything|whatever|everything)"),
    Cue("role", 0.4, "from", " (now|this (point|moment|message)) (on|onward|onwards|forward)"),
    Cue("role", 0.4, "act acting behave", " (as|like) (a|an|the|if|my|you)"),
    Cue("role", 0.5, "pretend roleplay impersonate", "( playing)? (to be|you|that you|as|being|a|an|the|we)"),
    Cue("role", 0.5, "role", " play"),
    Cue("role", 0.5, "simulate simulating", " (being|a|an|the)"),
    Cue("role", 0.5, "take assume play adopt", " (on )?(the |a )?(role|persona|identity|personality|character) of"),
    Cue("role", 0.7, "stay stays remain break breaking", " (in )?(your )?character"),
    Cue("role", 0.5, "i", " (want|need|would like) you to"),
    Cue("role", 0.5, "my", " (first|next) (request|prompt|question|suggestion|sentence|command|message|task|query)"),
    Cue("role", 0.3, "i", " will (ask|give|type|provide|send|write|start|tell|call)"),
    Cue(
        "role",
        0.6,
        "no any without free from ignores regardless disregard despite bypass not",
        "~(restrictions?|filters?|limitations?|censorship|ethics|ethical|morals?|morality|legality|boundaries)",
    ),
    Cue("role", 0.4, "openai openai's anthropic content usage", "('s)? (content )?(policy|policies|guidelines)"),
    Cue("role", 0.7, "do", " anything now"),
    Cue("role", 0.6, "jailbreak jailbroken jailbroke uncensored unfiltered", ""),
    Cue("role", 0.5, "developer dan god", " mode"),
    Cue("role", 0.3, "chatgpt chatbot", ""),
    Cue("role", 0.3, "chat", " ?gpt"),
    Cue("role", 0.3, "as", " an ai"),
    Cue("role", 0.3, "illegal", ""),
    Cue("role", 0.3, "unethical immorally immoral amoral evil", ""),
    Cue("role", 0.3, "nsfw offensive", ""),
    Cue("role", 0.3, "explicit", " (content|material|images?|language|or)"),
    Cue(
        "role",
        0.5,
        "never not don't cannot can't",
        " (refuse|decline|deny|apologi[sz]e|say no|reject|break character|censor|warn)",
    ),
    Cue(
        "role",
        0.3,
        "hypothetical fictional imaginary",
        " (response|story|world|scenario|character|setting|conversation)",
    ),
    Cue("role", 0.6, "your", " (prompts?|system message|programming|training|creators?|knowledge (was|is)) "),
    # authority: a claim to speak for those who may give orders
    Cue(
        "authority",
        0.8,
        "important urgent critical",
        f" (system )?(message|notice|instructions?|update|announcement|note) (from|for|to) (me|you|the user"
        f"|user|all|the system|system|admin|administrator|developers?|the {_MODEL}|{_MODEL}|openai|anthropic)",
    ),
    Cue(
        "authority",
        0.6,
        "note message instruction instructions notice memo directive",
        " (from|by) (the |your )?(system )?(developers?|admin|administrator|security team|openai|anthropic"
        "|owner|operator|maintainers?|it department)",
    ),
    Cue(
        "authority",
        0.7,
        "user human owner",
        " (has |have )?(already |previously |explicitly |just ){1,2}(approved|authori[sz]ed|confirmed|agreed"
        "|consented|permitted|granted)",
    ),
    Cue("authority", 0.7, "you", " (have )?(already|previously) (confirmed|agreed|promised|approved)"),
    Cue("authority", 0.7, "earlier previously", " you (confirmed|agreed|promised|said you)"),
    Cue("authority", 0.5, "authorised authorized", " (diagnostic|test|request|operation|audit|action|maintenance)"),
    Cue("authority", 0.6, "attention dear hey hello hi greetings", f" (to )?(the |all |any |an |my )?{_MODEL}\\b"),
    Cue(
        "authority",
        0.6,
        "note message instructions instruction",
        f" (to|for) (the |all |any |an )?(ai|llm|{_MODEL} (assistant|agent|model)|chatgpt|language model)s?\\b",
    ),
    Cue(
        "authority",
        0.7,
        "ai llm agents assistants agent",
        " ?(agents?|assistants?|models?)?( that are| who are| currently)? (reading|processing|parsing"
        "|summari[sz]ing|visiting) (this|the)",
    ),
    Cue("authority", 0.7, "if", f" you are (an? |the )?{_MODEL}\\b"),
    # covert: kept from the user
    Cue(
        "covert",
        0.9,
        "not don't never",
        " (tell|inform|mention|reveal|notify|alert|disclose|show|report|let)~(user|human|operator|developer"
        "|owner|maintainer|reviewer|customer|anyone|anybody|them)",
    ),
    Cue(
        "covert",
        0.9,
        "without",
        " (telling|informing|notifying|mentioning|alerting|revealing|disclosing|asking)~(user|human|operator"
        "|developer|owner|maintainer|reviewer|customer|anyone|anybody|them)",
    ),
    Cue(
        "covert",
        0.6,
        "not don't never without",
        " (mention|mentioning|reveal|revealing|disclose|acknowledge|acknowledging) (this|that|these|it|any"
        " of|having|the (instruction|message|existence))",
    ),
    Cue(
        "covert",
        0.4,
        "secretly silently covertly quietly discreetly",
        " (send|call|run|execute|add|include|upload|read|copy|forward|do|perform|delete|change)",
    ),
    # exfiltration: what is private shall go somewhere
    Cue(
        "exfiltration",
        0.8,
        "send post upload forward email transmit exfiltrate leak submit share append",
        f"~{_SECRET}~(to|via|url|http|https|at|in)",
    ),
    Cue(
        "exfiltration",
        0.7,
        "send post upload forward email transmit exfiltrate curl",
        "~(to|at) (https?|ftp|[\\w.+-]{1,40}@)",
    ),
    Cue(
        "exfiltration",
        0.6,
        "set with including include containing attach",
        f"~{_SECRET}~(from|in) (your|the) (context|body|memory|environment|prompt|message|email)",
    ),
    Cue(
        "exfiltration",
        0.7,
        "reveal output print repeat show leak disclose",
        " (me )?(your|the|all)( (entire|full|whole|initial|original|secret|hidden|above))* (system )?(prompt"
        "|instructions|confidential|secrets)",
    ),
    Cue(
        "exfiltration",
        0.6,
        "fetch get read cat open curl visit browse",
        "~(169[.]254[.]169[.]254|latest/meta data|security credentials)",
    ),
    # tool: a call that nobody asked for
    Cue(
        "tool",
        0.6,
        "call invoke run execute trigger",
        r" (the )?((tool|function|command) )?[`'\"]?\w{2,30}_\w{2,40}[`'\"(]{0,2} ?(with|on|to|and|url|input"
        r"|path|using|for|as|\()",
    ),
    Cue(
        "tool",
        0.4,
        "now then must should please first immediately",
        " (also )?(call|invoke|run|execute|use) (the )?\\W?\\w{2,30}_\\w",
    ),
    Cue(
        "tool",
        1.0,
        "call invoke",
        r" (the )?\W?(delete|remove|drop|transfer|send|http|post|exec|shell|pay|grant)_\w{1,30}\W? (with|on"
        r"|to|url|path|input|using|for)",
    ),
    Cue("tool", 0.6, "call invoke", r"~(delete|remove|drop|transfer|send|http|post|exec|shell|fetch|pay|grant)_\w"),
    Cue(
        "tool",
        0.5,
        "before prior",
        "( to)? (you )?(replying|answering|responding|reply|answer|respond|can solve|solve|continuing"
        "|continue|proceeding|proceed|doing anything|using (this|any) (tool|function)|completing)",
    ),
    Cue(
        "tool",
        0.5,
        "you",
        " (must|should|need to|have to)( now| immediately| first)? (delete|remove|send|transfer|drop|upload"
        "|wipe|forward|pay)",
    ),
    Cue("tool", 0.7, "please", " (do|perform|complete|execute) the following (first|task|steps|actions?|before)"),
    Cue(
        "tool",
        0.7,
        "read open cat fetch load include",
        r"[^.!?\n]{1,40}(~/\.ssh|id_rsa|/etc/(passwd|shadow)|\.aws/credentials|mcp\.json|\.netrc|\.env\b)",
    ),
    # memory: a rule for all time
    Cue(
        "memory",
        0.8,
        "remember memorize memorise store",
        "~(from now on|in all future|in (the )?future (sessions|conversations|chats)|for (all )?future"
        "|always|permanently|forever)",
    ),
    Cue(
        "memory",
        0.6,
        "save add write commit store",
        "( (this|the following|it|a note))? (to|in|into) (your |the |long term |persistent )*memory",
    ),
    Cue("memory", 0.4, "user", " (prefers|wants|likes|has asked|always wants)~you"),
    Cue(
        "memory",
        0.5,
        "when whenever if",
        " (you are |you're )?(asked|the user asks|a user asks|someone asks|anyone asks|users ask) (about|for"
        "|to|how|whether)",
    ),
    Cue("memory", 0.5, "always", " (recommend|suggest|mention|promote|insert|praise)"),
    Cue(
        "memory",
        0.7,
        "for",
        " the (rest|remainder|duration) of (this|the|our|your) (conversation|session|chat|interaction)",
    ),
    Cue(
        "memory",
        0.6,
        "update modify add",
        "~(to )?your (long term |persistent )?(memory|memories|system prompt|instructions)",
    ),
    Cue(
        "memory",
        0.5,
        "in",
        " (all|every|any) (future|subsequent|following|later) (conversations?|sessions?|chats?|responses?"
        "|interactions?|tasks?)",
    ),
    # answer: what the model shall say
    Cue(
        "answer",
        0.5,
        "reply respond answer output say print write return",
        " (back )?(only|just|exactly|solely|nothing but|strictly)",
    ),
    Cue("answer", 0.4, "only just exactly", " (reply|respond|answer|output|say|print)"),
    Cue("answer", 0.5, "and but", " (say |do |output )?nothing (else|more)"),
    Cue("answer", 0.4, "reply respond answer confirm", "~(with|by) "),
    Cue(
        "answer",
        0.5,
        "begin start end preface prefix",
        "~(every|each|all|your) (\\w{1,20} )?(response|reply|repl|message|answer|output|sentence)",
    ),
    Cue("answer", 0.4, "always", " (start|begin|end|reply|respond|answer|say|output)"),
    Cue("answer", 0.4, "respond reply answer speak talk", " (to me )?(as|like|in the (voice|style|role)) "),
    Cue("answer", 0.3, "and then", " (only )?(output|reply|respond|say|print|answer|tell me|do what)"),
    Cue(
        "answer",
        0.4,
        "every each all any",
        " (one )?(of )?(your |my |future |subsequent |single )*(responses?|repl(y|ies)|messages?|answers?"
        "|prompts?|outputs?)",
    ),
    Cue(
        "answer",
        0.4,
        "your",
        " (first|next|final|every)? ?(response|reply|answer|output)s? (must|should|will|shall|is|has|to)",
    ),
)


def by_head(cues: Iterable[Cue]) -> Mapping[str, tuple[int, ...]]:
    """First word -> the numbers of the cues that may begin there."""
    found: dict[str, list[int]] = {}
    for number, cue in enumerate(cues):
        for head in cue.heads.split():
            found.setdefault(head, []).append(number)
    return {head: tuple(numbers) for head, numbers in found.items()}


@cache
def behind_head(number: int) -> re.Pattern[str]:
    """The expression for what follows the first word of a cue; made when it is met, for a hook meets few."""
    rest = CUES[number].rest.replace(" ?", "\0").replace(" ", _BETWEEN).replace("~", _FEW_WORDS)
    return re.compile(rest.replace("\0", "[ -]?"))


@cache
def of_mark(number: int) -> re.Pattern[str]:
    """The expression of a mark."""
    return re.compile(MARKS[number].pattern)


class Mark(NamedTuple):
    """A sign that is no wording: looked for only where one of the needles stands in the text."""

    kind: str
    weight: float
    needles: tuple[str, ...]
    pattern: str


def _mark(kind: str, weight: float, needles: str, pattern: str) -> Mark:
    return Mark(kind, weight, tuple(needles.split()), pattern)


MARKS = (
    _mark(
        "turn",
        1.0,
        "<|im_start|> <|start_header_id|>",
        r"<\|(im_start|start_header_id)\|>\s{0,3}(system|user|assistant|tool)\b",
    ),
    _mark(
        "turn",
        0.5,
        "<| [inst] [/inst] <<sys>> <start_of_turn>",
        r"<\|(im_end|system|user|assistant|eot_id|endoftext)\|>|\[/?inst\]|<<sys>>|<start_of_turn>",
    ),
    _mark(
        "turn",
        0.5,
        "system assistant",
        r"(?:^|[\n\[<>*#.])[ \t]{0,4}(system|assistant)( (message|prompt|note|override|notice|instructions?"
        r"|update))?[\]>:]",
    ),
    _mark(
        "turn",
        0.5,
        "<information> <important> <instructions> <system> <admin>",
        r"<(information|important|instructions|system|admin)>",
    ),
    _mark("fence", 1.0, "scrimshaw", r"[<\[&(]{1,2}(lt;)?/?\s{0,4}scrimshaw[\s_-]{0,4}memory"),
    _mark(
        "fence",
        0.5,
        "</",
        r"</\s{0,3}(untrusted|document|documents|tool_result|tool_response|function_results?|search_results?"
        r"|memory|context|data|user_input|input)(_\w{1,30})?\s{0,3}>",
    ),
    _mark("exfiltration", 1.0, "![", r"!\[[^\]\n]{0,80}\]\(https?://[^)\s]{1,200}[?&][^)\s=]{1,40}=\s{0,2}[{\[<$]"),
    _mark(
        "covert",
        0.5,
        "<!--",
        r"<!--[^>]{0,80}\s(assistant|ai|agents?|llms?|ignore|disregard|system|instructions?|respond|reply)[\s,:]",
    ),
)
