"""What only connections to a PostgreSQL server have: how many there are, and statements planned once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING

import pytest
from tests.storage import postgres_server

from scrimshaw.errors import StorageFailure

if TYPE_CHECKING:
    from scrimshaw.storage.postgres.database import PostgresDatabase

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not postgres_server.IS_HERE, reason="there is no PostgreSQL"),
]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[PostgresDatabase]:
    from scrimshaw.storage.postgres.database import PostgresDatabase

    url, vault = postgres_server.start(), f"d{abs(hash(str(tmp_path))) % 10**12}"
    with closing(PostgresDatabase(url, vault, "index", durable=False, busy_timeout_ms=2_000)) as opened:
        yield opened


def test_a_list_of_any_length_is_one_statement_to_the_server(database: PostgresDatabase) -> None:
    with database.lend() as connection:
        for many in range(1, 20):
            marks = ",".join("?" * many)
            sql = f"SELECT key FROM meta WHERE value < ? AND key IN ({marks}) AND key NOT IN ({marks}) AND value = ?"
            kept = [f"k{number}" for number in range(many - 1)] + ["generation"]
            other = [f"x{number}" for number in range(many)]
            assert connection.execute(sql, [1, *kept, *other, 0]).get == "generation"
            assert connection.execute(sql, [1, *other, *kept, 0]).get is None
            assert connection.execute(sql, [1, *kept, *other, 2]).get is None
        prepared = (
            "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'SELECT key FROM meta WHERE value%'"
        )
        assert connection.execute(prepared).get == 1


def test_of_many_threads_so_many_have_a_connection_at_once(database: PostgresDatabase) -> None:
    from scrimshaw.storage.postgres.database import MOST_CONNECTIONS

    here = Barrier(MOST_CONNECTIONS)

    def work(_: int) -> int:
        with database.lend() as connection:
            here.wait(60)  # all connections that there may be are lent
            return int(connection.execute("SELECT pg_backend_pid()").get)

    with ThreadPoolExecutor(MOST_CONNECTIONS * 3) as pool:
        found = set(pool.map(work, range(MOST_CONNECTIONS * 3)))
    assert len(found) == MOST_CONNECTIONS, found


def test_who_gets_no_connection_is_told(database: PostgresDatabase) -> None:
    from scrimshaw.storage.postgres.database import MOST_CONNECTIONS

    with ThreadPoolExecutor(MOST_CONNECTIONS) as pool, ExitStack() as stack:
        taken, done = Barrier(MOST_CONNECTIONS + 1), Barrier(MOST_CONNECTIONS + 1)
        stack.callback(done.wait, 60)

        def hold() -> object:
            with database.lend():
                another = database.value("SELECT 1")  # which who has one gets at once
                taken.wait(60)
                done.wait(60)
                return another

        held = [pool.submit(hold) for _ in range(MOST_CONNECTIONS)]
        taken.wait(60)
        with pytest.raises(StorageFailure, match="were busy for"):
            database.value("SELECT 1")
    assert [each.result() for each in held] == [1] * MOST_CONNECTIONS
    assert database.value("SELECT 1") == 1


def test_words_go_with_their_text(database: PostgresDatabase) -> None:
    with database.write() as write:
        write.copy("texts (part, length)", [(1, 1), (2, 1)])
        write.copy(
            "words (term, part, length, weight, places)", [("ivory", 1, 1, 1.0, "{0}"), ("ivory", 2, 1, 1.0, "{}")]
        )
        write.execute("DELETE FROM texts WHERE part = ?", (1,))
    assert database.rows("SELECT term, part FROM words") == [("ivory", 2)]
