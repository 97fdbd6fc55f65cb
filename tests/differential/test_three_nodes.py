"""One story after another on three brokers of semel's and three of Apache Kafka: a client sees the same ends.

At most one broker is dead and one stopped at a time, since Apache Kafka's controllers need two of three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from semel.engine.apache import ApacheCluster
from semel.engine.embedded import Cluster
from semel.errors import EnvironmentFailure
from tests.differential.three_nodes import CONFIG, ApacheTrio, EmbeddedTrio, Trio

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]
Seen = list[object]


@pytest.fixture(scope="module")
def embedded() -> Iterator[Trio]:
    with Cluster(brokers=3, config=CONFIG) as cluster:
        yield EmbeddedTrio(cluster)


@pytest.fixture(scope="module")
def apache() -> Iterator[Trio]:
    cluster = ApacheCluster(brokers=3, config=CONFIG)
    try:
        cluster.start()
    except EnvironmentFailure as failure:
        pytest.skip(f"Apache Kafka cannot be started here: {failure}")
    try:
        yield ApacheTrio(cluster)
    finally:
        cluster.stop()


def leader_dies_before_its_follower_has_all(trio: Trio) -> Seen:
    trio.create("lagging", [1, 2])
    seen: Seen = [trio.produce("lagging", 1, acks=-1)]
    trio.pause(2)
    seen += [trio.produce("lagging", 1, acks=1) for _ in range(3)]  # the first may be on its way in a fetch
    trio.kill(1)
    trio.resume(2)
    trio.wait_for("lagging", 2, isr=[2])
    end = trio.end("lagging", 2)
    trio.restart(1)
    trio.wait_for("lagging", 2, isr=[1, 2], ask=2)
    seen += [end < 4, trio.end("lagging", 2) == end, trio.produce("lagging", 1, acks=1)]
    return [*seen, trio.produce("lagging", 2, acks=-1), trio.end("lagging", 2) == end + 1]


def fewer_in_sync_than_the_minimum(trio: Trio) -> Seen:
    trio.create("minimum", [1, 2, 3], min_insync_replicas="3")
    seen: Seen = [trio.produce("minimum", 1, acks=-1), trio.end("minimum", 1)]
    trio.kill(3)
    trio.wait_for("minimum", 1, isr=[1, 2])
    seen += [trio.produce("minimum", 1, acks=-1), trio.produce("minimum", 1, acks=1), trio.end("minimum", 1)]
    trio.restart(3)
    trio.wait_for("minimum", 1, isr=[1, 2, 3])
    return [*seen, trio.produce("minimum", 1, acks=-1), trio.end("minimum", 1)]


def nobody_in_sync_is_left(trio: Trio, topic: str, unclean: str) -> Seen:
    trio.create(topic, [1, 2], unclean_leader_election_enable=unclean)
    seen: Seen = [trio.produce(topic, 1, acks=-1)]
    trio.kill(2)
    trio.wait_for(topic, 1, isr=[1])
    seen += [trio.produce(topic, 1, acks=-1), trio.end(topic, 1)]
    trio.kill(1)
    trio.restart(2)
    if unclean == "true":
        trio.wait_for(topic, 2, isr=[2])
        seen += [trio.end(topic, 2), trio.produce(topic, 2, acks=-1)]
        trio.restart(1)
        trio.wait_for(topic, 2, isr=[1, 2], ask=2)
        return [*seen, trio.end(topic, 2)]
    trio.wait_for(topic, -1, isr=[1], ask=2)
    place = trio.look(topic, 2)
    seen += [place.error_code if place else None, trio.produce(topic, 2, acks=1)]
    trio.restart(1)
    trio.wait_for(topic, 1, isr=[1, 2], ask=2)
    return [*seen, trio.end(topic, 1), trio.produce(topic, 1, acks=-1)]


def clean(trio: Trio) -> Seen:
    return nobody_in_sync_is_left(trio, "clean", "false")


def unclean(trio: Trio) -> Seen:
    return nobody_in_sync_is_left(trio, "unclean", "true")


def producers_of_every_replica(trio: Trio) -> Seen:
    """A follower knows the producers as the leader does; a broker that stores nothing of the topic says so."""
    trio.create("copied", [1, 2])
    seen: Seen = [trio.produce("copied", 1, acks=-1, producer_id=7)]
    return [*seen, *(trio.producers("copied", broker_id) for broker_id in (1, 2, 3))]


STORIES = [
    leader_dies_before_its_follower_has_all,
    fewer_in_sync_than_the_minimum,
    clean,
    unclean,
    producers_of_every_replica,
]
EXPECTED: dict[str, Seen] = {
    "leader_dies_before_its_follower_has_all": [*["NONE"] * 4, True, True, "NOT_LEADER_OR_FOLLOWER", "NONE", True],
    "fewer_in_sync_than_the_minimum": ["NONE", 1, "NOT_ENOUGH_REPLICAS", "NONE", 1, "NONE", 3],
    "clean": ["NONE", "NONE", 2, 5, "NOT_LEADER_OR_FOLLOWER", 2, "NONE"],
    "producers_of_every_replica": ["NONE", ("NONE", [7]), ("NONE", [7]), ("NOT_LEADER_OR_FOLLOWER", [])],
    "unclean": ["NONE", "NONE", 2, 1, "NONE", 2],
}


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_the_end_is_the_same(embedded: Trio, apache: Trio, story: Callable[[Trio], Seen]) -> None:
    here = story(embedded)
    assert here == EXPECTED[story.__name__]
    assert here == story(apache)
