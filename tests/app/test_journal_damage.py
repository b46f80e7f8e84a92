"""Doctor and `ledger verify` see what happened to a journal: damages of every kind, made by a generator."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest
from tests.app.command_line import Cli, command_line

from scrimshaw.config import load
from scrimshaw.engine import Engine, health, open_engine
from scrimshaw.engine.index import scan
from scrimshaw.engine.write import NewText, save, update
from scrimshaw.errors import ScrimshawError

LONG = "Ropes are coiled clockwise on every ship of the line, as the bosun has said since he came aboard: {}."
ROWS = 3  # at least so many in every table
OFFSETS = (0, 5, 40, 333, 1024, 2500, 3700, 4090)  # of the bytes changed in every page
# What no answer depends on, and why.
HARMLESS = {
    "sqlite_sequence.seq of capabilities": "the next number is above all rows there are, whatever it says",
    "sqlite_sequence.seq of jobs": "the next number is above all rows there are, whatever it says",
}
# Checks that read no journal, and take half of a doctor's time.
ASIDE = ("recall", "git", "full_text", "graph", "files")


class Damage(NamedTuple):
    """A way to damage a journal; `ledger` where `ledger verify` must see it too."""

    name: str
    make: Callable[[apsw.Connection], object]
    ledger: bool = False


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose journal has rows in every table, all of them in the file itself."""
    folder = tmp_path_factory.mktemp("sound") / "project"
    with used(folder):
        pass
    assert faults(folder) == ([], False)
    return folder


@contextmanager
def used(folder: Path) -> Iterator[Engine]:
    (folder / ".scrimshaw/memories").mkdir(parents=True)
    with opened(folder) as engine:
        for number in range(4):
            save(engine, NewText(content=LONG.format(str(number) * 9), id=f"rope-{number}"), force=True)
        update(engine, "rope-1", {}, content=LONG.format("and twice on Sundays"))
        health.check_health(engine)
        with engine.storage.journal_database.write() as write:
            fill_tables(write)
        save(engine, NewText(content=LONG.format("and dried in the sun"), id="rope-9"), force=True)
        scan(engine)
        yield engine


def opened(folder: Path) -> Engine:
    environment = {"SCRIMSHAW_EMBEDDING_PROVIDER": "none"}
    return open_engine(load(folder, home=folder.parent / "home", environment=environment))


def fill_tables(write: apsw.Connection) -> None:
    """Rows of made-up values in the tables that have few."""
    write.execute("PRAGMA defer_foreign_keys = ON")
    for table in tables_of(write):
        if table in ("ledger", "migrations", "seals"):
            continue
        (there,) = rows_of(write, f"SELECT count(*) FROM {table}")[0]
        for number in range(int(there), ROWS):
            values = {name: make_value(name, kind, number) for name, kind in columns_of(write, table).items()}
            marks = ", ".join("?" * len(values))
            write.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", tuple(values.values()))


def make_value(name: str, kind: str, number: int) -> Any:
    fixed = {"payload": "{}", "gaps": "[]", "state": "cancelled", "kind": "result", "trust": "agent"}
    if name in fixed:
        return fixed[name]
    texts = {"TEXT": f"s{number}" if name in ("session", "id") else f"{name} {number}", "BLOB": b"%d" % number}
    return texts.get(kind, number + 10)


def rows_of(connection: apsw.Connection, sql: str, *values: Any) -> list[Any]:
    return connection.execute(sql, values).fetchall()


def tables_of(connection: apsw.Connection) -> list[str]:
    sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
    return [str(name) for (name,) in rows_of(connection, sql)]


def columns_of(connection: apsw.Connection, table: str) -> dict[str, str]:
    return dict(rows_of(connection, "SELECT name, type FROM pragma_table_info(?)", table))


def keys_of(connection: apsw.Connection, table: str) -> list[str]:
    sql = "SELECT name FROM pragma_table_info(?) WHERE pk ORDER BY pk"
    return [str(name) for (name,) in rows_of(connection, sql, table)] or ["rowid"]


# Damages


