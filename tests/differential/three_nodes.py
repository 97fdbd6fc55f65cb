"""Three brokers of either kind, and what a client sees of one partition while brokers die and come back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from semel.engine.apache import ApacheCluster
from semel.engine.embedded import Cluster
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Message
from semel.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from semel.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from semel.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from semel.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from semel.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from semel.protocol.record_batch import DraftRecord, encode_batch
from tests.support.waiting import eventually
from tests.support.wire import M, Wire

WAIT_S_MAX = 90.0
LATEST = -1
CONSUMER = -1  # who gives a broker's id instead is told Apache Kafka's log end, which consumers cannot read up to
CONFIG = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


class Trio(ABC):
    """Brokers 1, 2 and 3."""

    name: str
    addresses: dict[int, tuple[str, int]]

    @abstractmethod
    def kill(self, broker_id: int) -> None:
        """End one at once."""

    @abstractmethod
    def restart(self, broker_id: int) -> None:
        """Start it again."""

    @abstractmethod
    def pause(self, broker_id: int) -> None:
        """Stop one in place."""

    @abstractmethod
    def resume(self, broker_id: int) -> None:
        """Let it go on."""

    def ask(self, broker_id: int, request: Message, response: type[M], version: int) -> M:
        """Ask one broker."""
        with Wire(*self.addresses[broker_id]) as wire:
            return wire.ask(request, response, version=version)

    def create(self, topic: str, replicas: Sequence[int], **config: str) -> None:
        """One partition on these brokers, the first of which leads."""
        rows = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items()]
        assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)
        wanted = CreatableTopic(
            name=topic, num_partitions=-1, replication_factor=-1, assignments=[assignment], configs=rows
        )
        answer = self.ask(1, CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), CreateTopicsResponse, 7)
        assert answer.topics[0].error_code == ErrorCode.NONE, answer
        self.wait_for(topic, replicas[0], isr=replicas)

    def look(self, topic: str, ask: int) -> MetadataResponsePartition | None:
        """The partition as one broker describes it."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        found = self.ask(ask, request, MetadataResponse, 9).topics[0]
        return found.partitions[0] if found.partitions else None

    def wait_for(self, topic: str, leader: int, *, isr: Sequence[int], ask: int | None = None) -> None:
        """Wait until a broker says so, and until the leader serves."""

        def is_so() -> bool:
            try:
                seen = self.look(topic, ask or isr[0])
                if seen is None or seen.leader_id != leader:
                    return False
                # Without a leader Apache Kafka names who was in sync last as an eligible leader instead (KIP-966).
                is_insync = leader < 0 or sorted(seen.isr_nodes) == sorted(isr)
                return is_insync and (leader < 0 or self.end(topic, leader) >= 0)
            except (OSError, AssertionError):  # nobody listens, or the connection ended inside an answer
                return False

        eventually(is_so, WAIT_S_MAX, what=f"{self.name}: {topic} led by {leader} with {list(isr)} in sync")

    def produce(self, topic: str, to: int, *, acks: int, producer_id: int = -1) -> str:
        """Send one record, idempotent if a producer is named; the error's name."""
        draft = DraftRecord(key=None, value=b"paid", timestamp_ms=1_700_000_000_000)
        first = min(producer_id, 0)  # a producer without an id has neither an epoch nor a sequence
        batch = encode_batch([draft], producer_id=producer_id, producer_epoch=first, base_sequence=first)
        rows = [PartitionProduceData(index=0, records=memoryview(bytearray(batch)))]
        data = TopicProduceData(name=topic, partition_data=rows)
        answer = self.ask(to, ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=[data]), ProduceResponse, 9)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code).name

    def producers(self, topic: str, ask: int) -> tuple[str, list[int]]:
        """The producers that one broker knows of the partition."""
        rows = [TopicRequest(name=topic, partition_indexes=[0])]
        answer = self.ask(ask, DescribeProducersRequest(topics=rows), DescribeProducersResponse, 0)
        row = answer.topics[0].partitions[0]
        return ErrorCode(row.error_code).name, [producer.producer_id for producer in row.active_producers]

    def end(self, topic: str, to: int) -> int:
        """The offset up to which a consumer can read; below 0 while that is not known."""
        rows = [ListOffsetsPartition(partition_index=0, timestamp=LATEST)]
        request = ListOffsetsRequest(replica_id=CONSUMER, topics=[ListOffsetsTopic(name=topic, partitions=rows)])
        row = self.ask(to, request, ListOffsetsResponse, 6).topics[0].partitions[0]
        return row.offset if not row.error_code else -1


class EmbeddedTrio(Trio):
    """semel's."""

    name = "embedded"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.addresses = {node.id: (node.host, node.port) for node in cluster.core.nodes}

    def kill(self, broker_id: int) -> None:
        self._cluster.kill(broker_id)

    def restart(self, broker_id: int) -> None:
        self._cluster.restart(broker_id)

    def pause(self, broker_id: int) -> None:
        self._cluster.pause(broker_id)

    def resume(self, broker_id: int) -> None:
        self._cluster.resume(broker_id)


class ApacheTrio(Trio):
    """Apache Kafka's; each node is broker and controller, so that one of them may be gone at a time."""

    name = "apache"

    def __init__(self, cluster: ApacheCluster) -> None:
        self._cluster = cluster
        self.addresses = {node.id: ("127.0.0.1", node.port) for node in cluster.nodes}

    def kill(self, broker_id: int) -> None:
        self._cluster.kill_node(broker_id)

    def restart(self, broker_id: int) -> None:
        self._cluster.start_node(broker_id)

    def pause(self, broker_id: int) -> None:
        self._cluster.pause_node(broker_id)

    def resume(self, broker_id: int) -> None:
        self._cluster.resume_node(broker_id)
