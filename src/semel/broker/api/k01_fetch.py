"""Fetch (key 1, v4-17): read batches, waiting for new ones when there are too few.

Keeps:    B8 a reader never gets anything at or above the high watermark (read_committed: the last stable offset); a
          follower gets everything.
Differs:  docs/DIFFERENCES.md#k01
Versions: v4 isolation level; v5 log start offset; v7 sessions; v9 leader epoch; v11 rack; v12 first flexible;
          v13 topic ids; v15 replica state; v16 leader endpoints; v17 replica directory.
Sources:  KIP-74, KIP-98, KIP-227, KIP-320, KIP-516, KIP-951.

Size rules: whole batches up to the partition's and the request's limit, except that the first partition with data
gives at least one batch however large it is, so that a reader always gets on.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from semel.broker.log.types import EpochEnd, LogSlice, ReadRefused
from semel.broker.metadata.acls import Operation, Resource
from semel.broker.network.context import INTERNAL, Context
from semel.broker.network.fetch_session import NO_SESSION, FetchPlan, Remembered, TopicKey
from semel.broker.network.registry import api
from semel.broker.replication.partition import READ_COMMITTED, Partition, Waiter
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ReplicaState,
    SnapshotId,
)

# Shared by all answers, which replace them whole: a fetch of many partitions makes many rows.
NO_DIVERGENCE, NO_LEADER, NO_SNAPSHOT = EpochEndOffset(), LeaderIdAndEpoch(), SnapshotId()

Found = tuple[TopicKey, Remembered, Partition | None]
Row = tuple[TopicKey, Remembered, PartitionData]


def refuse(request: FetchRequest, code: ErrorCode) -> FetchResponse:
    """Answer with this error for the whole request, and for each partition named in it."""
    return FetchResponse(
        error_code=code,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[_refused(partition.partition, code) for partition in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def _refused(index: int, code: ErrorCode) -> PartitionData:
    return PartitionData(partition_index=index, error_code=code, high_watermark=-1, aborted_transactions=None)


@api(FetchRequest, FetchResponse, first=4, last=17, refuse=refuse)
async def answer(context: Context, request: FetchRequest) -> FetchResponse:
    """Read every partition of the request or its session; wait once if that is too little."""
    plan = context.fetch_sessions.plan_fetch(request, context.version)
    # The session is lost or out of step, so nothing is read: the client begins again with a full fetch.
    if plan.error_code:
        return FetchResponse(error_code=plan.error_code)
    deadline_ms = context.broker.world.clock.monotonic_ms() + request.max_wait_ms
    follower = _follower(context, request)
    found = await _find_all(context, plan)
    # What a follower asks for says what it has, so it counts before anything is waited for.
    if follower is not None:
        _note_progress(context, follower, found)
    # Once woken everything is read again: roles, high watermarks and topics may have changed meanwhile.
    while True:
        rows = await _read_all(context, request, found, is_follower=follower is not None)
        left_ms = deadline_ms - context.broker.world.clock.monotonic_ms()
        if left_ms <= 0 or _is_enough(rows, request.min_bytes):
            return _response(context, plan, rows)
        watched = [partition for *_, partition in found if partition is not None]
        await Waiter(watched, is_follower=follower is not None).wait(context.broker.world, left_ms)
        found = await _find_all(context, plan)


def _follower(context: Context, request: FetchRequest) -> ReplicaState | None:
    """The broker that copies; anybody else who gives a replica id is served as a consumer."""
    # A client that could pass for a follower would raise the high watermark over records that only the leader
    # has, and read what is not committed.
    is_broker = context.session.principal == INTERNAL and request.replica_state.replica_id >= 0
    return request.replica_state if is_broker else None


def _is_led_here(context: Context, partition: Partition) -> bool:
    """Whether it is still led here: that can change while a long list is read in parts."""
    return context.broker.partitions.get((partition.topic, partition.index)) is partition


def _note_progress(context: Context, follower: ReplicaState, found: list[Found]) -> None:
    """What a follower asks for says what it has, unless its log has parted from ours."""
    for _, row, partition in found:
        asked = row.asked
        if partition is None or not _is_led_here(context, partition):
            continue
        # A follower of another leader epoch may speak of records that were replaced since.
        if partition.check_leader_epoch(asked.current_leader_epoch):
            continue
        end = partition.log.offset_for_leader_epoch(asked.last_fetched_epoch)
        is_ours = asked.last_fetched_epoch < 0 or _is_prefix(end, asked.last_fetched_epoch, asked.fetch_offset)
        if is_ours and partition.log.log_start_offset <= asked.fetch_offset <= partition.log.log_end_offset:
            partition.note_fetch(follower.replica_id, follower.replica_epoch, asked.fetch_offset)


def _is_prefix(end: EpochEnd, last_fetched_epoch: int, fetch_offset: int) -> bool:
    return end.leader_epoch == last_fetched_epoch and end.offset_next >= fetch_offset


def _is_enough(rows: list[Row], min_bytes: int) -> bool:
    size = 0
    for _, _, data in rows:
        # An error is answered at once, and so is a log that parts: waiting would help nobody.
        if data.error_code or data.diverging_epoch.end_offset >= 0:
            return True
        size += _size(data)
    return size >= min_bytes


def _size(data: PartitionData) -> int:
    return data.records.size_bytes if isinstance(data.records, LogSlice) else 0


def _topic_name(context: Context, key: TopicKey) -> str | None:
    if isinstance(key, str):
        return key
    return context.broker.state.topic_names.get(key) if key is not None else None


async def _find_all(context: Context, plan: FetchPlan) -> list[Found]:
    """The partitions of a plan as they are now; None for one that this broker does not lead or must not show."""
    partitions = context.broker.partitions
    found: list[Found] = []
    for number, (key, row) in enumerate(plan.partitions):
        await context.pause_after(number)
        name = _topic_name(context, key)
        is_shown = name is not None and _may_read(context, name)
        found.append((key, row, partitions.get((name, row.asked.partition)) if name is not None and is_shown else None))
    return found


def _may_read(context: Context, topic: str) -> bool:
    return context.may(Operation.READ, Resource.TOPIC, topic)


async def _read_all(context: Context, request: FetchRequest, found: list[Found], *, is_follower: bool) -> list[Row]:
    # The client's limit and the broker's own (KIP-541), whichever is smaller.
    left_bytes = min(request.max_bytes, context.broker.settings.number("fetch.max.bytes"))
    rows: list[Row] = []
    first = True
    for number, (key, remembered, partition) in enumerate(found):
        await context.pause_after(number)
        if partition is None or not _is_led_here(context, partition):
            # One that is gone, led elsewhere or hidden is answered in its place: the
            # others of the request are still read.
            code = _missing(context, key, remembered.asked.partition)
            refused = _with_leader(context, key, _refused(remembered.asked.partition, code))
            refused.aborted_transactions = ()
            rows.append((key, remembered, refused))
            continue
        # A follower needs records before they are below the high watermark: its fetch is what raises it.
        limit = partition.log.log_end_offset if is_follower else partition.readable_to(request.isolation_level)
        data = _read(partition, remembered, request.isolation_level, limit, left_bytes, minimum_one_batch=first)
        if is_follower and data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            data.log_start_offset = partition.log.log_start_offset  # where it has to begin again
        size = _size(data)
        # Only the first partition with data may go over the limit, else every partition could.
        first = first and size == 0
        left_bytes = max(left_bytes - size, 0)
        rows.append((key, remembered, data))
    return rows


def _missing(context: Context, key: TopicKey, index: int) -> ErrorCode:
    name = _topic_name(context, key)
    if name is None:
        # Told before rights are looked at: a topic without a name cannot be asked about.
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not _may_read(context, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    known = context.broker.state.topics.get(name)
    if known is None or not 0 <= index < len(known.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NOT_LEADER_OR_FOLLOWER


def _read(
    partition: Partition, row: Remembered, isolation_level: int, limit: int, left_bytes: int, *, minimum_one_batch: bool
) -> PartitionData:
    asked, log = row.asked, partition.log
    wrong_epoch = partition.check_leader_epoch(asked.current_leader_epoch)
    if wrong_epoch:
        return _refused(asked.partition, wrong_epoch)
    data = PartitionData(
        partition_index=asked.partition,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        diverging_epoch=NO_DIVERGENCE,
        current_leader=NO_LEADER,
        snapshot_id=NO_SNAPSHOT,
        # Null tells a reader of uncommitted data that there is no such list.
        aborted_transactions=() if isolation_level == READ_COMMITTED else None,
    )
    # Before the check of the range: an offset beyond our end is no error if the logs part before it.
    if asked.last_fetched_epoch >= 0 and _diverged(partition, row, data):
        return data
    # Up to the log end, not the high watermark: a new leader may not know yet how far its predecessor let clients read.
    if not log.log_start_offset <= asked.fetch_offset <= log.log_end_offset:
        return _refused(asked.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
    size_max = min(asked.partition_max_bytes, left_bytes)
    if asked.fetch_offset >= limit or (size_max <= 0 and not minimum_one_batch):
        return data
    return _fill(partition, data, asked.fetch_offset, limit, size_max, minimum_one_batch=minimum_one_batch)


def _fill(
    partition: Partition, data: PartitionData, offset: int, limit: int, bytes_max: int, *, minimum_one_batch: bool
) -> PartitionData:
    try:
        piece = partition.log.read(offset, bytes_max=bytes_max, offset_limit=limit, minimum_one_batch=minimum_one_batch)
    except ReadRefused as refused:
        return _refused(data.partition_index, ErrorCode(refused.code))
    data.records = piece
    if data.aborted_transactions is not None and piece.size_bytes:
        data.aborted_transactions = [
            AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
            # Up to the limit and not to the end of the piece: an entry too many costs the client nothing.
            for aborted in partition.log.aborted_transactions(offset, limit)
        ]
    return data


def _diverged(partition: Partition, row: Remembered, data: PartitionData) -> bool:
    end = partition.log.offset_for_leader_epoch(row.asked.last_fetched_epoch)
    # We know nothing of so new an epoch, so we cannot say where the logs part.
    if end.offset_next < 0:
        data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        # As in every other row with an error.
        data.high_watermark = data.last_stable_offset = data.log_start_offset = -1
        return True
    if _is_prefix(end, row.asked.last_fetched_epoch, row.asked.fetch_offset):
        return False
    data.diverging_epoch = EpochEndOffset(epoch=end.leader_epoch, end_offset=end.offset_next)
    return True


def _response(context: Context, plan: FetchPlan, rows: list[Row]) -> FetchResponse:
    # An incremental answer leaves out what the client knows; partitions that are left out are unchanged.
    shown = [row for row in rows if not plan.incremental or _is_news(*row[1:])]
    for _, remembered, data in rows:
        # Of every row, also those that are left out: they are equal to what the client knows.
        remembered.high_watermark = data.high_watermark
        remembered.last_stable_offset = data.last_stable_offset
        remembered.log_start_offset = data.log_start_offset
    response = FetchResponse(
        session_id=plan.session.id if plan.session else NO_SESSION, responses=list(_by_topic(shown))
    )
    if context.version >= 16:
        # KIP-951: where the new leaders are, for partitions that moved.
        response.node_endpoints = _endpoints(context, {data.current_leader.leader_id for _, _, data in shown})
    return response


def _is_news(remembered: Remembered, data: PartitionData) -> bool:
    return (
        bool(data.error_code)
        or _size(data) > 0
        or data.diverging_epoch.end_offset >= 0
        or data.high_watermark != remembered.high_watermark
        or data.log_start_offset != remembered.log_start_offset
        or data.last_stable_offset != remembered.last_stable_offset
    )


def _by_topic(rows: list[Row]) -> Iterator[FetchableTopicResponse]:
    topics: dict[TopicKey, list[PartitionData]] = {}
    for key, _, data in rows:
        topics.setdefault(key, []).append(data)
    for key, partitions in topics.items():
        if isinstance(key, UUID) or key is None:
            yield FetchableTopicResponse(topic_id=key, partitions=partitions)
        else:
            yield FetchableTopicResponse(topic=key, partitions=partitions)


def _with_leader(context: Context, key: TopicKey, data: PartitionData) -> PartitionData:
    name = _topic_name(context, key)
    topic = context.broker.state.topics.get(name) if name is not None else None
    if topic is not None and data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        partition = topic.partitions[data.partition_index]
        data.current_leader = LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
    return data


def _endpoints(context: Context, leaders: set[int]) -> list[NodeEndpoint]:
    return [
        NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
        for node in context.broker.state.nodes
        if node.id in leaders
    ]
