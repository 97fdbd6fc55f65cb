"""Two clusters of one broker each, with the same settings, for all scripts."""

from collections.abc import Iterator

import pytest

from semel.engine.apache import ApacheCluster
from semel.engine.embedded import Cluster
from semel.errors import EnvironmentFailure
from tests.differential.run import Runs
from tests.differential.talk import Side

SETTINGS = {
    "group.min.session.timeout.ms": "100",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "50",
    "transaction.max.timeout.ms": "900000",
    "log.message.timestamp.after.max.ms": "3600000",
    "log.retention.ms": "-1",  # scripts send old records, and nobody knows when the cleaner comes by
}
# As the embedded cluster does: assignments are made at once, groups with members keep their protocol.
APACHE_SETTINGS = {
    **SETTINGS,
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.assignor.offload.enable": "false",
    "group.consumer.migration.policy": "disabled",
}


def _side(name: str, bootstrap: str) -> Side:
    host, port = bootstrap.split(":")
    return Side(name, host, int(port))


@pytest.fixture(scope="session")
def runs() -> Iterator[Runs]:
    """Both clusters, and what the scripts heard from them."""
    apache = ApacheCluster(brokers=1, config=APACHE_SETTINGS)
    try:
        apache.start()
    except EnvironmentFailure as failure:
        pytest.skip(f"Apache Kafka cannot be started here: {failure}")
    try:
        with Cluster(brokers=1, config=SETTINGS) as embedded:
            yield Runs(_side("embedded", embedded.bootstrap), _side("apache", apache.bootstrap))
    finally:
        apache.stop()
