"""TxnOffsetCommit (key 28, v0-5): commit a group's offsets as part of a transaction.

Keeps:    T6 offsets of a transaction become visible with its commit and not before.
Differs:  docs/DIFFERENCES.md#k28
Versions: v2 leader epoch; v3 first flexible, fencing by group generation and member; v4 abortable errors; v5 the
          offsets join the transaction implicitly.
Sources:  KIP-98, KIP-447, KIP-890.
"""

from __future__ import annotations

from semel.broker.groups.offsets.types import CommitResponse, OffsetToCommit, TxnCommitRequest
from semel.broker.groups.shell import CoordinatorPartition
from semel.broker.metadata.cluster_state import GROUP_TOPIC, PartitionKey
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.transactions.types import Producer
from semel.broker.transactions.verification import Support, verify
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

Codes = dict[tuple[str, int], ErrorCode]


def refuse(request: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    """Answer with this error for every partition."""
    return _response(request, {}, code)


def _response(request: TxnOffsetCommitRequest, codes: Codes, other: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=row.partition_index,
                        error_code=codes.get((topic.name, row.partition_index), other),
                    )
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@api(TxnOffsetCommitRequest, TxnOffsetCommitResponse, first=0, last=5, refuse=refuse)
async def answer(context: Context, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    """Check with the transaction's coordinator, then write the offsets as part of the transaction."""
    if not request.group_id:
        return refuse(request, ErrorCode.INVALID_GROUP_ID)
    codes: Codes = {}
    offsets = tuple(_known_offsets(context, request, codes))
    coordinator = context.broker.groups.find(request.group_id)
    # Partitions that do not exist keep their own error; the others get the coordinator's.
    if isinstance(coordinator, ErrorCode):
        return _response(request, codes, coordinator)
    if offsets:
        codes |= await _commit(context, request, coordinator, offsets)
    return _response(request, codes, ErrorCode.NONE)


def _known_offsets(context: Context, request: TxnOffsetCommitRequest, codes: Codes) -> list[OffsetToCommit]:
    offsets = []
    for topic in request.topics:
        known = context.broker.state.topics.get(topic.name)
        for row in topic.partitions:
            if known is None or not 0 <= row.partition_index < len(known.partitions):
                codes[topic.name, row.partition_index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            offset = OffsetToCommit(
                topic=topic.name,
                partition=row.partition_index,
                offset_next=row.committed_offset,
                leader_epoch=row.committed_leader_epoch,
                metadata=row.committed_metadata or "",
            )
            offsets.append(offset)
    return offsets


async def _commit(
    context: Context,
    request: TxnOffsetCommitRequest,
    coordinator: CoordinatorPartition,
    offsets: tuple[OffsetToCommit, ...],
) -> Codes:
    wanted = [(offset.topic, offset.partition) for offset in offsets]
    # In the name of the partition of `__consumer_offsets`: the marker goes there, not to the partitions read.
    code = await _verify(context, request, coordinator)
    if code:
        return dict.fromkeys(wanted, code)
    commit = TxnCommitRequest(
        group_id=request.group_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        generation=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        offsets=offsets,
    )
    result = await coordinator.ask(
        lambda core, token, now_ms: core.commit_offsets_in_transaction(token, commit, now_ms)
    )
    assert isinstance(result, CommitResponse)
    return {(row.topic, row.partition): row.error_code for row in result.results}


async def _verify(context: Context, request: TxnOffsetCommitRequest, coordinator: CoordinatorPartition) -> ErrorCode:
    # `Support` numbers the two older levels 0 and 1, so the comparison picks one of them.
    support = Support.IMPLICIT_ADD if context.version >= 5 else Support(context.version == 4)
    partition = (GROUP_TOPIC, coordinator.index)
    producer = Producer(request.producer_id, request.producer_epoch)

    def begin() -> list[PartitionKey]:
        # Nothing to verify once the transaction has written here: its coordinator knows the partition.
        return [partition] if coordinator.begin_verification(*producer) else []

    codes = await verify(context.broker, request.transactional_id, producer, begin, support)
    return _for_client(codes.get(partition, ErrorCode.NONE), support)


def _for_client(code: ErrorCode, support: Support) -> ErrorCode:
    if code in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_COORDINATOR):
        # A code that clients of every version retry.
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and support is not Support.IMPLICIT_ADD:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if code is ErrorCode.TRANSACTION_ABORTABLE and support is Support.DEFAULT_ERRORS:
        # Clients from before KIP-890 do not know TRANSACTION_ABORTABLE.
        return ErrorCode.INVALID_TXN_STATE
    return code
