"""A pipeline made without Spark: the sink's own driver half commits, the checkpoint is written as Spark writes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from semel.cli import main
from semel.engine.embedded import Cluster
from semel.guarantee import Guarantee
from semel.sinks.base import MicroBatch
from semel.sinks.kafka.evidence import topic_ids
from semel.sinks.kafka.ledger import read_ledger
from semel.sinks.kafka.session import KafkaSession
from semel.sinks.kafka.sink import KafkaOutput
from semel.sinks.ledger import Ledger
from semel.sinks.recovery import Decision
from semel.wire.cluster import WireCluster, shared_cluster
from semel.wire.group_offsets import committed_offsets
from semel.wire.settings import WireSettings
from semel.wire.topology import TopicPartition
from tests.support.checkpoints import QUERY, kafka_line, semel_line, write_checkpoint
from tests.support.recreating import recreate_topic

CLIENT_S_MAX = 30.0
PARTITIONS = 2
_numbers = count()


@dataclass(slots=True, kw_only=True)
class Staged:
    """Names, and what was done under them."""

    cluster: Cluster
    source: str
    output: str
    name: str
    folder: Path
    is_semel: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    """How clients connect, beside the address."""

    @classmethod
    def new(
        cls, cluster: Cluster, folder: Path, *, is_semel: bool = False, settings: Mapping[str, str] | None = None
    ) -> Staged:
        """Two new topics, and a name that nobody has."""
        number = next(_numbers)
        names = [f"staged-in-{number}", f"staged-out-{number}"]
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **(settings or {})})
        for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
            future.result(CLIENT_S_MAX)
        return cls(
            cluster=cluster,
            source=names[0],
            output=names[1],
            name=f"staged-{number}",
            folder=folder,
            is_semel=is_semel,
            settings=settings or {},
        )

    @classmethod
    def level(
        cls, cluster: Cluster, folder: Path, *, is_semel: bool = False, settings: Mapping[str, str] | None = None
    ) -> Staged:
        """Ten records in each partition, twice; both micro-batches are in the output and in the checkpoint."""
        made = cls.new(cluster, folder, is_semel=is_semel, settings=settings)
        for number in (0, 1):
            made.send(10)
            made.commit(number, 10 * (number + 1), 10 * number)
        made.save([10, 20], committed=1)
        return made

    @property
    def wire(self) -> WireCluster:
        return shared_cluster(WireSettings.from_options(self.options))

    @property
    def client(self) -> dict[str, str]:
        return {"bootstrap.servers": self.cluster.bootstrap, **self.settings}

    @property
    def options(self) -> dict[str, str]:
        return {f"kafka.{name}": value for name, value in self.client.items()}

    def at(self, offset: int) -> dict[TopicPartition, int]:
        return {TopicPartition(self.source, number): offset for number in range(PARTITIONS)}

    def send(self, how_many: int) -> None:
        """More input, in every partition."""
        client = Producer({**self.client, "linger.ms": 0})
        for number in range(how_many):
            for partition in range(PARTITIONS):
                client.produce(self.source, b"%d" % number, partition=partition)
        assert client.flush(CLIENT_S_MAX) == 0

    def recreate_source(self) -> None:
        """Delete the source topic and create it again."""
        recreate_topic(self.cluster.bootstrap, self.source, PARTITIONS)

    def micro_batch(self, number: int, end: int, begin: int, query_id: str = QUERY) -> MicroBatch:
        return MicroBatch(
            pipeline=self.name,
            query_id=query_id,
            id=number,
            guarantee=Guarantee.EXACTLY_ONCE,
            offsets=self.at(end),
            offsets_before=self.at(begin),
        )

    def session(self) -> KafkaSession:
        return KafkaOutput(self.options, self.output).open(self.name)

    def commit(self, number: int, end: int, begin: int) -> KafkaSession:
        """What the sink does with a micro-batch, without rows."""
        return self.commit_it(self.micro_batch(number, end, begin))

    def commit_it(self, micro_batch: MicroBatch) -> KafkaSession:
        session = self.session()
        self.decide(session, micro_batch)
        session.begin()
        session.write_ledger(micro_batch)
        session.commit()
        return session

    @staticmethod
    def decide(session: KafkaSession, micro_batch: MicroBatch, checkpoint: str = "") -> Decision:
        session.own()
        session.read_ledger(micro_batch)
        return session.decide(micro_batch, is_stateful=False, checkpoint=checkpoint)

    def save(self, ends: list[int], *, committed: int | None, pipeline: str | None = None, **options: Any) -> None:
        """Write the checkpoint: one entry for each end."""
        ids = topic_ids(self.wire, [self.source])
        lines = [
            semel_line(self.at(end), ids, self.at(0) if number == 0 else None)
            if self.is_semel
            else kafka_line(self.at(end))
            for number, end in enumerate(ends)
        ]
        name = self.name if pipeline is None else pipeline
        write_checkpoint(self.folder, lines, committed=committed, pipeline=name, **options)

    def ledger(self) -> Ledger:
        return read_ledger(self.name, self.committed())

    def committed(self) -> Mapping[TopicPartition, Any]:
        return committed_offsets(self.wire, self.name, deadline=self.wire.deadline())

    def snapshot(self) -> tuple[object, object]:
        """Everything that a command must not change before somebody agreed."""
        files = {str(path): path.read_bytes() for path in sorted(self.folder.rglob("*")) if path.is_file()}
        return dict(self.committed()), files

    # --- the command

    def arguments(self, verb: str, *more: str, name: str | None = None) -> list[str]:
        return ["pipeline", verb, name or self.name, "--bootstrap", self.cluster.bootstrap, *more]

    def run(self, verb: str, *more: str, name: str | None = None) -> int:
        return main(self.arguments(verb, *more, name=name))

    def status(self, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict[str, Any]]:
        """The status as JSON, with the checkpoint."""
        capsys.readouterr()
        code = self.run("status", "--checkpoint", str(self.folder), "--format", "json", *more)
        told: dict[str, Any] = json.loads(capsys.readouterr().out)
        return code, told
