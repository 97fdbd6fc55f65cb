"""A transaction as the driver of a Spark query runs it; the tasks write with the identity that `begin` gives.

    transaction = TransactionClient(cluster, "orders-pipeline", timeout_ms=300_000)
    identity = transaction.begin(deadline)                   # fences every earlier owner
    transaction.add_partitions(targets, deadline)            # then tasks call send_batches(producer=identity)
    transaction.commit_offsets("orders-pipeline", offsets, deadline)
    transaction.end(deadline, commit=True)

Keeps: E3 an unknown outcome of the end is asked for again, then reported as unknown, never guessed.
Why:   this is version 1 of the transaction protocol, which brokers of version 2 serve too: partitions are added by the
       driver before anything is written, and the end leaves the producer epoch as it was. In version 2 every end brings
       a new epoch and the first write adds its partition, which only works when one process does both. So requests stay
       below the versions that switch a broker over: EndTxn 5, TxnOffsetCommit 5, Produce 12.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from semel.errors import BrokerError, ConfigError, ConnectionFailure, FencedError, Outcome, OutcomeUnknownError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from semel.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from semel.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from semel.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from semel.wire.cluster import CoordinatorKind, WireCluster
from semel.wire.coordinators import Request, ask_coordinator
from semel.wire.deadline import Deadline
from semel.wire.group_offsets import CommittedOffset, committed_offsets
from semel.wire.leaders import by_topic
from semel.wire.send_queue import ProducerIdentity
from semel.wire.topology import TopicPartition

INIT_PRODUCER_ID_VERSION_MAX = 5
# From version 4 on only brokers may ask.
ADD_PARTITIONS_VERSION_MAX = 3
TXN_OFFSET_COMMIT_VERSION_MIN = 3  # the first that says which generation commits: none
TXN_OFFSET_COMMIT_VERSION_MAX = 4
END_TXN_VERSION_MAX = 4


class TransactionClient:
    """One transactional id; the first `begin` fences the one who used it before."""

    def __init__(self, cluster: WireCluster, transactional_id: str, *, timeout_ms: int) -> None:
        """`timeout_ms`: after that long the broker aborts a transaction by itself."""
        if not transactional_id:
            raise ConfigError("a transaction needs a transactional id")
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self.transactional_id = transactional_id
        self.identity: ProducerIdentity | None = None
        self._added = False
        self._commit_asked = False
        self._ended: bool | None = None

    @property
    def outcome(self) -> bool | None:
        """Whether the last transaction was committed, as far as this client knows by itself.

        One that is still open counts as aborted: the next `begin` aborts it.
        """
        if self._added:
            return None if self._commit_asked else False
        return self._ended

    def begin(self, deadline: Deadline, *, new_owner: bool = False) -> ProducerIdentity:
        """Take a new producer epoch: fences every earlier owner and aborts what it left open.

        The first call takes over unconditionally. Later ones send the producer id and epoch of the last (KIP-360): when
        somebody newer took over meanwhile they are refused with FencedError, instead of fencing the newer one.
        `new_owner` takes over unconditionally again, which is right after our own transaction timed out.
        """
        mine = None if new_owner else self.identity
        message = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=mine.producer_id if mine else -1,
            producer_epoch=mine.producer_epoch if mine else -1,
        )
        answer = ask_coordinator(
            self._cluster,
            Request(
                kind=CoordinatorKind.TRANSACTION,
                key=self.transactional_id,
                message=message,
                response=InitProducerIdResponse,
                codes=lambda answer: [answer.error_code],
                what=f"taking over transactional id {self.transactional_id!r}",
                version_max=INIT_PRODUCER_ID_VERSION_MAX,
            ),
            deadline,
        )
        # Not before there is an answer: until then the last transaction ended as it did.
        self._added = self._commit_asked = False
        self._ended = None
        self.identity = ProducerIdentity(
            producer_id=answer.producer_id,
            producer_epoch=answer.producer_epoch,
            transactional_id=self.transactional_id,
        )
        return self.identity

    def _require_identity(self) -> ProducerIdentity:
        if self.identity is None:
            raise ConfigError("the transaction has not been started", you_want="transaction.begin(deadline) first")
        return self.identity

    def add_partitions(self, partitions: Collection[TopicPartition], deadline: Deadline) -> None:
        """Make partitions part of the transaction, before anything is written to them."""
        identity = self._require_identity()
        for partition in partitions:
            self._cluster.leader(partition, deadline)  # asked here, a wrong name fails at once
        if not partitions:
            return
        message = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=numbers)
                for topic, numbers in by_topic(partitions).items()
            ],
        )
        # Before the request leaves: if its answer is lost, there may be something to abort.
        self._added = True
        ask_coordinator(
            self._cluster,
            Request(
                kind=CoordinatorKind.TRANSACTION,
                key=self.transactional_id,
                message=message,
                response=AddPartitionsToTxnResponse,
                codes=_add_codes,
                what=f"adding partitions to transaction {self.transactional_id!r}",
                version_max=ADD_PARTITIONS_VERSION_MAX,
            ),
            deadline,
        )

    def commit_offsets(
        self, group: str, offsets: Mapping[TopicPartition, CommittedOffset], deadline: Deadline
    ) -> dict[TopicPartition, CommittedOffset]:
        """Make a group's offsets part of the transaction; gives what the group has committed before.

        Why: a coordinator that was replaced without knowing it answers questions from an old memory, but nobody copies
        what it writes, so it takes no offsets. The one that took them knows everything that was committed before.
        """
        while True:
            if offsets:
                self.add_group(group, deadline)
                self._add_offsets(group, offsets, deadline)
            asked = self._cluster.coordinator(CoordinatorKind.GROUP, group, deadline)
            before = committed_offsets(self._cluster, group, deadline=deadline, require_stable=False)
            # If the coordinator moved in between, the answer may come from another
            # one than took the offsets: once more.
            if self._cluster.coordinator(CoordinatorKind.GROUP, group, deadline) == asked:
                return before

    def add_group(self, group: str, deadline: Deadline) -> None:
        """Make a group part of the transaction, before offsets of it are."""
        identity = self._require_identity()
        message = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            group_id=group,
        )
        # As for partitions: from here on there may be something to abort.
        self._added = True
        ask_coordinator(
            self._cluster,
            Request(
                kind=CoordinatorKind.TRANSACTION,
                key=self.transactional_id,
                message=message,
                response=AddOffsetsToTxnResponse,
                codes=lambda answer: [answer.error_code],
                what=f"adding group {group!r} to transaction {self.transactional_id!r}",
            ),
            deadline,
        )

    def _add_offsets(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset], deadline: Deadline) -> None:
        ask_coordinator(
            self._cluster,
            Request(
                kind=CoordinatorKind.GROUP,
                key=group,
                message=_offsets_message(self._require_identity(), group, offsets),
                response=TxnOffsetCommitResponse,
                codes=lambda answer: [row.error_code for topic in answer.topics for row in topic.partitions],
                what=f"committing offsets of group {group!r} in transaction {self.transactional_id!r}",
                version_min=TXN_OFFSET_COMMIT_VERSION_MIN,
                version_max=TXN_OFFSET_COMMIT_VERSION_MAX,
            ),
            deadline,
        )

    def ledger(
        self, group: str, deadline: Deadline, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """Read what the group has committed; waits for transactions that are being ended.

        Ask after `begin`, or name the partitions: of a first commit that is still open, a broker that is asked for all
        partitions says nothing at all.
        """
        return committed_offsets(self._cluster, group, partitions, deadline=deadline, require_stable=True)

    def end(self, deadline: Deadline, *, commit: bool) -> None:
        """Commit or abort; nothing is sent when nothing was added.

        Asking twice is harmless. OutcomeUnknownError when no answer came by the deadline: read the ledger. FencedError
        with outcome UNKNOWN when an earlier attempt had no answer and a newer owner has taken over since.
        """
        self._require_identity()
        if not self._added:
            return
        try:
            self._ask_for_end(deadline, commit=commit)
        # Its outcome is right already: `ask_coordinator` knows whether an earlier attempt had no answer.
        except FencedError:
            raise
        except BrokerError as error:
            if commit or self._commit_asked or error.code != ErrorCode.INVALID_TXN_STATE:
                raise self._unknown_if_lost(error, commit=commit) from None
            # Nothing was ever added on the broker's side, so there is nothing to abort.
        except ConnectionFailure as error:
            raise self._unknown_if_lost(error, commit=commit) from None
        self._added, self._ended = False, commit

    def _ask_for_end(self, deadline: Deadline, *, commit: bool) -> None:
        identity = self._require_identity()
        # A commit that was asked for once may have happened, whatever is asked for later.
        self._commit_asked |= commit
        message = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            committed=commit,
        )
        ask_coordinator(
            self._cluster,
            Request(
                kind=CoordinatorKind.TRANSACTION,
                key=self.transactional_id,
                message=message,
                response=EndTxnResponse,
                codes=lambda answer: [answer.error_code],
                what=f"{'committing' if commit else 'aborting'} transaction {self.transactional_id!r}",
                version_max=END_TXN_VERSION_MAX,
            ),
            deadline,
        )

    def _unknown_if_lost(self, error: BrokerError | ConnectionFailure, *, commit: bool) -> Exception:
        if error.outcome is not Outcome.UNKNOWN:
            return error
        return OutcomeUnknownError(
            f"no answer says whether transaction {self.transactional_id!r} was {'committed' if commit else 'aborted'}",
            because=error.summary,
            next_command="begin a new transaction: that ends this one, and then the ledger says which rows are there",
        )


def _add_codes(answer: AddPartitionsToTxnResponse) -> list[int]:
    return [
        row.partition_error_code for topic in answer.results_by_topic_v3_and_below for row in topic.results_by_partition
    ]


def _offsets_message(
    identity: ProducerIdentity, group: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> TxnOffsetCommitRequest:
    topics = [
        TxnOffsetCommitRequestTopic(
            name=topic,
            partitions=[_offset_row(number, offsets[TopicPartition(topic, number)]) for number in numbers],
        )
        for topic, numbers in by_topic(offsets).items()
    ]
    return TxnOffsetCommitRequest(
        transactional_id=identity.transactional_id or "",
        group_id=group,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        topics=topics,
    )


def _offset_row(number: int, offset: CommittedOffset) -> TxnOffsetCommitRequestPartition:
    return TxnOffsetCommitRequestPartition(
        partition_index=number,
        committed_offset=offset.offset_next,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )
