"""Words by the part they play where a session is named: those without a subject, those that need another, verbs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_EMPTY = """
http https www
able actual actually add added adding additional agree agreed ahead alive allow allowed already also always answer
anything anyway appears apply approach appropriate ask asked asking assistant attempting available avoid aware away
back bad based basically begin behavior behaviour best better big bit both bottom break bring bug cached called calls
cannot captures care careful certain change changed changes changing chatgpt check checked checking choice choose
clarify claude clean cleaned cleaner clear clearly close closed come commands committed common complete completed
completely comprehensive confirm confusing consider consistent contain contains continue correct correctly could course
cover create created creating currently dash decide decided decision define delete depend describe described
description did different difficult directly discussed disk do does doing done dont double down due dunno each early
easy edit edits eight else end enough ensure entire especially etc even ever every everything exact exactly examples
exist existed existing exists expect expected explain exploratory explore fact fail failed failing fails false far
fastest feel final finally find fine finish first five fixed fixes fixing follow following forget found four full
further gemini general generate generated get gets getting give given go goal goes going good got great guess guys hand
happen happened happens hard hello help helper here hey high hint hmm hold home hope however idea implement implemented
implementing implements important include included includes including informed inside instead int interesting
intermediate issues just keep kept know known large last later latest lead learn least leave left less let lets lgtm
like likely little live locally lone long longer look looked looking looks lot made main make makes making many match
matter maybe mean means mention merge might minimal missing modify more most move moved much must named need needed
needs never new next nice nine none normal nothing notice now null obvious occured occurred off ok okay old one ones
oops open orient other otherwise our out outside over own particular pass passed passes passing peek people per perfect
perform perhaps place plain please point possible post potential pr prefer prepare present pretty prevent previous
previously probably proceed produce prompt proper properly propose provide provided proving pull push put question
quick quickly quite ran rather re reach read readme ready real really reason recent reconcile record redundant refer
regarding related relevant remember remove removed repeat replace replaced replied report reproduce reproduced require
required rest returned returning returns right run running runs rushing safe said same save saw say says second see
seem seems select self send sense sentence separate set seven several shall short should show shown shows side similar
simple simplest simply since six size skip small something sometimes somewhere soon sorry sort specifically start
started starting stated still stop str stray strict stuff such sufficient suggest summary sure switching take taken
takes talk tell temporary ten than thank thanks that thing things think third though thought three thus times to today
todo together told too treats tried true try trying turn two ultrathink unable under understand unless until updated
updates upon use used useful uses using usual valid various verify very via visible wait want wanted wants way ways
week well went whatever whenever wherever whole why wife will wish within without word words work worked working works
world worth would write writing written wrong yeah yep yes yesterday yet you yourself zero
"""
_SOFT = """
action address area argument arguments batch board body build button call case cases cause code column command commit
commits config configuration content context copy current data day default detail details diff directory document draft
edge entry error errors event example expression extra feature field file files fix folder format function functions
generation global group handle handler header id implementation index info information input instance instruction
instructions integration interface internal issue item items job key kind label layer line lines link list local log
logic manual message messages method minor mode module name names node note number object option options order original
output page parameter part path paths pattern patterns phase piece plan policy position primary problem process project
property public query reference relation request requirements result results return review row rule rules scenario
scenarios schema scope script scripts section sequence session sessions setting settings setup single source space
specific state statement status step steps storage string structure style sub-task support system table tag task tasks
template test tests text time title token tool tools top total tree type types unit update upgrade usage user users
value values variable variables version view warning warnings workflow xml
"""
_VERBS = """
add adjust allow analyze apply bring build change check clean combine commit compare complete configure consider
continue convert correct cover create debug delete design document drop enable explore extend extract figure find
finish fix focus generate implement improve include inline insert inspect install integrate investigate keep look make
merge migrate modify move optimize plan prepare provide publish push put refactor refine remove rename reorder replace
research restore revert review revise rewrite run set setup show simplify solve sort split start store support switch
test tidy try turn update upgrade use validate verify websearch wire work write
"""
_EXTENSIONS = (
    "py js ts tsx jsx ex exs md rst txt json yaml yml toml cfg ini html css sh rs go rb java c h cpp lock log csv"
)
_FOLDERS = "src lib test tests spec specs app docs doc tmp home users dev priv build dist main"

_STEMS = """
__init__ admin application base client common conftest constants exceptions fields forms handler handlers helpers hooks
index library models router server settings types urls utils views
"""

EMPTY = frozenset(_EMPTY.split())
"""What is done to things and how it is said: no part of a phrase."""
SOFT = frozenset(_SOFT.split())
"""Nouns that name a subject only beside another word: "default header", "test fixture"."""
VERBS = frozenset(_VERBS.split())
"""With one of these a request begins."""
EXTENSIONS = frozenset(_EXTENSIONS.split())
FOLDERS = frozenset(_FOLDERS.split())
"""Folders that every project has."""
STEMS = frozenset(_STEMS.split())
"""Files that many projects have."""
LANGUAGES: Mapping[str, str] = MappingProxyType(
    {
        "py": "python",
        "ex": "elixir",
        "exs": "elixir",
        "js": "javascript",
        "ts": "typescript",
        "tsx": "typescript",
        "rs": "rust",
        "go": "go",
        "rb": "ruby",
        "java": "java",
        "css": "css",
        "sh": "shell",
    }
)