def damage_rows(connection: apsw.Connection) -> Iterator[Damage]:
    for table in tables_of(connection):
        keys = ", ".join(keys_of(connection, table))
        is_ledger = table == "ledger"
        for place, order in (("first", ""), ("last", "DESC")):
            chosen = f"SELECT {keys} FROM {table} ORDER BY {keys.replace(',', f' {order},')} {order} LIMIT 1"
            delete = f"DELETE FROM {table} WHERE ({keys}) = ({chosen})"
            yield Damage(f"{table}: the {place} row taken out", run(delete), is_ledger)
            for column in columns_of(connection, table):
                change = f"UPDATE {table} SET {column} = {OTHER.format(column)} WHERE ({keys}) = ({chosen})"
                yield Damage(f"{table}.{column}: changed in the {place} row", run(change), is_ledger)
        yield Damage(f"{table}: emptied", run(f"DELETE FROM {table}"), is_ledger)
        yield Damage(f"{table}: dropped", run(f"DROP TABLE {table}"), is_ledger)
        for column in (each for each in columns_of(connection, table) if each not in keys):
            two = f"WITH two AS (SELECT {keys}, {column} AS value FROM {table} GROUP BY value LIMIT 2)"
            swap = f"{two} UPDATE {table} SET {column} = (SELECT value FROM two WHERE value IS NOT {table}.{column})"
            swap += f" WHERE ({keys}) IN (SELECT {keys} FROM two) AND (SELECT count(*) FROM two) = 2"
            yield Damage(f"{table}.{column}: swapped between two rows", run(swap), is_ledger)


# Another value of the same type.
OTHER = (
    "CASE typeof({0}) WHEN 'text' THEN {0} || 'x' WHEN 'blob' THEN CAST({0} || 'x' AS BLOB)"
    " WHEN 'null' THEN 1 ELSE {0} + 1000 END"
)


def damage_ends(connection: apsw.Connection) -> Iterator[Damage]:
    """The last rows are cut off, with the number that the table gave last."""
    for (table,) in rows_of(connection, "SELECT name FROM sqlite_sequence"):
        for count in (1, 2):
            cut = f"DELETE FROM {table} WHERE rowid > (SELECT max(rowid) - {count} FROM {table});"
            cut += f"UPDATE sqlite_sequence SET seq = seq - {count} WHERE name = '{table}'"
            yield Damage(f"{table}: the last {count} rows cut off", run(cut), table == "ledger")
        for change in ("seq - 1", "seq + 1", "'x'"):
            sql = f"UPDATE sqlite_sequence SET seq = {change} WHERE name = '{table}'"
            yield Damage(f"sqlite_sequence.seq of {table}: {change}", run(sql), table == "ledger")
        delete = f"DELETE FROM sqlite_sequence WHERE name = '{table}'"
        yield Damage(f"sqlite_sequence.seq of {table}: gone", run(delete), table == "ledger")


def damage_schema(connection: apsw.Connection) -> Iterator[Damage]:
    for kind, name, sql in rows_of(connection, "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"):
        if kind in ("trigger", "index"):
            yield Damage(f"the {kind} {name}: dropped", run(f"DROP {kind} {name}"))
        if kind == "trigger":
            changed = sql.replace("ABORT", "IGNORE")
            yield Damage(f"the trigger {name}: changed", run(f"DROP TRIGGER {name}; {changed}"))
        if kind == "table" and not name.startswith("sqlite_"):
            yield Damage(f"the table {name}: a column more", run(f"ALTER TABLE {name} ADD COLUMN stray TEXT"))
            yield Damage(f"the table {name}: renamed", run(f"ALTER TABLE {name} RENAME TO stray"))
            last = [*columns_of(connection, name)][-1]
            yield Damage(f"the table {name}: a column less", run(f"ALTER TABLE {name} DROP COLUMN {last}"))
            trigger = f"CREATE TRIGGER stray AFTER INSERT ON {name} BEGIN DELETE FROM {name}; END"
            yield Damage(f"the table {name}: a foreign trigger", run(trigger))


def run(sql: str) -> Callable[[apsw.Connection], object]:
    return lambda connection: connection.execute(sql).fetchall()


KINDS = {"rows": damage_rows, "ends": damage_ends, "schema": damage_schema}


# Looked at


