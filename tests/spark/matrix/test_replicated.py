"""Three replicas, two of them needed: a broker dies for longer than a step, a coordinator moves, the network is split.

Each cell asserts that somebody else led in the end; a fault that moved nothing would show nothing. A coordinator that
is cut off costs some time limits: that is tried at one step on each run, and at the others by `make test-full`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.functions import spark_partition_id

import semel
from semel.protocol.coordinator_partition import coordinator_partition
from semel.sinks.base import CommitStep
from semel.sinks.kafka.stages import Partitioning
from semel.wire.cluster import CoordinatorKind, shared_cluster
from semel.wire.settings import WireSettings
from tests.spark.matrix.conftest import Make
from tests.spark.matrix.replay import Replay
from tests.support.topics import all_in_sync
from tests.support.waiting import eventually

BROKERS = (1, 2, 3)
CONTROLLER = 0
TOPIC_OF = {CoordinatorKind.TRANSACTION: "__transaction_state", CoordinatorKind.GROUP: "__consumer_offsets"}
STEPS = pytest.mark.parametrize("step", list(CommitStep))
# With rows written and nothing decided, every later request meets the new coordinator.
ALWAYS = CommitStep.ROWS_WRITTEN
MOSTLY_LONG = pytest.mark.parametrize(
    "step", [pytest.param(step, marks=[] if step is ALWAYS else pytest.mark.full) for step in CommitStep]
)
COORDINATORS = pytest.mark.parametrize("kind", list(TOPIC_OF), ids=["transaction", "group"])
_numbers = count()

Strike = Callable[[int], None]


@pytest.fixture
def mended(cluster: semel.Cluster) -> Iterator[semel.Cluster]:
    """The cluster, whole again after the cell."""
    yield cluster
    cluster.heal()
    for broker_id in set(BROKERS) - set(cluster.core.brokers):
        cluster.restart(broker_id)
    eventually(lambda: all_in_sync(cluster), what="all replicas are in sync")


def leader_of(cluster: semel.Cluster, topic: str, partition: int) -> int:
    return cluster.core.state.topics[topic].partitions[partition].leader


class AtStep:
    """Strikes the leader of one partition once, after a step of the second micro-batch, and waits for another one."""

    def __init__(self, cluster: semel.Cluster, topic: str, partition: int, step: CommitStep, strike: Strike) -> None:
        self.cluster, self.topic, self.partition, self.step, self.strike = cluster, topic, partition, step, strike
        self.seen = 0
        self.led: list[int] = []

    def __call__(self, step: CommitStep) -> None:
        if step is not self.step:
            return
        self.seen += 1
        if self.seen == 2:
            old = leader_of(self.cluster, self.topic, self.partition)
            self.led.append(old)
            self.strike(old)
            eventually(lambda: self._leader() not in (old, -1), what="another broker leads")
            self.led.append(self._leader())

    def _leader(self) -> int:
        return leader_of(self.cluster, self.topic, self.partition)

    def check(self) -> None:
        """It struck, and the leader is another one."""
        assert len(set(self.led)) == 2


def as_tasks(rows: DataFrame) -> DataFrame:
    """Each task's rows to a partition of its own."""
    return rows.withColumn("partition", spark_partition_id())


def replicated(make: Make, cluster: semel.Cluster, partitioning: Partitioning) -> Replay:
    options = {"kafka.request.timeout.ms": "2000"}  # an old leader takes records and never acknowledges them
    shape = {"shape": as_tasks} if partitioning is Partitioning.SOURCE else {}
    pipeline = make(partitioning, replicas=3, pipeline=f"replicated-{next(_numbers)}", kafka_options=options, **shape)
    wire = shared_cluster(WireSettings.from_options({"kafka.bootstrap.servers": pipeline.bootstrap}))
    for kind in TOPIC_OF:
        wire.coordinator(kind, pipeline.pipeline, wire.deadline())  # makes the internal topics
    eventually(lambda: all_in_sync(cluster), what="all replicas are in sync")
    return pipeline


def place_of(pipeline: Replay, cluster: semel.Cluster, kind: CoordinatorKind) -> tuple[str, int]:
    topic = TOPIC_OF[kind]
    return topic, coordinator_partition(pipeline.pipeline, len(cluster.core.state.topics[topic].partitions))


def cut_off(cluster: semel.Cluster, broker_id: int) -> None:
    for other in (CONTROLLER, *BROKERS):
        if other != broker_id:
            cluster.split(broker_id, other)


@pytest.mark.quick(1)
@STEPS
@pytest.mark.parametrize("partitioning", list(Partitioning))
def test_the_leader_of_a_target_partition_dies(
    make: Make, mended: semel.Cluster, partitioning: Partitioning, step: CommitStep
) -> None:
    pipeline = replicated(make, mended, partitioning)
    strike = AtStep(mended, pipeline.topic, 0, step, mended.kill)
    pipeline.survive(strike)
    strike.check()
    pipeline.check()


@pytest.mark.quick(1)
@STEPS
@COORDINATORS
def test_a_coordinator_moves(make: Make, mended: semel.Cluster, kind: CoordinatorKind, step: CommitStep) -> None:
    pipeline = replicated(make, mended, Partitioning.SPREAD)
    topic, partition = place_of(pipeline, mended, kind)
    strike = AtStep(
        mended, topic, partition, step, lambda old: mended.move_leader(topic, partition, BROKERS[old % len(BROKERS)])
    )
    pipeline.survive(strike)
    strike.check()
    pipeline.check()


@pytest.mark.full
@MOSTLY_LONG
@COORDINATORS
def test_a_coordinator_is_cut_off(make: Make, mended: semel.Cluster, kind: CoordinatorKind, step: CommitStep) -> None:
    """Drivers still reach it, and it does not know that it was replaced: what it remembers must mislead nobody."""
    pipeline = replicated(make, mended, Partitioning.SPREAD)
    topic, partition = place_of(pipeline, mended, kind)
    strike = AtStep(mended, topic, partition, step, lambda old: cut_off(mended, old))
    lost = sum(mended.core.links.lost_between(CONTROLLER, broker_id) for broker_id in BROKERS)
    pipeline.survive(strike)
    strike.check()
    assert sum(mended.core.links.lost_between(CONTROLLER, broker_id) for broker_id in BROKERS) > lost
    mended.heal()
    eventually(lambda: all_in_sync(mended), what="the reader is not told of what led before the split")
    pipeline.check()
