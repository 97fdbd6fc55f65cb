"""OffsetCommit and TxnOffsetCommit: who may commit, and when it becomes visible.

Keeps: G6 a commit by an older generation, a fenced instance or a non-member is refused and never visible;
       G7 a commit that was answered without error is visible after any restart.
Sources: KIP-447 (fencing of commits in transactions), KIP-345 (fencing by group instance).
"""

from collections.abc import Iterable

from semel.broker.groups.classic.state import Group
from semel.broker.groups.classic.types import NO_MEMBER_ID, GroupState
from semel.broker.groups.consumer.refusals import error_for_commit as error_for_consumer_commit
from semel.broker.groups.core import AppendFate, GroupCore
from semel.broker.groups.offsets.types import (
    CommitRequest,
    CommitResponse,
    OffsetToCommit,
    PartitionResult,
    TxnCommitRequest,
)
from semel.broker.groups.records import TIMESTAMP_MS_MAX, OffsetKey, OffsetValue, fits_string, offset_record
from semel.broker.groups.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from semel.protocol.error_codes import ErrorCode

COMMIT_VERSION_GROUP_ID_NOT_FOUND = 9


class Commits:
    """Judges commits, and applies them when their records are durable."""

    def __init__(self, core: GroupCore) -> None:
        """Work on the shared state."""
        self._core = core

    def commit(self, token: int, request: CommitRequest) -> None:
        """OffsetCommit."""
        error_code = self._error_for_commit(request)
        if error_code is not ErrorCode.NONE:
            self._core.answer(token, _refused(request.offsets, error_code))
            return
        if self._core.consumer_group(request.group_id) is None:
            self._keep_session(self._core.group(request.group_id), request.member_id)
        # Only old clients (up to version 4) say how long an offset is kept.
        expire_timestamp_ms: int | None = None
        if request.retention_ms >= 0:  # a client may mean "for ever" by a number that no time can be added to
            expire_timestamp_ms = min(self._core.now_ms + request.retention_ms, TIMESTAMP_MS_MAX)
        self._store(token, request, expire_timestamp_ms)

    def _keep_session(self, group: Group, member_id: str) -> None:
        """A commit proves a member of a classic group alive as well as a heartbeat does."""
        member = group.members.get(member_id)
        if member is not None:
            self._core.keep_session(group, member.member_id, member.session_timeout_ms)

    def commit_in_transaction(self, token: int, request: TxnCommitRequest) -> None:
        """TxnOffsetCommit."""
        error_code = self._core.error_for_group_id(request.group_id)
        if error_code is ErrorCode.NONE:
            error_code = self._error_for_commit(request)
        if error_code is not ErrorCode.NONE:
            self._core.answer(token, _refused(request.offsets, error_code))
            return
        if self._core.consumer_group(request.group_id) is None:
            self._core.group(request.group_id)
        self._store(token, request, None)

    def _error_for_commit(self, request: CommitRequest | TxnCommitRequest) -> ErrorCode:
        group = self._core.groups.get(request.group_id)
        if not fits_string(request.group_id):
            return ErrorCode.INVALID_GROUP_ID
        consumer = self._core.consumer_group(request.group_id)
        if consumer is not None:
            return error_for_consumer_commit(consumer, request, self._core.cluster())
        if group is None:
            return _error_for_unknown_group(request)
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        # A consumer that assigns its partitions itself has no generation and no member id.
        if group.state is GroupState.EMPTY and request.generation < 0:
            return ErrorCode.NONE
        return _error_for_owner(group, request)

    def _store(self, token: int, request: CommitRequest | TxnCommitRequest, expire_timestamp_ms: int | None) -> None:
        results = tuple(self._judge(offset) for offset in request.offsets)
        accepted = {
            OffsetKey(group_id=request.group_id, topic=offset.topic, partition=offset.partition): OffsetValue(
                offset_next=offset.offset_next,
                leader_epoch=offset.leader_epoch,
                metadata=offset.metadata,
                commit_timestamp_ms=self._core.now_ms,
                expire_timestamp_ms=expire_timestamp_ms,
            )
            for offset, result in zip(request.offsets, results, strict=True)
            if result.error_code is ErrorCode.NONE
        }
        if accepted:
            self._append(token, request, results, accepted)
        else:
            self._core.answer(token, CommitResponse(results=results))

    def _judge(self, offset: OffsetToCommit) -> PartitionResult:
        # In characters, as Apache Kafka compares it, whatever the name of the setting says.
        is_large = len(offset.metadata) > self._core.settings.offset_metadata_bytes_max
        if is_large or not fits_string(offset.metadata):
            return _result(offset, ErrorCode.OFFSET_METADATA_TOO_LARGE)
        return _result(offset, ErrorCode.NONE if fits_string(offset.topic) else ErrorCode.INVALID_TOPIC_EXCEPTION)

    def _append(
        self,
        token: int,
        request: CommitRequest | TxnCommitRequest,
        results: tuple[PartitionResult, ...],
        accepted: dict[OffsetKey, OffsetValue],
    ) -> None:
        offsets = self._core.offsets
        producer_id = request.producer_id if isinstance(request, TxnCommitRequest) else NO_PRODUCER_ID
        producer_epoch = request.producer_epoch if isinstance(request, TxnCommitRequest) else NO_PRODUCER_EPOCH
        txn = offsets.start_transactional(producer_id) if isinstance(request, TxnCommitRequest) else None

        def apply(fate: AppendFate) -> None:
            # First, whatever became of it: from here on nothing is on its way any more.
            offsets.finish(accepted)
            if txn is not None:
                offsets.drop_transactional(txn)
            if fate.is_durable and txn is not None:
                offsets.finish_transactional(txn, accepted, fate.base_offset)
            elif fate.is_durable:
                offsets.put_all(accepted, fate.base_offset)

        def answer(error_code: ErrorCode) -> None:
            failed = _refused(request.offsets, error_code)
            self._core.answer(token, CommitResponse(results=results) if error_code is ErrorCode.NONE else failed)

        offsets.start(accepted)
        self._core.append(
            request.group_id,
            tuple(offset_record(key, value) for key, value in accepted.items()),
            apply=apply,
            answer=answer,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )


