"""M16 An open transaction holds readers back; its timeout lets them go; a hanging one can be found and aborted.

Keeps: B8 a read_committed reader gets nothing at or above the last stable offset; T5 no partition has an open
       transaction that its coordinator does not know of.
"""

import pytest

import semel
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from semel.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.clients.drivers.interface import Refused
from tests.features.producers import LIBRARIES, TransactionalProducer
from tests.features.reading import described, last_stable_offset, seen, wait_complete
from tests.features.tickets import SETTINGS, MakeProducer
from tests.support.topics import produce
from tests.support.transactional import RawTransactions
from tests.support.waiting import eventually
from tests.support.wire import Wire

EACH = pytest.mark.parametrize("library", LIBRARIES)
VERSIONS = pytest.mark.parametrize("newer", [False, True], ids=["version1", "version2"])


def open_producers(cluster: semel.Cluster, topic: str) -> list[ProducerState]:
    """DescribeProducers: those with a transaction open in partition 0."""
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])])
    with Wire.to_leader(cluster, topic) as wire:
        row = wire.ask(request, DescribeProducersResponse).topics[0].partitions[0]
    return [each for each in row.active_producers if each.current_txn_start_offset >= 0]


def abort_hanging(cluster: semel.Cluster, topic: str, hanging: ProducerState) -> int:
    """What an administrator's tool sends: a marker, without asking any coordinator; the error code."""
    marker = WritableTxnMarker(
        producer_id=hanging.producer_id,
        producer_epoch=hanging.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
        coordinator_epoch=max(hanging.coordinator_epoch, 0),
    )
    with Wire.to_leader(cluster, topic) as wire:
        answer = wire.ask(WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse, version=1)
    return answer.markers[0].topics[0].partitions[0].error_code


def wake(dead: TransactionalProducer) -> None:
    dead.send("status", "too late")
    dead.flush()
    dead.commit()


@EACH
def test_readers_wait_for_an_open_transaction_until_it_times_out(
    tickets: semel.Cluster, producer_of: MakeProducer, library: str
) -> None:
    dead = producer_of(library, timeout_ms=1_000)
    dead.init()
    dead.begin()
    dead.send("status", "never decided")
    dead.flush()
    produce(tickets, "status", 1)
    assert last_stable_offset(tickets, "status") == 0
    assert (seen(tickets, "status"), len(seen(tickets, "status", committed=False))) == ([], 2)
    eventually(lambda: last_stable_offset(tickets, "status") == 3, what="the timeout aborts")
    assert seen(tickets, "status") == ["v" * 100]
    assert wait_complete(tickets) == "CompleteAbort"
    with pytest.raises(Refused):
        wake(dead)
    assert "too late" not in seen(tickets, "status")


@VERSIONS
def test_a_write_that_its_coordinator_does_not_know_is_refused(tickets: semel.Cluster, newer: bool) -> None:
    raw = RawTransactions(tickets, "tickets", newer=newer)
    raw.init()
    raw.epoch += 1  # an epoch that nobody was given, as of a client that is long gone
    code = raw.send("status", "unknown")
    assert code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE)
    assert seen(tickets, "status", committed=False) == []
    assert not open_producers(tickets, "status")


def test_without_verification_it_hangs_and_a_marker_frees_the_readers() -> None:
    settings = {**SETTINGS, "transaction.partition.verification.enable": "false"}
    with semel.Cluster(brokers=3, topics=["status:3"], config=settings) as cluster:
        raw = RawTransactions(cluster, "tickets", newer=False)
        raw.init(timeout_ms=100)
        assert raw.send("status", "hanging") == ErrorCode.NONE
        produce(cluster, "status", 1)
        assert described(cluster, "tickets")[0] == "Empty", "no coordinator knows of it, so no timeout ends it"
        (hanging,) = open_producers(cluster, "status")
        assert hanging.current_txn_start_offset == 0
        assert (last_stable_offset(cluster, "status"), seen(cluster, "status")) == (0, [])
        assert abort_hanging(cluster, "status", hanging) == ErrorCode.NONE
        assert not open_producers(cluster, "status")
        assert seen(cluster, "status") == ["v" * 100]
