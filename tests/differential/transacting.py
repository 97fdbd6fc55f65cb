"""What scripts about transactions do: one transactional id, its producer, and each request it can send."""

from __future__ import annotations

from dataclasses import dataclass

from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from semel.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from semel.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from semel.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from semel.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.protocol.messages.produce import ProduceResponse
from semel.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.differential.acts import batch, produce_request, topic_id, transaction_state
from tests.differential.talk import Talk

TIMEOUT_MS = 60_000
OLD_ADD, OLD_END, NEW_END, OLD_PRODUCE, NEW_PRODUCE = 3, 4, 5, 11, 12
INIT_VERSION = 5
BATCHED_ADD_FIRST = 4
Producer = tuple[int, int]
NOT_YET = (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


@dataclass(slots=True)
class Actor:
    """One transactional id as a client holds it; `producer` is what it believes in."""

    talk: Talk
    transactional_id: str
    topic: str
    group: str
    producer: Producer = (-1, -1)
    sequence: int = 0

    def init(
        self,
        name: str,
        *,
        expected: Producer = (-1, -1),
        timeout_ms: int = TIMEOUT_MS,
        version: int = INIT_VERSION,
    ) -> InitProducerIdResponse:
        """InitProducerId, recorded; the producer is not taken over."""
        request = self.init_request(expected, timeout_ms)
        return self.talk.ask(name, request, InitProducerIdResponse, version=version)

    def init_request(self, expected: Producer = (-1, -1), timeout_ms: int = TIMEOUT_MS) -> InitProducerIdRequest:
        """Its InitProducerId."""
        return InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
        )

    def start(self, timeout_ms: int = TIMEOUT_MS) -> None:
        """Become the owner, without recording."""
        self.talk.until(lambda: self._started(timeout_ms), f"an owner of {self.transactional_id}")

    def _started(self, timeout_ms: int) -> bool:
        answer = self.talk.peek(self.init_request(timeout_ms=timeout_ms), InitProducerIdResponse)
        self.producer, self.sequence = (answer.producer_id, answer.producer_epoch), 0
        assert answer.error_code in NOT_YET, answer
        return not answer.error_code

    def add(self, name: str, version: int = OLD_ADD, *, partition: int = 0, verify: bool = False) -> None:
        """AddPartitionsToTxn."""
        request = self.add_request(partition, verify=verify)
        self.talk.ask(name, request, AddPartitionsToTxnResponse, version=version)

    def add_request(self, partition: int = 0, *, verify: bool = False) -> AddPartitionsToTxnRequest:
        """Its AddPartitionsToTxn, in the forms of old and new versions."""
        topics = [AddPartitionsToTxnTopic(name=self.topic, partitions=[partition])]
        row = AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            verify_only=verify,
            topics=topics,
        )
        return AddPartitionsToTxnRequest(
            transactions=[row],
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer[0],
            v3_and_below_producer_epoch=self.producer[1],
            v3_and_below_topics=topics,
        )

    def add_offsets(self, name: str, version: int) -> None:
        """AddOffsetsToTxn."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            group_id=self.group,
        )
        self.talk.ask(name, request, AddOffsetsToTxnResponse, version=version)

    def commit_offsets(self, name: str, version: int, member: tuple[str, int] = ("", -1)) -> None:
        """TxnOffsetCommit."""
        row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=self.group,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            member_id=member[0],
            generation_id=member[1],
            topics=[TxnOffsetCommitRequestTopic(name=self.topic, partitions=[row])],
        )
        self.talk.ask(name, request, TxnOffsetCommitResponse, version=version)

    def end(self, name: str, version: int, *, commit: bool) -> EndTxnResponse:
        """EndTxn; returns when the markers are written."""
        answer = self.talk.ask(name, self.end_request(commit=commit), EndTxnResponse, version=version)
        self.settle()
        return answer

    def end_request(self, *, commit: bool) -> EndTxnRequest:
        """Its EndTxn."""
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            committed=commit,
        )

    def write(self, name: str, version: int, *, partition: int = 0) -> ProduceResponse:
        """Produce a transactional batch, recorded."""
        request = produce_request(
            self.topic,
            batch(producer=self.producer, sequence=self.sequence, transactional=True),
            partition=partition,
            transactional_id=self.transactional_id,
            id=topic_id(self.talk, self.topic),
        )
        return self.talk.ask(name, request, ProduceResponse, version=version)

    def open(self, version: int = NEW_PRODUCE) -> None:
        """Begin a transaction with one record, without recording."""
        if version <= OLD_PRODUCE:
            self.talk.peek(self.add_request(), AddPartitionsToTxnResponse, version=OLD_ADD)
        data = batch(producer=self.producer, sequence=self.sequence, transactional=True)
        request = produce_request(self.topic, data, transactional_id=self.transactional_id)
        answer = self.talk.peek(request, ProduceResponse, version=version).responses[0].partition_responses[0]
        assert not answer.error_code, answer
        self.sequence += 1

    def finish(self, version: int, *, commit: bool) -> None:
        """End the transaction and wait, without recording; a new producer epoch is taken over."""
        answer = self.talk.peek(self.end_request(commit=commit), EndTxnResponse, version=version)
        assert not answer.error_code, answer
        if version >= NEW_END:
            self.producer, self.sequence = (answer.producer_id, answer.producer_epoch), 0
        self.settle()

    def settle(self) -> None:
        """Wait until no marker is under way: how long that takes is nobody's promise."""
        self.talk.until(
            lambda: not transaction_state(self.talk, self.transactional_id).startswith("Prepare"),
            f"markers of {self.transactional_id}",
        )

    def describe(self, name: str) -> None:
        """DescribeTransactions."""
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        self.talk.ask(name, request, DescribeTransactionsResponse)
