"""Brokers die and come back at each step, while rows are written, and transactions time out."""

import threading

import pytest

import semel
from semel.broker.runtime.intercept import Delay, Seen
from semel.errors import SinkError
from semel.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from semel.sinks.base import CommitStep
from semel.wire.cluster import CoordinatorKind, shared_cluster
from semel.wire.settings import WireSettings
from tests.spark.matrix.conftest import Make
from tests.spark.matrix.replay import Replay
from tests.support.waiting import eventually

BOTH = pytest.mark.parametrize("partitioning", ["keyed", "spread"])


def coordinator_of(pipeline: Replay, kind: CoordinatorKind) -> int:
    cluster = shared_cluster(WireSettings.from_options({"kafka.bootstrap.servers": pipeline.bootstrap}))
    return cluster.coordinator(kind, pipeline.pipeline, cluster.deadline()).id


class KillCoordinator:
    """Kills the coordinator once, after a step, and starts it again from its files."""

    def __init__(self, cluster: semel.Cluster, pipeline: Replay, step: CommitStep, kind: CoordinatorKind) -> None:
        self.cluster, self.pipeline, self.step, self.kind = cluster, pipeline, step, kind
        self.fired = 0

    def __call__(self, step: CommitStep) -> None:
        if step is self.step and not self.fired:
            self.fired += 1
            broker_id = coordinator_of(self.pipeline, self.kind)
            self.cluster.kill(broker_id)
            self.cluster.restart(broker_id)


@pytest.mark.quick(2)
@BOTH
@pytest.mark.parametrize("step", list(CommitStep))
def test_the_transaction_coordinator_dies(
    make: Make, cluster: semel.Cluster, partitioning: str, step: CommitStep
) -> None:
    pipeline = make(partitioning)
    kill = KillCoordinator(cluster, pipeline, step, CoordinatorKind.TRANSACTION)
    pipeline.survive(kill)
    assert kill.fired == 1
    pipeline.check()


@pytest.mark.parametrize("step", [CommitStep.OWNED, CommitStep.ROWS_WRITTEN, CommitStep.OFFSETS_WRITTEN])
def test_the_group_coordinator_dies(make: Make, cluster: semel.Cluster, step: CommitStep) -> None:
    pipeline = make("spread")
    kill = KillCoordinator(cluster, pipeline, step, CoordinatorKind.GROUP)
    pipeline.survive(kill)
    assert kill.fired == 1
    pipeline.check()


@BOTH
def test_a_broker_dies_while_rows_are_written(make: Make, cluster: semel.Cluster, partitioning: str) -> None:
    pipeline = make(partitioning)
    hook = cluster.intercept("Produce", Delay(ms=60_000), where=lambda seen: seen.client_id == "semel")
    struck: list[int] = []

    def strike(seen: Seen) -> None:
        struck.append(seen.broker_id)

    hook.on_fire.append(strike)
    killer = threading.Thread(target=_kill_struck, args=(cluster, struck))
    killer.start()
    pipeline.survive()
    killer.join(30)
    assert hook.fired == 1
    pipeline.check()


def _kill_struck(cluster: semel.Cluster, struck: list[int]) -> None:
    eventually(lambda: struck, what="rows are being written")
    cluster.kill(struck[0])
    cluster.restart(struck[0])


@pytest.mark.full
@BOTH
def test_a_transaction_times_out(make: Make, cluster: semel.Cluster, partitioning: str) -> None:
    """E4: the coordinator aborts it before the driver commits; the micro-batch is run again, by the same driver."""
    # Long enough for the second run on a machine that is busy with something else.
    pipeline = make(partitioning, sink_options={"transaction_timeout_ms": 6_000})
    states: list[str] = []

    def wait_for_the_abort(step: CommitStep) -> None:
        if step is CommitStep.ROWS_WRITTEN and not states:
            eventually(lambda: state_of(pipeline) == "CompleteAbort", 60, what="the coordinator aborts")
            states.append(state_of(pipeline))

    assert pipeline.survive(wait_for_the_abort) == []
    assert states == ["CompleteAbort"]
    pipeline.check()


@pytest.mark.full
def test_a_transaction_always_times_out(make: Make) -> None:
    """E4: another run would end the same way; the error names the setting, and with it the pipeline goes on."""
    pipeline = make("keyed", sink_options={"transaction_timeout_ms": 500})

    def wait_for_the_abort(step: CommitStep) -> None:
        if step is CommitStep.ROWS_WRITTEN:
            eventually(lambda: state_of(pipeline) == "CompleteAbort", what="the coordinator aborts")

    with pytest.raises(SinkError, match="takes longer than its transaction may: 500 ms, 4 times") as caught:
        pipeline.drive(wait_for_the_abort)
    assert "KafkaSink(..., transaction_timeout_ms=1000)" in caught.value.you_want
    assert pipeline.output() == []
    pipeline.sink_options = {}
    pipeline.drive()
    pipeline.check()


def state_of(pipeline: Replay) -> str:
    """What the coordinator says of the pipeline's transaction."""
    cluster = shared_cluster(WireSettings.from_options({"kafka.bootstrap.servers": pipeline.bootstrap}))
    deadline = cluster.deadline()
    connection = cluster.coordinator_connection(CoordinatorKind.TRANSACTION, pipeline.pipeline, deadline)
    request = DescribeTransactionsRequest(transactional_ids=[pipeline.pipeline])
    return connection.call(request, DescribeTransactionsResponse, deadline).transaction_states[0].transaction_state
