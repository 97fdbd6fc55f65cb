"""M24 What transactions do not promise a consumer: four ways to see a part of a committed transaction.

Each test shows the whole first (the promise), then the part (where it ends).
"""

from collections.abc import Callable, Iterator

import pytest

import semel
from semel.broker.cluster_settings import TopicSpec
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.clients.choice import NAMES, OLD_JAVA, Jvms, make_driver
from tests.clients.drivers.interface import Endpoint
from tests.features.reading import visible, wait_complete
from tests.features.tickets import SETTINGS
from tests.support.transactional import RawTransactions
from tests.support.waiting import eventually
from tests.support.wire import Wire

TOPIC_RESOURCE = 2
# The records have old times, so only `retention.bytes` may delete here.
QUICK = {
    **SETTINGS,
    "log.cleaner.backoff.ms": "50",
    "log.retention.check.interval.ms": "50",
    "log.retention.ms": "-1",
}
SHORT = {"segment.bytes": "150", "retention.ms": "-1"}
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "150", "min.cleanable.dirty.ratio": "0.01"}


@pytest.fixture
def cluster() -> Iterator[semel.Cluster]:
    """One topic that is compacted, one that is going to be short, one as usual."""
    topics = [TopicSpec(name="latest", config=COMPACTED), TopicSpec(name="recent", config=SHORT)]
    with semel.Cluster(brokers=3, topics=[*topics, "status:3"], config=QUICK) as started:
        yield started


Read = Callable[..., list[str]]


@pytest.fixture(params=[*NAMES, OLD_JAVA])
def read(request: pytest.FixtureRequest, cluster: semel.Cluster, jvms: Jvms) -> Iterator[Read]:
    """Read with read_committed through one client library."""
    driver = make_driver(request.param, Endpoint(bootstrap=cluster.bootstrap), jvms)

    def values(topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[str]:
        found = driver.consume(topic, {partition: offset}, count, committed=True)
        return [(one.value or b"").decode() for one in found]

    yield values
    driver.close()


def commit(cluster: semel.Cluster, rows: list[tuple[str, int, str, str]]) -> None:
    """One transaction: topic, partition, key, value of each record."""
    raw = RawTransactions(cluster, "tickets", newer=True)
    assert raw.init() == ErrorCode.NONE
    for topic, partition, key, value in rows:
        assert raw.send(topic, value, partition, key=key) == ErrorCode.NONE
    assert raw.end(raw.end_request(commit=True)) == ErrorCode.NONE
    wait_complete(cluster)


def keep_bytes(cluster: semel.Cluster, topic: str, retention_bytes: int) -> None:
    """Let retention be small from now on."""
    setting = AlterableConfig(name="retention.bytes", config_operation=0, value=str(retention_bytes))
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[setting])
    with Wire.to_broker(cluster) as wire:
        answer = wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse)
    assert answer.responses[0].error_code == ErrorCode.NONE, answer


def start_of(cluster: semel.Cluster, topic: str) -> int:
    """The first offset that is left."""
    leader = cluster.core.controller.state.topics[topic].partitions[0].leader
    return cluster.core.brokers[leader].partitions[topic, 0].log.log_start_offset


def test_compaction_takes_a_part_that_was_overwritten(cluster: semel.Cluster, read: Read) -> None:
    commit(cluster, [("latest", 0, "order", "sold"), ("latest", 0, "seat", "taken")])
    assert visible(cluster, "latest") == ["sold", "taken"]
    commit(cluster, [("latest", 0, "order", "paid"), ("latest", 0, "other", "1"), ("latest", 0, "other", "2")])
    eventually(lambda: "sold" not in visible(cluster, "latest"), what="compaction")
    assert visible(cluster, "latest")[:2] == ["taken", "paid"], "a late reader sees the seat without its order"
    assert read("latest", 2)[:2] == ["taken", "paid"]


def test_retention_takes_the_first_segment(cluster: semel.Cluster, read: Read) -> None:
    values = [str(number) for number in range(8)]
    commit(cluster, [("recent", 0, "k", value) for value in values])
    assert visible(cluster, "recent") == values
    keep_bytes(cluster, "recent", 300)
    start = eventually(lambda: start_of(cluster, "recent"), what="retention")
    left = visible(cluster, "recent", offset=start)
    assert 0 < len(left) < len(values)
    assert left == values[-len(left) :]
    assert read("recent", len(left), offset=start) == left


def test_a_seek_lands_in_the_middle(cluster: semel.Cluster, read: Read) -> None:
    commit(cluster, [("status", 0, "k", value) for value in ("first", "second", "third")])
    assert visible(cluster, "status") == ["first", "second", "third"]
    assert read("status", 3) == ["first", "second", "third"]
    assert read("status", 2, offset=1) == ["second", "third"]


def test_a_reader_of_some_partitions_sees_some_of_it(cluster: semel.Cluster, read: Read) -> None:
    commit(cluster, [("status", partition, "k", f"part {partition}") for partition in range(3)])
    whole = [value for partition in range(3) for value in visible(cluster, "status", partition)]
    assert whole == ["part 0", "part 1", "part 2"]
    assert read("status", 1, partition=1) == ["part 1"]