@pytest.mark.parametrize("kind", KINDS)
def test_doctor_sees_every_damage_to_rows_and_schema(sound: Path, tmp_path: Path, kind: str) -> None:
    with closing(apsw.Connection(str(journal_of(sound)))) as connection:
        damages = list(KINDS[kind](connection))
    before, unseen, made = read_all(sound), list[str](), 0
    for number, damage in enumerate(damages):
        project = copy(sound, tmp_path / str(number))
        with closing(apsw.Connection(str(journal_of(project)))) as connection:
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
            try:
                damage.make(connection)
            except (apsw.ConstraintError, apsw.SQLError):
                continue  # what the schema does not let be made
        if read_all(project) == before:
            continue
        made += 1
        if damage.name.partition(":")[0] not in HARMLESS:
            found, is_ledger_broken = faults(project)
            unseen += [] if found else [damage.name]
            unseen += [f"{damage.name}, in the ledger"] if damage.ledger and not is_ledger_broken else []
        shutil.rmtree(project)
    assert unseen == []
    assert made > len(damages) / 2


def test_doctor_sees_every_changed_byte_that_a_row_depends_on(sound: Path, tmp_path: Path) -> None:
    before, unseen, made = read_all(sound), list[int](), 0
    data = journal_of(sound).read_bytes()
    for place in (page + offset for page in range(0, len(data), 4096) for offset in OFFSETS):
        project = copy(sound, tmp_path / str(place))
        flip(journal_of(project), place)
        if read_all(project) != before:
            made += 1
            unseen += [] if faults(project)[0] else [place]
        shutil.rmtree(project)
    assert unseen == []
    assert made > 20


@pytest.mark.parametrize("damage", ["removed", "cut in half", "first byte", "middle", "emptied"])
def test_a_log_that_is_lost_takes_entries_that_the_index_remembers(tmp_path: Path, damage: str) -> None:
    with used(tmp_path / "project"):
        project = copy(tmp_path / "project", tmp_path / "copy")
    log = journal_of(project).with_name("journal.db-wal")
    size = log.stat().st_size
    assert size > 0
    if damage == "removed":
        log.unlink()
    elif damage in ("emptied", "cut in half"):
        log.write_bytes(log.read_bytes()[: size // 2 if damage == "cut in half" else 0])
    else:
        flip(log, size // 2 if damage == "middle" else 0)
    found, is_ledger_broken = faults(project)
    assert found
    assert is_ledger_broken
    assert faults(project)[0], "whoever looks does not wipe the proof away"


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("UPDATE contents SET content = CAST('other' AS BLOB)", "the rows of contents are not what was written"),
        ("DROP TRIGGER ledger_no_delete", "the trigger ledger_no_delete is missing or not ours"),
        ("DELETE FROM sqlite_sequence", "entry 7 was changed or removed"),
    ],
)
def test_the_commands_say_what_they_saw(
    sound: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    sql: str,
    said: str,
) -> None:
    project = copy(sound, tmp_path / "project")
    with closing(apsw.Connection(str(journal_of(project)))) as connection:
        connection.execute(sql)
    monkeypatch.chdir(project)
    monkeypatch.setenv("SCRIMSHAW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "none")
    cli: Cli = command_line(capsys)
    told = cli("doctor")
    assert (told.code, " ".join(said.split()) in " ".join(told.out.split())) == (1, True), told.out
    assert cli("ledger", "verify").code == (1 if "entry" in said else 0)
    assert cli("restore", "--newest", "--yes").code == 0
    assert said not in " ".join(cli("doctor").out.split())


def faults(project: Path) -> tuple[list[str], bool]:
    """What doctor finds broken, and whether `ledger verify` finds the ledger broken."""
    checks = tuple(each for each in health.CHECKS if each.name not in ASIDE)
    try:
        with opened(project) as engine, pytest.MonkeyPatch.context() as patch:
            patch.setattr(health, "CHECKS", checks)
            found = list(health.check_health(engine, thorough=True).problems)
            return found, engine.journal.verify()[1] > 0
    except ScrimshawError as error:
        return [error.message], True


def read_all(project: Path) -> object:
    """Every row and the schema, or why they cannot be read."""
    found: dict[str, Any] = {}
    try:
        with closing(apsw.Connection(str(journal_of(project)))) as connection:
            found["schema"] = sorted(
                rows_of(connection, "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
            )
            for table in (*tables_of(connection), "sqlite_sequence"):
                found[table] = sorted(map(repr, rows_of(connection, f"SELECT * FROM {table}")))
    except (apsw.Error, UnicodeDecodeError) as error:
        return str(error)
    return found


def copy(project: Path, place: Path) -> Path:
    return Path(shutil.copytree(project, place))


def journal_of(project: Path) -> Path:
    return project / ".scrimshaw/journal.db"


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0x41
    path.write_bytes(bytes(data))
