"""An idempotent producer that is moved batch by batch: the test chooses every sequence number."""

from __future__ import annotations

import time
from collections.abc import Callable

from semel.engine.embedded import Cluster
from semel.protocol.compression import Codec
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.protocol.messages.produce import PartitionProduceResponse
from semel.protocol.record_batch import DraftRecord, encode_batch
from tests.support.stored import append_batch
from tests.support.wire import Wire

# Recent: a broker forgets a producer whose records are older than a day.
TIME_MS = time.time_ns() // 1_000_000


def new_producer_id(cluster: Cluster) -> int:
    """Ask the cluster for a producer id."""
    with Wire.to_broker(cluster) as wire:
        answer = wire.ask(InitProducerIdRequest(transactional_id=None), InitProducerIdResponse, version=4)
    assert answer.error_code == ErrorCode.NONE, answer
    return answer.producer_id


class RawProducer:
    """Sends batches with its producer id; keeps no count of its own."""

    def __init__(self, cluster: Cluster, topic: str, *, producer_id: int | None = None) -> None:
        """Take a new producer id, unless told; -1 is a plain producer."""
        self._cluster, self._topic = cluster, topic
        self.producer_id = new_producer_id(cluster) if producer_id is None else producer_id

    def send(
        self,
        sequence: int,
        count: int = 1,
        *,
        partition: int = 0,
        codec: Codec = Codec.NONE,
        change: Callable[[bytes], bytes] = bytes,
    ) -> PartitionProduceResponse:
        """Send one batch whose records have these sequence numbers; `change` may alter its bytes."""
        records = [
            DraftRecord(key=b"%d" % (sequence + number), value=b"v" * 50, timestamp_ms=TIME_MS)
            for number in range(count)
        ]
        batch = encode_batch(
            records,
            codec=codec,
            producer_id=self.producer_id,
            producer_epoch=-1 if self.producer_id < 0 else 0,
            base_sequence=-1 if self.producer_id < 0 else sequence,
        )
        return append_batch(self._cluster, self._topic, change(batch), partition=partition)
