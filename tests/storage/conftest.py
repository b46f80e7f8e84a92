"""The ports under test, once per engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.storage.contract import DURABLE, ENGINES, SHARED, OpenStorage, open_storage

from scrimshaw.storage.index import Index
from scrimshaw.storage.journal import Journal
from scrimshaw.storage.maintenance import Maintenance
from scrimshaw.storage.sessions import Sessions


@pytest.fixture(params=ENGINES)
def index_storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStorage]:
    with open_storage(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture
def index(index_storage: OpenStorage) -> Index:
    return index_storage.index


@pytest.fixture(params=DURABLE)
def durable_engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def storage(durable_engine: str, tmp_path: Path) -> Iterator[OpenStorage]:
    with open_storage(durable_engine, tmp_path) as opened:
        yield opened


@pytest.fixture
def shared_engine(durable_engine: str) -> str:
    """An engine that other processes can open too."""
    if durable_engine not in SHARED:
        pytest.skip("it lives in one process")
    return durable_engine


@pytest.fixture
def journal(storage: OpenStorage) -> Journal:
    return storage.journal


@pytest.fixture
def sessions(storage: OpenStorage) -> Sessions:
    return storage.sessions


@pytest.fixture
def maintenance(storage: OpenStorage) -> Maintenance:
    return storage.maintenance
