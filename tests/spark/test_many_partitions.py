"""The driver's half of a micro-batch over 100 and 1,000 partitions: the same requests.

Counted, not timed, so that it can be a test; `python -m bench.spark` has the times of whole triggers.
"""

import sys
from collections import Counter
from time import thread_time

import pytest

import semel
from semel.broker.runtime.intercept import Delay, Seen
from semel.guarantee import Guarantee
from semel.protocol.messages.init_producer_id import InitProducerIdRequest
from semel.protocol.messages.offset_fetch import OffsetFetchRequest
from semel.sinks.base import MicroBatch
from semel.sinks.kafka import session as sessions
from semel.sinks.kafka.session import KafkaSession
from semel.sinks.kafka.sink import KafkaOutput
from semel.wire.topology import TopicPartition
from tests.spark.sink_jobs import new_topics

MICRO_BATCHES = 5


def nth(session: KafkaSession, source: str, partitions: int, number: int) -> MicroBatch:
    """A micro-batch that reads a record of every partition."""
    return MicroBatch(
        pipeline=session.pipeline,
        query_id="one",
        id=number,
        guarantee=Guarantee.EXACTLY_ONCE,
        offsets={TopicPartition(source, index): number + 1 for index in range(partitions)},
    )


def commit(session: KafkaSession, micro_batch: MicroBatch) -> None:
    """What the driver asks of the brokers for one micro-batch."""
    session.own()
    session.read_ledger(micro_batch)
    session.begin()
    session.write_ledger(micro_batch)
    session.commit()


def measure(partitions: int) -> tuple[Counter[int], float]:
    """Requests by API key, and seconds of CPU, for a few micro-batches after the first."""
    with semel.Cluster(brokers=1, config={"log.retention.ms": "-1"}) as cluster:
        source, output = new_topics(cluster.bootstrap, partitions, partitions)
        session = KafkaOutput(cluster.bootstrap, output).open(f"many-{partitions}")
        commit(session, nth(session, source, partitions, 0))
        asked: Counter[int] = Counter()

        def count(seen: Seen) -> bool:
            asked[seen.api_key] += seen.client_id == "semel"
            return False

        hook = cluster.intercept(None, Delay(ms=0), times=None, where=count)
        began = thread_time()
        for number in range(1, MICRO_BATCHES + 1):
            commit(session, nth(session, source, partitions, number))
        seconds = thread_time() - began
        cluster.disarm(hook)
        assert set(session.read_ledger(nth(session, source, partitions, 0)).offsets.values()) == {MICRO_BATCHES + 1}
    return +asked, seconds


@pytest.mark.full
def test_requests_do_not_grow_with_partitions(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Looked at once a second, so how often depends on the machine.
    monkeypatch.setattr(sessions, "TARGETS_AGE_MS_MAX", 3_600_000)
    few, many = measure(100), measure(1_000)
    with capsys.disabled():
        sys.stdout.write(
            f"\ndriver, ms of CPU a micro-batch: 100 partitions {few[1] * 200:.1f}, 1,000 {many[1] * 200:.1f}\n"
        )
    for counted in (few[0], many[0]):
        # Asked again while the markers of the last transaction are on their way, which depends on the machine.
        del counted[InitProducerIdRequest.API_KEY]
        # What the ledger holds is asked before the rows, and again with the offsets (E11).
        assert counted.pop(OffsetFetchRequest.API_KEY) == 2 * MICRO_BATCHES
        assert set(counted.values()) == {MICRO_BATCHES}
    assert few[0] == many[0]
