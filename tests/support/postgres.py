"""A PostgreSQL for tests; import the fixture into a conftest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from semel.engine.postgres import PostgresServer
from semel.errors import EnvironmentFailure


def started() -> PostgresServer:
    """A running server, or a skip that says why there is none."""
    try:
        return PostgresServer().start()
    except EnvironmentFailure as failure:
        pytest.skip(f"PostgreSQL cannot be started here: {failure}")


@pytest.fixture(scope="package")
def postgres() -> Iterator[PostgresServer]:
    """One server for the tests of a folder."""
    server = started()
    yield server
    server.stop()
