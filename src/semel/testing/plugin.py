"""The pytest plugin: the fixtures `semel_cluster`, `semel_name` and `semel_drill`, see semel.testing.

Why: pytest loads this at every start, so nothing heavy is imported before a test asks for the cluster. The cluster is
     one for the whole run because that is what can be shared honestly: faults armed by one test would be met by
     another, so a fixture disarms them after each test. A drill kills brokers, so it has a cluster of its own.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Generator, Iterator
from itertools import count
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from semel.engine.embedded import Cluster
    from semel.testing.drill import Drill

DRILL = "semel_drill"
SEEDS_DEFAULT = 5
BROKERS_DEFAULT = "3"
# Not reset between tests: one that is run twice must not find the topic of its first run.
_names = count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare what can be set."""
    parser.addini("semel_brokers", "brokers of semel_cluster", type="string", default=BROKERS_DEFAULT)
    parser.addini("semel_topics", "topics of semel_cluster, as name:partitions:replicas", type="linelist", default=[])
    parser.addini("semel_config", "broker settings of semel_cluster, as name=value", type="linelist", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "semel_drill(faults, seeds=5, records=100, partitions=2, seconds=5, gap_s=0.5): run the test once for each"
        " seed, with a cluster that breaks by it",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a drilled test once for each seed."""
    marker = metafunc.definition.get_closest_marker(DRILL)
    if marker is None and DRILL not in metafunc.fixturenames:
        return
    if marker is None or DRILL not in metafunc.fixturenames or marker.args:
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid}: a drill is a marker with names and a fixture;"
            " you want @pytest.mark.semel_drill(faults=['kill-broker'], seeds=20) and the argument semel_drill"
        )
    seeds = marker.kwargs.get("seeds", SEEDS_DEFAULT)
    # From 1 on, not by chance: the test that failed yesterday has the same name today.
    chosen = range(1, seeds + 1) if isinstance(seeds, int) else seeds
    metafunc.parametrize(DRILL, chosen, indirect=True, ids=[f"seed-{seed}" for seed in chosen])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Print the command that repeats a failed seed."""
    report = yield
    if report.failed and item.get_closest_marker(DRILL) is not None:
        report.sections.append(("semel drill", f"repeat this seed: python -m pytest {shlex.quote(item.nodeid)}"))
    return report


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
    # Kafka takes these signs in names, and at most 249 of them.
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", request.node.name)
    return f"{plain[:200]}-{next(_names)}"


@pytest.fixture
def semel_drill(request: pytest.FixtureRequest) -> Iterator[Drill]:
    """A cluster with input in it that breaks while the test's code works; see semel.testing.drill."""
    from semel.testing.drill import drill_of  # noqa: PLC0415

    marker = request.node.get_closest_marker(DRILL)
    settings = {name: value for name, value in marker.kwargs.items() if name != "seeds"}
    # For JUnit's XML.
    request.node.user_properties.append(("semel_seed", request.param))
    with drill_of(request.param, **settings) as drill:
        request.node.user_properties.append(("semel_schedule", str(drill.schedule)))
        yield drill
