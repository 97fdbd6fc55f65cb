"""Produce requests that no client library sends, but anybody can.

Keeps: T5 no partition has an open transaction that its coordinator does not know of.
"""

from semel.engine.embedded import Cluster
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.features.reading import visible
from tests.support.transactional import NEWER_PRODUCE, RawTransactions
from tests.support.wire import Wire

SETTINGS = {"transaction.state.log.num.partitions": "1", "transaction.state.log.replication.factor": "1"}


def test_batches_of_two_producers_are_not_verified_as_one() -> None:
    with Cluster(brokers=1, topics=["status:2"], config=SETTINGS) as cluster:
        known, other = (RawTransactions(cluster, name, newer=True) for name in ("known", "other"))
        assert (known.init(), other.init()) == (ErrorCode.NONE, ErrorCode.NONE)
        rows = [
            PartitionProduceData(index=index, records=memoryview(producer.batch("v", 0)))
            for index, producer in enumerate((known, other))
        ]
        request = ProduceRequest(
            transactional_id="known", acks=-1, topic_data=[TopicProduceData(name="status", partition_data=rows)]
        )
        with Wire.to_broker(cluster) as wire:
            answer = wire.ask(request, ProduceResponse, version=NEWER_PRODUCE)
        codes = [row.error_code for row in answer.responses[0].partition_responses]
        assert codes == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
        assert [visible(cluster, "status", index, committed=False) for index in range(2)] == [[], []]


def test_a_transactional_batch_without_a_transactional_id_is_refused() -> None:
    with Cluster(brokers=1, topics=["status:1"], config=SETTINGS) as cluster:
        raw = RawTransactions(cluster, "known", newer=True)
        raw.init()
        rows = [PartitionProduceData(index=0, records=memoryview(raw.batch("v", 0)))]
        request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="status", partition_data=rows)])
        with Wire.to_broker(cluster) as wire:
            answer = wire.ask(request, ProduceResponse, version=NEWER_PRODUCE)
        code = answer.responses[0].partition_responses[0].error_code
        assert code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert visible(cluster, "status", committed=False) == []
