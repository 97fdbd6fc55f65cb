"""What transactions leave behind: what readers see, markers from outside, lists, offsets of a group."""

from __future__ import annotations

from semel.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from semel.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from semel.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from semel.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from semel.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from semel.protocol.messages.offset_fetch import OffsetFetchResponse
from semel.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.differential.acts import batch, fetch, fill, make_topic, offsets_request, produce
from tests.differential.scripts.groups import Member
from tests.differential.talk import Talk
from tests.differential.transacting import NEW_END, NEW_PRODUCE, OLD_END, OLD_PRODUCE, Actor

LATEST, MAX_TIMESTAMP = -1, -3
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
# Markers of today after records of long ago would begin a new segment, and an answer of Apache Kafka ends with one.
ONE_SEGMENT = {"segment.ms": str(2**63 - 1)}
STRANGER = (1_234_567_890, 0)


def reading(talk: Talk) -> None:
    """Committed, aborted and open records, for both kinds of readers, with both versions of the protocol."""
    for name, end, write in (("old", OLD_END, OLD_PRODUCE), ("new", NEW_END, NEW_PRODUCE)):
        topic = make_topic(talk, name, config=ONE_SEGMENT)
        first, second = (Actor(talk, talk.name(f"{name}-{at}"), topic, talk.name(f"{name}-g")) for at in (1, 2))
        first.start()
        second.start()
        fill(talk, topic, 1)
        for at, commit in enumerate((True, False, True)):
            first.open(write)
            _see(talk, f"{name} {at}, one open", topic)
            second.open(write)
            fill(talk, topic, 1)
            first.finish(end, commit=commit)
            _see(talk, f"{name} {at}, the other open", topic)
            second.finish(end, commit=not commit)
            _see(talk, f"{name} {at}, both ended", topic)
        for offset in (3, 8, 12):
            fetch(talk, f"{name}, committed from {offset}", topic, offset=offset, isolation=READ_COMMITTED)


def _see(talk: Talk, name: str, topic: str) -> None:
    for isolation in (READ_UNCOMMITTED, READ_COMMITTED):
        fetch(talk, f"{name}: isolation {isolation}", topic, isolation=isolation)
        for stamp in (LATEST, MAX_TIMESTAMP, 0):
            row = ListOffsetsPartition(partition_index=0, timestamp=stamp)
            topics = [ListOffsetsTopic(name=topic, partitions=[row])]
            request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)
            talk.ask(f"{name}: offset at {stamp}, isolation {isolation}", request, ListOffsetsResponse)
    rows = [TopicRequest(name=topic, partition_indexes=[0])]
    talk.ask(f"{name}: producers", DescribeProducersRequest(topics=rows), DescribeProducersResponse)


def markers(talk: Talk) -> None:
    """WriteTxnMarkers from an administrator."""
    topic = make_topic(talk, "marked", 2, config=ONE_SEGMENT)
    actor = Actor(talk, talk.name("marked"), topic, talk.name("g"))
    actor.start()
    actor.start()
    actor.open()
    for name, epoch, coordinator_epoch, transaction_version, where in (
        ("old epoch", -1, 0, 0, (topic, 0)),
        ("unknown topic", 0, 0, 0, (talk.name("no"), 0)),
        ("unknown partition", 0, 0, 0, (topic, 9)),
        ("same epoch, version 2", 0, 0, 2, (topic, 0)),
        ("abort", 0, 0, 0, (topic, 0)),
        ("abort again", 0, 0, 0, (topic, 0)),
        ("next epoch, version 2", 1, 0, 2, (topic, 0)),
        ("where nothing was written", 0, 0, 0, (topic, 1)),
        ("old coordinator", 1, -1, 0, (topic, 0)),
    ):
        producer = (actor.producer[0], actor.producer[1] + epoch)
        for version in talk.common(WriteTxnMarkersResponse):
            request = _marker(producer, where, coordinator_epoch, transaction_version)
            talk.ask(f"marker: {name}", request, WriteTxnMarkersResponse, version=version)
    for partition in (0, 1):
        fetch(talk, f"after markers, partition {partition}", topic, partition=partition)
    talk.ask("no markers", WriteTxnMarkersRequest(), WriteTxnMarkersResponse)
    actor.write("write after an administrator's abort", NEW_PRODUCE)


def _marker(
    producer: tuple[int, int], where: tuple[str, int], coordinator_epoch: int, transaction_version: int
) -> WriteTxnMarkersRequest:
    row = WritableTxnMarker(
        producer_id=producer[0],
        producer_epoch=producer[1],
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=where[0], partition_indexes=[where[1]])],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )
    return WriteTxnMarkersRequest(markers=[row])


