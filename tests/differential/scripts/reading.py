"""Fetch with its sessions, ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from semel.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from semel.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from semel.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from semel.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.differential.acts import (
    NAMES_LAST,
    PARTITION_BYTES_MAX,
    TIME_MS,
    batch,
    fetch,
    fill,
    make_topic,
    records,
    topic_id,
)
from tests.differential.talk import Talk

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6
NO_SUCH_ID = UUID(int=0x1234_5678)


def _row(partition: int = 0, offset: int = 0, bytes_max: int = PARTITION_BYTES_MAX, epoch: int = -1) -> FetchPartition:
    return FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=bytes_max, current_leader_epoch=epoch
    )


def fetching(talk: Talk) -> None:
    """Whole fetches: places, limits, ids, in every version."""
    topic = make_topic(talk, "read", 2)
    known = topic_id(talk, topic)
    for _ in range(4):
        fill(talk, topic, 1, data=batch(2))
    fill(talk, topic, 2, partition=1)

    def whole(*rows: FetchPartition, id: UUID | None = known, name: str = topic, **rest: int) -> FetchRequest:  # noqa: A002
        return FetchRequest(topics=[FetchTopic(topic=name, topic_id=id, partitions=list(rows))], **rest)  # type: ignore[arg-type]

    talk.each_version("from the start", FetchResponse, whole(_row()))
    talk.each_version("two partitions", FetchResponse, whole(_row(), _row(1)))
    talk.each_version("out of range", FetchResponse, whole(_row(0, 99), _row(1, -1)))
    talk.each_version("unknown partition", FetchResponse, whole(_row(7)))
    talk.each_version("unknown topic", FetchResponse, whole(_row(), id=NO_SUCH_ID, name=talk.name("none")))
    for isolation in (0, 1):
        talk.each_version(f"isolation {isolation}", FetchResponse, whole(_row(), isolation_level=isolation))
    for offset in (1, 2, 7, 8, 9):
        talk.ask(f"from {offset}", whole(_row(0, offset)), FetchResponse)
    one = len(batch(2))
    for limit in (0, 1, one, one + 1, 2 * one, 3 * one - 1):
        talk.ask(f"partition limit {limit}", whole(_row(0, 0, limit)), FetchResponse)
        talk.ask(f"limit {limit}", whole(_row(), _row(1), max_bytes=limit), FetchResponse)
        talk.ask(f"limit {limit} for the second", whole(_row(0, 0, limit), _row(1, 0, limit)), FetchResponse)
    for epoch in (0, 1, -1, -2):
        talk.ask(f"leader epoch {epoch}", whole(_row(epoch=epoch)), FetchResponse)
    talk.ask("waits in vain", whole(_row(0, 8), max_wait_ms=50, min_bytes=1), FetchResponse)
    talk.ask("nothing asked", FetchRequest(), FetchResponse)
    talk.ask("zero id", whole(_row(), id=None), FetchResponse)
    for epoch in (0, 5):
        row = _row(0, 8)
        row.last_fetched_epoch = epoch
        talk.ask(f"last fetched epoch {epoch}", whole(row), FetchResponse)


def sessions(talk: Talk) -> None:
    """Incremental fetches."""
    topic = make_topic(talk, "session", 3)
    fill(talk, topic, 2)
    names = [FetchTopic(topic=topic, partitions=[_row(0), _row(1)])]

    def ask(name: str, number: int, epoch: int, topics: Sequence[FetchTopic] = (), forget: Sequence[int] = ()) -> int:
        gone = [ForgottenTopic(topic=topic, partitions=list(forget))] if forget else []
        request = FetchRequest(session_id=number, session_epoch=epoch, topics=list(topics), forgotten_topics_data=gone)
        return talk.ask(name, request, FetchResponse, version=NAMES_LAST).session_id

    number = ask("new session", 0, 0, names)
    ask("nothing new", number, 1, [FetchTopic(topic=topic, partitions=[_row(0, 2)])])
    ask("still nothing", number, 2)
    fill(talk, topic, 1, partition=1)
    ask("news of one", number, 3)
    ask("the same again, not moved on", number, 4)
    ask("old epoch", number, 3)
    ask("epoch too far", number, 9)
    ask("one more partition", number, 5, [FetchTopic(topic=topic, partitions=[_row(2)])])
    ask("one less", number, 6, forget=[1])
    fill(talk, topic, 1, partition=1)
    ask("forgotten one has news", number, 7)
    ask("an unknown one", number, 8, [FetchTopic(topic=topic, partitions=[_row(9)])])
    ask("an unknown one still", number, 9)
    ask("unknown session", 123_456_789, 1)
    ask("unknown session, full", 123_456_789, 0, names)
    ask("session ends", number, -1, names)
    ask("ended session", number, 10)
    ask("no session", 0, -1, names)
    ask("session 0 goes on", 0, 5, names)
    _sessions_by_id(talk, topic)


def _sessions_by_id(talk: Talk, topic: str) -> None:
    known = topic_id(talk, topic)
    rows = [FetchTopic(topic_id=known, partitions=[_row(0)]), FetchTopic(topic_id=NO_SUCH_ID, partitions=[_row(0)])]
    first = talk.ask("by id", FetchRequest(session_epoch=0, topics=rows), FetchResponse)
    for epoch in (1, 2):
        request = FetchRequest(session_id=first.session_id, session_epoch=epoch)
        talk.ask(f"by id, epoch {epoch}", request, FetchResponse)
    request = FetchRequest(session_id=first.session_id, session_epoch=3)
    talk.ask("by name in a session by id", request, FetchResponse, version=NAMES_LAST)


def places(talk: Talk) -> None:
    """Offsets by time and by name, ends of leader epochs, records deleted from the front."""
    topic = make_topic(talk, "places", 2)
    for at in (10, 20, 15, 40):
        fill(talk, topic, 1, data=batch(drafts=records(2, at_ms=TIME_MS + at)))
    marks = (LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING, -7, 0)
    for stamp in (*marks, *(TIME_MS + at for at in (0, 10, 11, 12, 16, 21, 22, 40, 41, 42))):
        shown = stamp if stamp <= 0 else f"+{stamp - TIME_MS}"
        talk.each_version(f"offset at {shown}", ListOffsetsResponse, _offsets(topic, stamp))
    for stamp in (LATEST, EARLIEST, MAX_TIMESTAMP, TIME_MS):
        talk.ask(f"empty partition at {stamp}", _offsets(topic, stamp, partition=1), ListOffsetsResponse)
        talk.ask(f"unknown partition at {stamp}", _offsets(topic, stamp, partition=5), ListOffsetsResponse)
        talk.ask(f"unknown topic at {stamp}", _offsets(talk.name("no"), stamp), ListOffsetsResponse)
        talk.ask(f"committed at {stamp}", _offsets(topic, stamp, isolation=1), ListOffsetsResponse)
    for epoch in (0, 1, -2):
        talk.ask(f"leader epoch {epoch}", _offsets(topic, LATEST, epoch=epoch), ListOffsetsResponse)
    twice = ListOffsetsRequest(
        replica_id=-1, topics=[*_offsets(topic, LATEST).topics, *_offsets(topic, EARLIEST).topics]
    )
    talk.ask("asked twice", twice, ListOffsetsResponse)
    _epochs(talk, topic)
    _front(talk, topic)


def _offsets(topic: str, stamp: int, *, partition: int = 0, isolation: int = 0, epoch: int = -1) -> ListOffsetsRequest:
    row = ListOffsetsPartition(partition_index=partition, timestamp=stamp, current_leader_epoch=epoch)
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=topic, partitions=[row])],
        timeout_ms=5000,
    )


def _epochs(talk: Talk, topic: str) -> None:
    for leader, current in ((0, -1), (0, 0), (1, 0), (-1, 0), (5, 5), (0, 1), (-5, -1)):
        row = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=leader)
        gone = OffsetForLeaderPartition(partition=9, leader_epoch=leader)
        topics = [OffsetForLeaderTopic(topic=topic, partitions=[row, gone])]
        topics.append(OffsetForLeaderTopic(topic=talk.name("no"), partitions=[row]))
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)
        talk.each_version(f"end of epoch {leader} at {current}", OffsetForLeaderEpochResponse, request)


def _front(talk: Talk, topic: str) -> None:
    for version, offset in zip(talk.common(DeleteRecordsResponse), (1, 2, 3), strict=True):
        talk.ask(f"delete before {offset}", _deletion(topic, offset), DeleteRecordsResponse, version=version)
    for offset in (3, 2, 0, -2, 99, 8, -1, -1):
        talk.ask(f"delete before {offset}", _deletion(topic, offset), DeleteRecordsResponse)
    talk.ask("delete in an unknown partition", _deletion(topic, 1, 9), DeleteRecordsResponse)
    talk.ask("delete in an unknown topic", _deletion(talk.name("no"), 1), DeleteRecordsResponse)
    compacted = make_topic(talk, "kept", config={"cleanup.policy": "compact"})
    fill(talk, compacted, 1)
    talk.ask("delete in a compacted topic", _deletion(compacted, 1), DeleteRecordsResponse)
    talk.ask("delete in an internal topic", _deletion("__consumer_offsets", 0), DeleteRecordsResponse)
    fetch(talk, "from before the front", topic)
    for stamp in (EARLIEST, LATEST, MAX_TIMESTAMP, TIME_MS):
        talk.ask(f"after deletion, offset at {stamp}", _offsets(topic, stamp), ListOffsetsResponse)
    _epochs_again(talk, topic)


def _epochs_again(talk: Talk, topic: str) -> None:
    row = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[row])])
    talk.ask("end of epoch 0 after deletion", request, OffsetForLeaderEpochResponse)


def _deletion(topic: str, offset: int, partition: int = 0) -> DeleteRecordsRequest:
    row = DeleteRecordsPartition(partition_index=partition, offset=offset)
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[row])], timeout_ms=5000)


SCRIPTS = {"fetching": fetching, "sessions": sessions, "places": places}
