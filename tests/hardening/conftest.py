"""One cluster in a process of its own for all tests here, and after each the proof that it took no harm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hardening.raw import RawClient
from tests.hardening.requests import MIB, check_served
from tests.hardening.served import ServedCluster

PEAK_BYTES_MAX = 400 * MIB  # a cluster at rest has about 60; every attack here would cost gigabytes if it worked


@pytest.fixture(scope="session")
def served() -> Iterator[ServedCluster]:
    """A cluster that outlives every attack."""
    with ServedCluster() as cluster:
        yield cluster


@pytest.fixture
def good(served: ServedCluster) -> Iterator[RawClient]:
    """A well-behaved client: connected before the attack, served during and after it, as is a new one."""
    with RawClient(served.bootstrap) as client:
        check_served(client)
        yield client
        check_served(client)
    with RawClient(served.bootstrap) as newcomer:
        check_served(newcomer)
    assert served.peak_bytes() < PEAK_BYTES_MAX
    assert served.failures() == []
