"""Output partitions that are added while a driver runs are used by its next micro-batches."""

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from semel.engine.embedded import Cluster
from semel.sinks.kafka import session as sessions
from tests.wire.empty_micro_batches import open_session


def add_partitions(cluster: Cluster, topic: str, total: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.create_partitions([NewPartitions(topic, total)]).values():
        future.result(30)


def test_partitions_that_are_added_later(cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "TARGETS_AGE_MS_MAX", 0)
    session = open_session(cluster, topic)
    assert session.targets.total == 6
    add_partitions(cluster, topic, 9)
    session.own()
    assert session.targets.total == 9


def test_they_are_not_looked_for_at_every_micro_batch(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "TARGETS_AGE_MS_MAX", 3_600_000)
    session = open_session(cluster, topic)
    add_partitions(cluster, topic, 9)
    session.own()
    assert session.targets.total == 6