def offsets(talk: Talk) -> None:
    """Offsets in a transaction: hidden until it commits, fenced by member and generation."""
    topic = make_topic(talk, "consumed")
    for name, commit in (("committed", True), ("aborted", False)):
        actor = Actor(talk, talk.name(name), topic, talk.name(f"{name}-group"))
        actor.start()
        actor.commit_offsets("commit offsets", 5)
        for stable in (False, True):
            request = offsets_request(actor.group, topic, [0], stable=stable)
            talk.ask(f"open, stable {stable}", request, OffsetFetchResponse, version=9)
        actor.end(f"to be {name}", NEW_END, commit=commit)
        talk.ask(
            f"{name}, stable", offsets_request(actor.group, topic, [0], stable=True), OffsetFetchResponse, version=9
        )
    member = Member(talk, talk.name("members"))
    member.join()
    member.sync()
    actor = Actor(talk, talk.name("fencing"), topic, member.group)
    actor.start()
    for version in (2, 3, 5):
        for who in ((member.id, member.generation), ("stranger", member.generation), (member.id, 9), ("", -1)):
            actor.commit_offsets(f"as {(who[0] and who[0] == member.id) or who[0]}, generation {who[1]}", version, who)
    actor.group = ""
    for version in (2, 5):
        actor.commit_offsets("no group id", version)
    actor.add_offsets("no group id", 4)


def lists(talk: Talk) -> None:
    """ListTransactions and DescribeTransactions; producers without a transactional id; many transactions at once."""
    topic = make_topic(talk, "listed")
    actors = [Actor(talk, talk.name(f"id-{at}"), topic, talk.name("g")) for at in range(3)]
    for actor in actors:
        actor.start()
    actors[1].open()
    actors[2].open()
    actors[2].finish(NEW_END, commit=True)
    for version in talk.common(ListTransactionsResponse):
        talk.ask("list", ListTransactionsRequest(), ListTransactionsResponse, version=version)
        for states in (["Ongoing"], ["Empty", "CompleteCommit"], ["Nonsense"], ["ongoing"], ["Nonsense", "Empty"]):
            request = ListTransactionsRequest(state_filters=states)
            talk.ask(f"list {states}", request, ListTransactionsResponse, version=version)
    for ids in ([actors[0].producer[0]], [STRANGER[0]]):
        request = ListTransactionsRequest(producer_id_filters=ids)
        talk.ask(f"list a producer, known {ids[0] != STRANGER[0]}", request, ListTransactionsResponse)
    for pattern in (f"{talk.prefix}id-[01]", "id-0", ".*id-2", "[", ""):
        request = ListTransactionsRequest(transactional_id_pattern=pattern)
        talk.ask(f"list {pattern.removeprefix(talk.prefix)}", request, ListTransactionsResponse)
    for duration in (0, 10_000_000):
        request = ListTransactionsRequest(duration_filter=duration)
        talk.ask(f"list longer than {duration}", request, ListTransactionsResponse)
    names = [*(actor.transactional_id for actor in actors), talk.name("no"), ""]
    talk.ask("describe", DescribeTransactionsRequest(transactional_ids=names), DescribeTransactionsResponse)
    _without_id(talk, topic)
    rows = [row for actor in actors for row in actor.add_request().transactions]
    for version in (4, 5):
        many = AddPartitionsToTxnRequest(transactions=rows)
        talk.ask("many at once", many, AddPartitionsToTxnResponse, version=version)


def _without_id(talk: Talk, topic: str) -> None:
    for version in talk.common(InitProducerIdResponse):
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        talk.ask("producer without transactional id", request, InitProducerIdResponse, version=version)
        empty = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000)
        talk.ask("empty transactional id", empty, InitProducerIdResponse, version=version)
    for producer in ((-1, 3), (3, -1)):
        request = InitProducerIdRequest(
            transactional_id=talk.name("odd"),
            transaction_timeout_ms=1000,
            producer_id=producer[0],
            producer_epoch=producer[1],
        )
        talk.ask(f"half a producer {producer}", request, InitProducerIdResponse)
    data = batch(producer=STRANGER, sequence=0, transactional=True)
    produce(talk, "transactional batch in a request without id", topic, data)
    produce(talk, "plain batch in a transactional request", topic, batch(), transactional_id=talk.name("id-0"))


SCRIPTS = {"reading": reading, "markers": markers, "transaction-offsets": offsets, "transaction-lists": lists}
