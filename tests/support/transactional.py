"""A transactional producer made of raw requests, so that a test decides about every single one and its version."""

from __future__ import annotations

from semel.engine.embedded import Cluster
from semel.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from semel.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from semel.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from semel.protocol.record_batch import DraftRecord, encode_batch
from tests.features.reading import wire_to_coordinator
from tests.support.wire import Wire

OLDER_PRODUCE, NEWER_PRODUCE = 11, 12
OLDER_END, NEWER_END = 4, 5


class RawTransactions:
    """Version 1 or 2 of the transaction protocol; every call gives the error code."""

    def __init__(self, cluster: Cluster, transactional_id: str, *, newer: bool) -> None:
        """Find the coordinator."""
        self.cluster, self.transactional_id, self.newer = cluster, transactional_id, newer
        self.producer_id, self.epoch = -1, -1
        self.sequences: dict[tuple[str, int], int] = {}

    def init(self, timeout_ms: int = 60_000) -> int:
        """InitProducerId."""
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms)
        with wire_to_coordinator(self.cluster, self.transactional_id) as wire:
            answer = wire.ask(request, InitProducerIdResponse, version=4)
        self.producer_id, self.epoch, self.sequences = answer.producer_id, answer.producer_epoch, {}
        return answer.error_code

    def add(self, topic: str, partition: int = 0) -> int:
        """AddPartitionsToTxn of version 1."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
        )
        with wire_to_coordinator(self.cluster, self.transactional_id) as wire:
            answer = wire.ask(request, AddPartitionsToTxnResponse, version=3)
        return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code

    def batch(self, value: str, sequence: int, key: str | None = None) -> bytes:
        """A batch of one record."""
        return encode_batch(
            [DraftRecord(key=key.encode() if key else None, value=value.encode(), timestamp_ms=1_700_000_000_000)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )

    def send(self, topic: str, value: str, partition: int = 0, *, key: str | None = None) -> int:
        """Produce one record."""
        sequence = self.sequences.get((topic, partition), 0)
        self.sequences[topic, partition] = sequence + 1
        return self.send_batch(topic, self.batch(value, sequence, key), partition)

    def send_batch(self, topic: str, batch: bytes, partition: int = 0) -> int:
        """Produce these bytes."""
        data = PartitionProduceData(index=partition, records=memoryview(batch))
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        version = NEWER_PRODUCE if self.newer else OLDER_PRODUCE
        with Wire.to_leader(self.cluster, topic, partition) as wire:
            return wire.ask(request, ProduceResponse, version=version).responses[0].partition_responses[0].error_code

    def end_request(self, *, commit: bool) -> EndTxnRequest:
        """The EndTxn of now, to be sent whenever the test likes."""
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )

    def end(self, request: EndTxnRequest) -> int:
        """EndTxn; version 2 goes on with the producer id and epoch that it returns."""
        version = NEWER_END if self.newer else OLDER_END
        with wire_to_coordinator(self.cluster, self.transactional_id) as wire:
            answer = wire.ask(request, EndTxnResponse, version=version)
        if not answer.error_code and self.newer and answer.producer_epoch != self.epoch:
            self.producer_id, self.epoch, self.sequences = answer.producer_id, answer.producer_epoch, {}
        return answer.error_code
