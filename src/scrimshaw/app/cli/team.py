"""The commands for a team: digest; token create, list, revoke."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import to_builtins

from scrimshaw.app.cli import frame
from scrimshaw.app.cli.frame import Texts, command, command_group, settings_of
from scrimshaw.app.cli.output import Lines, confirm, line
from scrimshaw.app.hooks.fencing import neutralise
from scrimshaw.app.http.tokens import TokenFile, TokenScope, find_vaults
from scrimshaw.config import Settings
from scrimshaw.engine import Engine
from scrimshaw.engine.usage import MOST_SESSIONS
from scrimshaw.errors import NotFound, find_nearest
from scrimshaw.models import format_time
from scrimshaw.session.digest import list_others_changes
from scrimshaw.session.state import title_session
from scrimshaw.storage.sql import earliest

app = typer.Typer()
token = command_group(app, "token", "Tokens for access over HTTP.", "create ana --scope write")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the person or program, used as the author.")]

_SHOWN, _DEFAULT = 20, "1w"  # sessions, and the period without an earlier session


def _render_digest(found: Mapping[str, Any]) -> Lines:
    yield line((f"Since {found['since']}", "bold"))
    for each in found["changes"]:
        about = (f"  {each['title']}" if each["title"] else "", (f"  {', '.join(each['by'])}  {each['at']}", "dim"))
        yield line(f"  {each['what']:<8} ", (each["id"], "cyan"), *about)
    if not found["changes"]:
        yield "  Nobody else changed a memory."
    if found["sessions"]:
        yield line(("Your sessions", "bold"))
    for each in found["sessions"][:_SHOWN]:
        yield line((f"  {each['started'][:10]}  ", "dim"), each["title"], (f"  {each['id']}", "cyan"))
    if (more := len(found["sessions"]) - _SHOWN) > 0:
        yield f"  and {more} more; --json names all"


@command(app, "digest", "--since 2d", "--since 2026-01-31T08:00:00Z --json", render=_render_digest, reads=True)
def digest(
    engine: Engine,
    since: Annotated[str, frame.date(help="An ISO date, or 2d ago; default: the session before the last, or 1w.")] = "",
) -> dict[str, Any]:
    """Show what others did while you were away.

    The memories that others saved, changed or deleted: in commits that came here, and through a server in this
    checkout. Private memories are left out. Your own sessions are listed too, newest first.
    """
    sessions = engine.sessions.latest(limit=MOST_SESSIONS)
    # The period that the newest session's start reported: it may be the session this is run in.
    earlier = (sessions[:1] and engine.sessions.latest(before=sessions[0].id, with_changes=True)) or sessions[1:2]
    since = since or ("" if earlier else frame.parse_date(_DEFAULT))
    moment = datetime.fromisoformat(earliest(since)).replace(tzinfo=UTC).timestamp() if since else earlier[0].started
    changes = list_others_changes(engine.storage, engine.settings, moment)
    titles = {each.id: each.title for each in engine.index.get([each.id for each in changes]).values()}
    records = {each.session: each for each in engine.sessions.records()}
    own = [each for each in sessions if each.last_event >= moment and each.task and each.id in records]
    own.sort(key=attrgetter("started"), reverse=True)
    return {
        "since": format_time(moment),
        "changes": [{**to_builtins(each), "title": titles.get(each.id, "")} for each in changes],
        "sessions": [
            {
                "id": each.id,
                "client": each.client,
                "title": neutralise(title_session(engine.sessions, engine.index, records[each.id])),
                "started": format_time(each.started),
            }
            for each in own
        ],
    }


def _render_created(made: Mapping[str, Any]) -> Lines:
    yield line((made["token"], "bold"))
    yield f"The token of {made['name']} for {_list_scopes(made['scopes'])}, until {made['expires']}."
    yield "It is not shown again. A client sends it as `Authorization: Bearer TOKEN`."


def _render_tokens(found: Sequence[Mapping[str, Any]]) -> Lines:
    for each in found:
        state = ("expired", "yellow") if each["expired"] else (f"until {each['expires']}", "dim")
        yield line((each["name"], "cyan"), f"  {_list_scopes(each['scopes'])}  ", state)


def _list_scopes(scopes: Mapping[str, str]) -> str:
    return ", ".join(f"{vault}: {scope}" for vault, scope in scopes.items())


@command(token, "create", "ana --scope write --vault shop", render=_render_created)
def create_token(
    project: Path | None,
    name: Name,
    scope: Annotated[TokenScope, typer.Option(help="What it may do.")] = TokenScope.READ,
    vault: Annotated[Texts, typer.Option(metavar="NAME", help="Only this vault (repeatable); default: all.")] = None,
    days: Annotated[float, typer.Option(min=0.001, max=3660, help="Days until it expires.")] = 90.0,
) -> dict[str, Any]:
    """Create a token; its secret is shown once."""
    settings = settings_of(project)
    folders = find_vaults(settings)
    for each in vault or ():
        if each not in folders:
            hint = find_nearest(each, folders) or f"There are {', '.join(folders)}."
            raise NotFound(f"There is no vault {each!r}.", hint, parameter="vault")
    scopes = {str(folders[each]): scope for each in vault or folders}
    made, secret = TokenFile(settings.home).create(name, scopes, days)
    described = _describe_scopes(settings, made.scopes)
    return {"name": name, "token": secret, "scopes": described, "expires": format_time(made.expires)}


@command(token, "list", render=_render_tokens, empty="No token.")
def list_tokens(project: Path | None) -> list[dict[str, Any]]:
    """List the tokens: who, for what, and until when."""
    settings, now = settings_of(project), datetime.now(UTC).timestamp()
    return [
        {
            "name": each.name,
            "scopes": _describe_scopes(settings, each.scopes),
            "created": format_time(each.created),
            "expires": format_time(each.expires),
            "expired": each.expires <= now,
        }
        for each in TokenFile(settings.home).tokens()
    ]


@command(token, "revoke", "ana --yes", render=lambda name: [f"The token of {name} is revoked."])
def revoke_token(project: Path | None, name: Name, yes: frame.Yes = False) -> str:
    """Revoke a token; running servers reject it at once."""
    confirm(f"Revoke the token of {name}?", yes)
    TokenFile(settings_of(project).home).revoke(name)
    return name


def _describe_scopes(settings: Settings, scopes: Mapping[str, TokenScope]) -> dict[str, str]:
    """The scopes by names of their vaults; a folder no longer served is shown as such."""
    names = {str(folder): name for name, folder in find_vaults(settings).items()}
    return {names.get(folder, folder): scope.value for folder, scope in scopes.items()}