def _error_for_unknown_group(request: CommitRequest | TxnCommitRequest) -> ErrorCode:
    if request.generation < 0:
        return ErrorCode.NONE
    is_told = isinstance(request, CommitRequest) and request.api_version >= COMMIT_VERSION_GROUP_ID_NOT_FOUND
    # Either makes a member join again; clients before version 9 do not know the first (KIP-848).
    return ErrorCode.GROUP_ID_NOT_FOUND if is_told else ErrorCode.ILLEGAL_GENERATION


def _error_for_owner(group: Group, request: CommitRequest | TxnCommitRequest) -> ErrorCode:
    """Check that the commit comes from a member of the current generation.

    A transaction of a client from before KIP-447 names no member and is let through, as Kafka does.
    """
    is_transactional = isinstance(request, TxnCommitRequest)
    names_member = request.member_id != NO_MEMBER_ID or request.group_instance_id is not None
    if request.generation < 0 and not names_member:
        return ErrorCode.NONE if is_transactional else ErrorCode.UNKNOWN_MEMBER_ID
    error_code = group.error_for_member(request.member_id, request.group_instance_id)
    if error_code is not ErrorCode.NONE:
        return error_code
    if request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    # While members join, commits pass: they commit what they have read before they
    # join again. In the sync phase the partitions may belong to others already.
    is_syncing = group.state is GroupState.COMPLETING_REBALANCE
    return ErrorCode.REBALANCE_IN_PROGRESS if is_syncing and not is_transactional else ErrorCode.NONE


def _result(offset: OffsetToCommit, error_code: ErrorCode) -> PartitionResult:
    return PartitionResult(topic=offset.topic, partition=offset.partition, error_code=error_code)


def _refused(offsets: Iterable[OffsetToCommit], error_code: ErrorCode) -> CommitResponse:
    return CommitResponse(results=tuple(_result(offset, error_code) for offset in offsets))
