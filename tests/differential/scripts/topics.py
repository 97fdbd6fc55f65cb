"""Topics: Metadata, CreateTopics, DeleteTopics, CreatePartitions, DescribeTopicPartitions, ElectLeaders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from semel.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from semel.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from semel.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from semel.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from semel.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from semel.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.differential.acts import await_partitions, make_topic, new_topic, topic_id
from tests.differential.talk import Talk

NO_SUCH_ID = UUID(int=0x1234_5678)
BAD_NAMES = ("", ".", "..", "a b", "a/b", "ü", "x" * 250)
NAMES_FIRST_NULLABLE = 10


def metadata(talk: Talk) -> None:
    """Known, unknown and misnamed topics in every version; all topics; by id; made on demand."""
    topic = make_topic(talk, "orders", 3)
    talk.each_version("a topic", MetadataResponse, _by_name(topic))
    talk.each_version("all topics", MetadataResponse, lambda version: MetadataRequest(topics=None if version else []))
    talk.each_version("no topics", MetadataResponse, MetadataRequest(topics=[]))
    for version in talk.common(MetadataResponse)[4:]:
        request = _by_name(topic, talk.name("no"), talk.name("no"))
        talk.ask("one there, one not, asked twice", request, MetadataResponse, version=version)
    for version in talk.common(MetadataResponse)[4:]:
        made = talk.name(f"made-{version}")
        talk.ask("made on demand", _by_name(made, create=True), MetadataResponse, version=version)
        await_partitions(talk, made, 1)
        talk.ask("made before", _by_name(made), MetadataResponse, version=version)
    for bad in BAD_NAMES:
        talk.ask(f"bad name {bad[:5]!r}", _by_name(bad), MetadataResponse)
        talk.ask(f"bad name {bad[:5]!r}, made on demand", _by_name(bad, create=True), MetadataResponse)
    for asked in (topic_id(talk, topic), NO_SUCH_ID, None):
        row = MetadataRequestTopic(topic_id=asked, name=None)
        shown = "own" if asked not in (NO_SUCH_ID, None) else asked
        talk.ask(f"by id {shown}", MetadataRequest(topics=[row], allow_auto_topic_creation=False), MetadataResponse)
    both = MetadataRequestTopic(topic_id=topic_id(talk, topic), name=topic)
    talk.ask("by id and name", MetadataRequest(topics=[both]), MetadataResponse)
    for version in talk.common(MetadataResponse)[8:]:
        request = _by_name(topic)
        request.include_topic_authorized_operations = request.include_cluster_authorized_operations = True
        talk.ask("what is authorized", request, MetadataResponse, version=version)


def _by_name(*topics: str, create: bool = False) -> MetadataRequest:
    rows = [MetadataRequestTopic(name=topic) for topic in topics]
    return MetadataRequest(topics=rows, allow_auto_topic_creation=create)


def creation(talk: Talk) -> None:
    """Good and bad topics."""
    for version in talk.common(CreateTopicsResponse):
        good = talk.name(f"good-{version}")
        own = {"retention.ms": "60000", "cleanup.policy": "compact"}
        _create(talk, "good", new_topic(good, 2, config=own), version=version)
        _create(talk, "exists", new_topic(good), version=version)
        _create(talk, "only checked", new_topic(talk.name(f"checked-{version}"), 2), version=version, check=True)
        await_partitions(talk, good, 2)
    for bad in BAD_NAMES:
        _create(talk, f"bad name {bad[:5]!r}", new_topic(bad))
    for count in (0, -2, -1):
        _create(talk, f"{count} partitions", new_topic(talk.name(f"count{count}"), count))
    for factor in (0, -2, -1, 2, 100):
        _create(talk, f"factor {factor}", new_topic(talk.name(f"factor{factor}"), 1, factor))
    for number, config in enumerate(BAD_CONFIGS):
        _create(talk, f"settings {config}", new_topic(talk.name(f"config{number}"), config=config))
    twice = talk.name("twice")
    _create(talk, "named twice", new_topic(twice), new_topic(twice), new_topic(talk.name("once")))
    _create(talk, "collides", new_topic(talk.name("a.b")))
    _create(talk, "collides too", new_topic(talk.name("a_b")))
    _create(talk, "good and bad", new_topic(talk.name("mixed")), new_topic(talk.name("mixed bad")))
    _create(talk, "none")
    for number, assignments in enumerate(ASSIGNMENTS):
        _create(talk, f"assigned {assignments}", _assigned(talk.name(f"assigned{number}"), assignments))
    topic = _assigned(talk.name("assigned-count"), {0: [1]})
    topic.num_partitions = 1
    _create(talk, "assigned and counted", topic)


BAD_CONFIGS: Sequence[Mapping[str, str | None]] = (
    {"no.such.setting": "1"},
    {"retention.ms": "soon"},
    {"retention.ms": "-2"},
    {"retention.ms": ""},
    {"retention.ms": None},
    {"cleanup.policy": "burn"},
    {"cleanup.policy": "compact,delete"},
    {"cleanup.policy": ""},
    {"min.insync.replicas": "0"},
    {"min.insync.replicas": "2"},
    {"segment.bytes": "1"},
    {"segment.bytes": "1048576"},
    {"internal.segment.bytes": "1000"},
    {"internal.segment.bytes": "1000", "segment.bytes": "1048576"},
    {"internal.segment.bytes": "soon"},
    {"max.message.bytes": "-1"},
    {"compression.type": "rar"},
    {"message.timestamp.type": "Never"},
    {"unclean.leader.election.enable": "maybe"},
    {"min.cleanable.dirty.ratio": "2"},
    {"segment.ms": "0"},
    {"message.format.version": "2.8"},
    {"max.compaction.lag.ms": "1", "min.compaction.lag.ms": "2"},
    {"message.timestamp.before.max.ms": "-1"},
)
ASSIGNMENTS: Sequence[Mapping[int, Sequence[int]]] = (
    {0: [1], 1: [1]},
    {0: [1], 2: [1]},
    {1: [1]},
    {0: []},
    {0: [1, 1]},
    {0: [7]},
    {0: [1], 1: []},
)


def _assigned(name: str, assignments: Mapping[int, Sequence[int]]) -> CreatableTopic:
    rows = [CreatableReplicaAssignment(partition_index=at, broker_ids=list(who)) for at, who in assignments.items()]
    return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=rows)


def _create(talk: Talk, name: str, *topics: CreatableTopic, version: int | None = None, check: bool = False) -> None:
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=check)
    talk.ask(f"create: {name}", request, CreateTopicsResponse, version=version)


def deletion(talk: Talk) -> None:
    """By name and by id; gone, unknown, twice."""
    for version in talk.common(DeleteTopicsResponse):
        topic = make_topic(talk, f"doomed-{version}")
        _delete(talk, "there", [topic], version)
        await_partitions(talk, topic, 0)
        _delete(talk, "gone", [topic], version)
    topic = make_topic(talk, "by-id")
    for name, row in (
        ("id", DeleteTopicState(topic_id=topic_id(talk, topic))),
        ("unknown id", DeleteTopicState(topic_id=NO_SUCH_ID)),
        ("neither", DeleteTopicState()),
        ("both", DeleteTopicState(name=topic, topic_id=NO_SUCH_ID)),
    ):
        talk.ask(f"delete by {name}", DeleteTopicsRequest(topics=[row], timeout_ms=10_000), DeleteTopicsResponse)
    topic = make_topic(talk, "twice-gone")
    _delete(talk, "named twice", [topic, topic], 5)
    rows = [DeleteTopicState(name=topic), DeleteTopicState(name=topic)]
    talk.ask("named twice", DeleteTopicsRequest(topics=rows, timeout_ms=10_000), DeleteTopicsResponse)
    for bad in BAD_NAMES:
        _delete(talk, f"bad name {bad[:5]!r}", [bad], 5)


def _delete(talk: Talk, name: str, topics: Sequence[str], version: int) -> None:
    rows = [DeleteTopicState(name=topic) for topic in topics]
    request = DeleteTopicsRequest(topics=rows, topic_names=list(topics), timeout_ms=10_000)
    talk.ask(f"delete: {name}", request, DeleteTopicsResponse, version=version)


def growth(talk: Talk) -> None:
    """More partitions."""
    topic = make_topic(talk, "grows", 2)
    for version in talk.common(CreatePartitionsResponse):
        _grow(talk, "by one", version, CreatePartitionsTopic(name=topic, count=3 + version, assignments=None))
        await_partitions(talk, topic, 3 + version)
    last = talk.common(CreatePartitionsResponse)[-1]
    for count in (-1, 0, 1, 6):
        _grow(talk, f"to {count}", last, CreatePartitionsTopic(name=topic, count=count, assignments=None))
    unknown = CreatePartitionsTopic(name=talk.name("none"), count=9, assignments=None)
    _grow(talk, "of a topic that is not there", last, unknown)
    row = CreatePartitionsTopic(name=topic, count=9, assignments=None)
    _grow(talk, "twice", last, row, row)
    for assignments in ([[1]], [[7]], [[1], [1]], [[1], [1], [1, 1]], [[1], [1], []], []):
        rows = [CreatePartitionsAssignment(broker_ids=each) for each in assignments]
        row = CreatePartitionsTopic(name=topic, count=9, assignments=rows)
        _grow(talk, f"assigned {assignments}", last, row)
    _grow(talk, "only checked", last, CreatePartitionsTopic(name=topic, count=9, assignments=None), check=True)
    _grow(talk, "only checked, bad", last, unknown, check=True)


def _grow(talk: Talk, name: str, version: int, *topics: CreatePartitionsTopic, check: bool = False) -> None:
    request = CreatePartitionsRequest(topics=list(topics), timeout_ms=10_000, validate_only=check)
    talk.ask(f"grow {name}", request, CreatePartitionsResponse, version=version)


def description(talk: Talk) -> None:
    """DescribeTopicPartitions and ElectLeaders."""
    topic, other = make_topic(talk, "described", 3), make_topic(talk, "described-too", 2)
    missing = talk.name("described-not")
    for limit in (1, 2, 4, 2000, 0, -1):
        _describe(talk, f"limit {limit}", [topic, other], limit=limit)
    _describe(talk, "unknown", [missing, topic])
    _describe(talk, "bad name", ["a b"])
    _describe(talk, "twice", [topic, topic])
    for cursor in (Cursor(topic_name=topic, partition_index=1), Cursor(topic_name=other, partition_index=0)):
        _describe(talk, f"from {cursor.topic_name} {cursor.partition_index}", [topic, other], cursor=cursor)
    _describe(talk, "from an unknown topic", [topic], cursor=Cursor(topic_name=missing, partition_index=0))
    _describe(talk, "from below zero", [topic], cursor=Cursor(topic_name=topic, partition_index=-1))
    _describe(talk, "from far behind", [topic], cursor=Cursor(topic_name=topic, partition_index=9))
    for kind in (0, 1, 2):
        rows = [TopicPartitions(topic=topic, partitions=[0, 9]), TopicPartitions(topic=missing, partitions=[0])]
        for version in talk.common(ElectLeadersResponse):
            request = ElectLeadersRequest(election_type=kind, topic_partitions=rows, timeout_ms=10_000)
            if version or not kind:
                talk.ask(f"elect, type {kind}", request, ElectLeadersResponse, version=version)


def _describe(talk: Talk, name: str, topics: Sequence[str], *, limit: int = 2000, cursor: Cursor | None = None) -> None:
    rows = [TopicRequest(name=topic) for topic in topics]
    request = DescribeTopicPartitionsRequest(topics=rows, response_partition_limit=limit, cursor=cursor)
    talk.ask(f"describe partitions: {name}", request, DescribeTopicPartitionsResponse)


SCRIPTS = {
    "metadata": metadata,
    "creation": creation,
    "deletion": deletion,
    "growth": growth,
    "description": description,
}
