"""Micro-batches without rows, as the driver's half of the sink commits them: all about the ledger, no Spark."""

from __future__ import annotations

from semel.engine.embedded import Cluster
from semel.guarantee import Guarantee
from semel.sinks.base import MicroBatch, Run
from semel.sinks.kafka.session import KafkaSession
from semel.sinks.kafka.sink import KafkaOutput
from semel.sinks.recovery import Plan
from semel.sinks.run_ids import run_query_id
from semel.wire.topology import TopicPartition


def open_session(cluster: Cluster, name: str, *outputs: str, **more: str) -> KafkaSession:
    """A driver whose pipeline, source and first output have one name; it does not wait long for a silent broker."""
    options = {"kafka.bootstrap.servers": cluster.bootstrap, "kafka.request.timeout.ms": "1000", **more}
    return KafkaOutput(options, topics=[name, *outputs]).open(name)


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
    session.read_ledger(micro_batch)
    decision = session.decide(micro_batch, is_stateful=False, checkpoint="")
    if decision.error is not None:
        raise decision.error
    if decision.action is Plan.RUN:
        session.write_ledger(micro_batch)
        session.commit()
    return decision.action


def empty_run(session: KafkaSession, run_id: str) -> MicroBatch:
    """A batch job without rows."""
    run = Run(id=run_id)
    return MicroBatch(
        pipeline=session.pipeline,
        query_id=run_query_id(run),
        id=0,
        guarantee=Guarantee.EXACTLY_ONCE,
        offsets=None,
        run=run,
    )


def write_run(session: KafkaSession, run_id: str) -> Plan:
    """Commit one, in the order of the real ones."""
    job = empty_run(session, run_id)
    session.prepare_run(job)
    session.own()
    session.read_ledger(job)
    plan = session.plan_run(job)
    if plan is Plan.RUN:
        session.write_ledger(job)
        session.commit()
    return plan
