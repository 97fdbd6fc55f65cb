"""Micro-batches without rows, as the driver's half of the sink commits them: all about the ledger, no Spark."""

from __future__ import annotations

from semel.engine.embedded import Cluster
from semel.guarantee import Guarantee
from semel.sinks.base import MicroBatch
from semel.sinks.kafka import KafkaOutput, KafkaSession
from semel.sinks.ledger import Plan, plan_micro_batch
from semel.wire.topology import TopicPartition


def open_session(cluster: Cluster, name: str, **more: str) -> KafkaSession:
    """A driver whose pipeline, source and output have one name, and who does not wait long for a silent broker."""
    options = {"kafka.bootstrap.servers": cluster.bootstrap, "kafka.request.timeout.ms": "1000", **more}
    return KafkaOutput(options, name).open(name)


def empty_micro_batch(session: KafkaSession, number: int) -> MicroBatch:
    """One that reads a record of the source's first partition."""
    source = TopicPartition(session.pipeline, 0)
    return MicroBatch(
        pipeline=session.pipeline,
        query_id="one",
        id=number,
        guarantee=Guarantee.EXACTLY_ONCE,
        offsets={source: number + 1},
        offsets_before={source: number},
        is_replay=False,
    )


def run_empty(session: KafkaSession, number: int) -> Plan:
    """Commit one, in the order of the real ones."""
    micro_batch = empty_micro_batch(session, number)
    session.own()
    plan = plan_micro_batch(session.read_ledger(micro_batch), micro_batch)
    if plan is Plan.RUN:
        session.add_offsets(micro_batch)
        session.commit()
    return plan
