"""The pytest plugin: the fixtures `semel_cluster` and `semel_name`, see semel.testing.

Why: pytest loads this at every start, so nothing heavy is imported before a test asks for the cluster. The cluster is
     one for the whole run because that is what can be shared honestly: faults armed by one test would be met by
     another, so a fixture disarms them after each test.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from semel.engine.embedded import Cluster

BROKERS_DEFAULT = "3"
_names = count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare what can be set."""
    parser.addini("semel_brokers", "brokers of semel_cluster", type="string", default=BROKERS_DEFAULT)
    parser.addini("semel_topics", "topics of semel_cluster, as name:partitions:replicas", type="linelist", default=[])
    parser.addini("semel_config", "broker settings of semel_cluster, as name=value", type="linelist", default=[])


def _brokers(config: pytest.Config) -> int:
    text = str(config.getini("semel_brokers"))
    if not text.isdigit():
        raise pytest.UsageError(f"semel_brokers = {text!r} is not a number; you want semel_brokers = 3")
    return int(text)


def _settings(config: pytest.Config) -> dict[str, str]:
    settings = {}
    for line in config.getini("semel_config"):
        name, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"semel_config has {line!r}; you want name=value")
        settings[name.strip()] = value.strip()
    return settings


@pytest.fixture(scope="session")
def _semel_running(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    from semel.engine.embedded import Cluster  # noqa: PLC0415  (only who asks for a cluster pays for it)

    topics = list(pytestconfig.getini("semel_topics"))
    with Cluster(brokers=_brokers(pytestconfig), topics=topics, config=_settings(pytestconfig)) as cluster:
        yield cluster


@pytest.fixture
def semel_cluster(_semel_running: Cluster) -> Iterator[Cluster]:
    """A running Kafka cluster, the same for all tests; faults that a test arms end with it."""
    yield _semel_running
    _semel_running.disarm()


@pytest.fixture
def semel_name(request: pytest.FixtureRequest) -> str:
    """A name for a topic, group or transactional id that no other test of this run has."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", request.node.name)
    return f"{plain[:200]}-{next(_names)}"
