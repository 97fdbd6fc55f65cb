"""Transactions as a driver runs them: all or nothing, fenced, and honest about what is not known."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable

import pytest

from semel.broker.runtime.intercept import After, AnswerError, CutMidFrame, Delay, DropRequest, DropResponse, Seen
from semel.engine.embedded import Cluster
from semel.errors import BrokerError, ConfigError, ConnectionFailure, FencedError, Outcome, OutcomeUnknownError
from semel.protocol.error_codes import ErrorCode
from semel.wire.cluster import WireCluster
from semel.wire.offsets import LATEST, CommittedOffset, list_offsets
from semel.wire.produce import ProducerIdentity, send_batches
from semel.wire.settings import WireSettings
from semel.wire.topology import Isolation, TopicPartition
from semel.wire.transaction import TransactionClient
from tests.support.waiting import eventually
from tests.wire.conftest import MakeClient
from tests.wire.records import batches_of, expected, partitions_of, values_in

Fault = AnswerError | DropRequest | DropResponse | CutMidFrame
COMMITTED = Isolation.READ_COMMITTED
WRITTEN = 7  # two batches of three, and the marker


def begun(client: WireCluster, name: str) -> TransactionClient:
    transaction = TransactionClient(client, name, timeout_ms=60_000)
    transaction.begin(client.deadline())
    return transaction


def written(client: WireCluster, topic: str) -> TransactionClient:
    """A transaction with two batches in each partition and an offset, not ended yet."""
    transaction = begun(client, topic)
    places = partitions_of(topic)
    transaction.add_partitions(places, client.deadline())
    assert transaction.identity is not None
    batches = batches_of(places, 2, transactional=True)
    send_batches(client, batches, producer=transaction.identity, deadline=client.deadline())
    offset = CommittedOffset(offset_next=42, metadata="micro-batch 17")
    transaction.commit_offsets(topic, {places[0]: offset}, client.deadline())
    return transaction


def wait_for_markers(client: WireCluster, topic: str) -> None:
    wanted = dict.fromkeys(partitions_of(topic), LATEST)
    eventually(
        lambda: {each.offset for each in list_offsets(client, wanted, deadline=client.deadline()).values()} == {WRITTEN}
    )


def assert_committed(client: WireCluster, transaction: TransactionClient, topic: str) -> None:
    wait_for_markers(client, topic)
    assert all(values_in(client, place, COMMITTED) == expected(2) for place in partitions_of(topic))
    wanted = {TopicPartition(topic, 0): CommittedOffset(offset_next=42, metadata="micro-batch 17")}
    assert transaction.ledger(topic, client.deadline()) == wanted


def test_records_and_offsets_are_committed_together(client: WireCluster, topic: str) -> None:
    transaction = written(client, topic)
    assert values_in(client, TopicPartition(topic, 0), COMMITTED) == []
    transaction.end(client.deadline(), commit=True)
    assert_committed(client, transaction, topic)


def test_records_and_offsets_are_aborted_together(client: WireCluster, topic: str) -> None:
    transaction = written(client, topic)
    transaction.end(client.deadline(), commit=False)
    wait_for_markers(client, topic)
    assert transaction.ledger(topic, client.deadline()) == {}


def test_the_ledger_is_not_read_while_it_may_change(client: WireCluster, topic: str) -> None:
    transaction = written(client, topic)
    with pytest.raises(BrokerError, match="UNSTABLE_OFFSET_COMMIT"):
        transaction.ledger(topic, client.deadline(1_000), [TopicPartition(topic, 0)])
    transaction.end(client.deadline(), commit=True)
    assert_committed(client, transaction, topic)


def test_one_transaction_after_another(client: WireCluster, topic: str) -> None:
    transaction = written(client, topic)
    transaction.end(client.deadline(), commit=True)
    assert transaction.identity is not None
    before = transaction.identity
    after = transaction.begin(client.deadline())
    assert (after.producer_id, after.producer_epoch) == (before.producer_id, before.producer_epoch + 1)
    transaction.end(client.deadline(), commit=True)  # nothing was added: nothing to end
    assert_committed(client, transaction, topic)


def test_nothing_works_before_begin(client: WireCluster, topic: str) -> None:
    transaction = TransactionClient(client, topic, timeout_ms=60_000)
    with pytest.raises(ConfigError, match="not been started"):
        transaction.add_partitions([TopicPartition(topic, 0)], client.deadline())
    with pytest.raises(ConfigError, match="not been started"):
        transaction.end(client.deadline(), commit=True)
    with pytest.raises(ConfigError, match="transactional id"):
        TransactionClient(client, "", timeout_ms=1)


def test_a_timeout_above_the_brokers_maximum_is_said(client: WireCluster, topic: str) -> None:
    with pytest.raises(BrokerError, match="INVALID_TRANSACTION_TIMEOUT") as refused:
        TransactionClient(client, topic, timeout_ms=10**9).begin(client.deadline())
    assert "transaction.max.timeout.ms" in refused.value.next_command


def test_a_partition_that_does_not_exist_is_said_at_once(client: WireCluster, topic: str) -> None:
    deadline = client.deadline(60_000)
    with pytest.raises(BrokerError, match="does not exist"):
        begun(client, topic).add_partitions([TopicPartition("nowhere", 0)], deadline)
    assert deadline.left_ms > 30_000


def test_version_1_of_the_protocol_is_spoken(cluster: Cluster, client: WireCluster, topic: str) -> None:
    seen: list[Seen] = []
    hook = cluster.intercept(None, Delay(ms=0), times=None)
    hook.on_fire.append(seen.append)
    written(client, topic).end(client.deadline(), commit=True)
    versions = {each.api_key: each.version for each in seen if each.client_id == "semel"}
    assert {key: versions[key] for key in (0, 24, 26, 28)} == {0: 11, 24: 3, 26: 4, 28: 4}


HEALING: list[Fault] = [
    AnswerError(code=ErrorCode.NOT_COORDINATOR),
    AnswerError(code=ErrorCode.COORDINATOR_NOT_AVAILABLE),
    AnswerError(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    AnswerError(code=ErrorCode.CONCURRENT_TRANSACTIONS),
    DropRequest(),
    DropResponse(),
    CutMidFrame(after_bytes=6),
    DropResponse(then=After.SILENCE),
]
STEPS = ["InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"]


@pytest.mark.quick(10)
@pytest.mark.parametrize("api", STEPS)
@pytest.mark.parametrize("action", HEALING)
def test_every_step_is_repeated_until_it_is_done_once(
    cluster: Cluster, client: WireCluster, topic: str, api: str, action: Fault
) -> None:
    hook = cluster.intercept(api, action)
    transaction = written(client, topic)
    transaction.end(client.deadline(), commit=True)
    assert hook.fired == 1
    assert_committed(client, transaction, topic)


@pytest.mark.parametrize("api", STEPS[1:])
@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_fenced_owner_stops_at_every_step(
    cluster: Cluster, client: WireCluster, topic: str, api: str, code: ErrorCode
) -> None:
    hook = cluster.intercept(api, AnswerError(code=code), times=None)

    def run() -> None:
        written(client, topic).end(client.deadline(), commit=True)

    with pytest.raises(FencedError) as fenced:
        run()
    assert (hook.fired, fenced.value.outcome) == (1, Outcome.DID_NOT_HAPPEN)


def test_a_newer_owner_fences_and_aborts_what_was_open(client: WireCluster, topic: str) -> None:
    old = written(client, topic)
    new = begun(client, topic)
    wait_for_markers(client, topic)
    attempts: list[Callable[[], object]] = [
        lambda: old.add_partitions([TopicPartition(topic, 0)], client.deadline()),
        lambda: old.commit_offsets(
            topic, {TopicPartition(topic, 0): CommittedOffset(offset_next=1)}, client.deadline()
        ),
        lambda: old.end(client.deadline(), commit=True),
        lambda: old.end(client.deadline(), commit=False),
    ]
    for attempt in attempts:
        with pytest.raises(FencedError):
            attempt()
    assert new.ledger(topic, client.deadline()) == {}


def test_begin_waits_while_an_earlier_transaction_is_being_ended(
    cluster: Cluster, client: WireCluster, topic: str
) -> None:
    transaction = written(client, topic)
    asked = cluster.intercept("InitProducerId", AnswerError(code=ErrorCode.CONCURRENT_TRANSACTIONS), times=5)
    transaction.end(client.deadline(), commit=True)
    assert begun(client, topic).identity is not None
    assert asked.fired == 5
    cluster.disarm()
    assert_committed(client, transaction, topic)


@pytest.mark.parametrize("then", list(After))
def test_a_commit_that_happened_without_an_answer_is_unknown_and_the_ledger_tells(
    cluster: Cluster, client_of: MakeClient, client: WireCluster, topic: str, then: After
) -> None:
    short = client_of(cluster.bootstrap, request_timeout_ms="150")
    transaction = written(short, topic)
    hook = cluster.intercept("EndTxn", DropResponse(then=then), times=None)
    with pytest.raises(OutcomeUnknownError, match="no answer says") as unknown:
        transaction.end(short.deadline(2_000), commit=True)
    assert (unknown.value.outcome, hook.fired > 1) == (Outcome.UNKNOWN, True)
    cluster.disarm()
    assert_committed(client, begun(client, topic), topic)


def test_a_commit_that_never_arrived_is_unknown_too_and_the_ledger_tells(
    cluster: Cluster, client: WireCluster, topic: str
) -> None:
    transaction = written(client, topic)
    cluster.intercept("EndTxn", DropRequest(), times=None)
    with pytest.raises(OutcomeUnknownError):
        transaction.end(client.deadline(1_000), commit=True)
    cluster.disarm()
    again = begun(client, topic)
    assert again.ledger(topic, client.deadline()) == {}
    wait_for_markers(client, topic)


def test_a_commit_that_was_only_refused_did_not_happen(cluster: Cluster, client_of: MakeClient, topic: str) -> None:
    client = client_of(cluster.bootstrap, retry_backoff_ms="3000", retry_backoff_max_ms="3000")
    transaction = written(client, topic)
    hook = cluster.intercept("EndTxn", AnswerError(code=ErrorCode.CONCURRENT_TRANSACTIONS), times=None)
    with pytest.raises(BrokerError, match="CONCURRENT_TRANSACTIONS") as refused:
        transaction.end(client.deadline(5_000), commit=True)
    assert (refused.value.outcome, hook.fired) == (Outcome.DID_NOT_HAPPEN, 2)


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR])
def test_a_coordinator_that_lost_sight_of_the_commit_leaves_it_unknown(
    cluster: Cluster, client: WireCluster, topic: str, code: ErrorCode
) -> None:
    transaction = written(client, topic)
    cluster.intercept("EndTxn", AnswerError(code=code), times=None)
    with pytest.raises(OutcomeUnknownError):
        transaction.end(client.deadline(200), commit=True)


def test_fenced_after_a_lost_answer_is_fenced_with_an_unknown_outcome(
    cluster: Cluster, client: WireCluster, topic: str
) -> None:
    transaction = written(client, topic)
    cluster.intercept("EndTxn", DropResponse())
    cluster.intercept("EndTxn", AnswerError(code=ErrorCode.PRODUCER_FENCED))
    with pytest.raises(FencedError) as fenced:
        transaction.end(client.deadline(), commit=True)
    assert fenced.value.outcome is Outcome.UNKNOWN


def test_an_abort_of_what_the_broker_never_saw_is_done(cluster: Cluster, client: WireCluster, topic: str) -> None:
    transaction = begun(client, topic)
    cluster.intercept("AddPartitionsToTxn", DropRequest(), times=None)
    with pytest.raises(ConnectionFailure):
        transaction.add_partitions([TopicPartition(topic, 0)], client.deadline(200))
    cluster.disarm()
    transaction.end(client.deadline(), commit=False)


def test_an_abort_after_a_commit_that_happened_is_not_claimed(
    cluster: Cluster, client: WireCluster, topic: str
) -> None:
    transaction = written(client, topic)
    cluster.intercept("EndTxn", DropResponse(), times=None)
    with pytest.raises(OutcomeUnknownError):
        transaction.end(client.deadline(200), commit=True)
    cluster.disarm()
    with pytest.raises(BrokerError, match="INVALID_TXN_STATE"):
        transaction.end(client.deadline(), commit=False)
    assert_committed(client, transaction, topic)


def work(settings: WireSettings, who: bytes, places: list[TopicPartition]) -> int:
    """A task in a process of its own."""
    identity: ProducerIdentity = pickle.loads(who)
    cluster = WireCluster(settings)
    try:
        batches = batches_of(places, 20, transactional=True)
        sent = send_batches(cluster, batches, producer=identity, deadline=cluster.deadline())
        return sum(each.records for each in sent.values())
    finally:
        cluster.close()


def test_many_processes_write_in_one_transaction(cluster: Cluster, client: WireCluster, topic: str) -> None:
    transaction = begun(client, topic)
    places = partitions_of(topic)
    transaction.add_partitions(places, client.deadline())
    who = pickle.dumps(transaction.identity)
    tasks = [(client.settings, who, places[number::3]) for number in range(3)]
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert sum(pool.starmap(work, tasks)) == 6 * 60
        pool.close()
        pool.join()
    transaction.end(client.deadline(), commit=True)
    eventually(lambda: all(values_in(client, place, COMMITTED) == expected(20) for place in places))
