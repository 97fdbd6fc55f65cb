"""Settings of topics and brokers, the cluster, its folders, ApiVersions."""

from __future__ import annotations

from collections.abc import Sequence

from semel.broker.metadata.config import BROKER_KEYS
from semel.protocol.message import decode_at
from semel.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from semel.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from semel.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from semel.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from semel.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from semel.protocol.messages.incremental_alter_configs import AlterableConfig as Change
from semel.protocol.messages.incremental_alter_configs import AlterConfigsResource as ChangedResource
from semel.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from semel.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from semel.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from tests.differential.acts import fill, make_topic
from tests.differential.talk import Talk

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
API_VERSIONS = 18


def versions(talk: Talk) -> None:
    """ApiVersions, and what an unknown version of it gets."""
    request = ApiVersionsRequest(client_software_name="wire", client_software_version="1")
    talk.each_version("versions", ApiVersionsResponse, request)
    for name, version in (("", ""), ("a b", "1"), ("-x", "1"), ("wire", "!")):
        bad = ApiVersionsRequest(client_software_name=name, client_software_version=version)
        talk.ask(f"software {name!r} {version!r}", bad, ApiVersionsResponse)
    talk.hang_up()
    frame = talk.wire().ask_raw(API_VERSIONS, 99, b"\0\5wire\x021\0")
    unknown, end = decode_at(ApiVersionsResponse, frame[4:], 0)
    talk.record(
        "unknown version",
        ApiVersionsResponse,
        {
            "error_code": unknown.error_code,
            "own range": [
                (row.min_version, row.max_version) for row in unknown.api_keys if row.api_key == API_VERSIONS
            ],
            "other ranges": len(unknown.api_keys) > 1,
            "bytes left": len(frame) - 4 - end,
        },
    )


def described(talk: Talk) -> None:
    """DescribeConfigs."""
    topic = make_topic(talk, "described", config={"retention.ms": "60000", "cleanup.policy": "compact"})
    for synonyms in (False, True):
        talk.each_version(
            f"topic, synonyms {synonyms}",
            DescribeConfigsResponse,
            _describe((TOPIC, topic), synonyms=synonyms),
        )
    request = _describe((TOPIC, topic), keys=["retention.ms", "no.such"])
    request.include_documentation = True
    talk.ask("two keys with documentation", request, DescribeConfigsResponse)
    talk.ask("no keys", _describe((TOPIC, topic), keys=[]), DescribeConfigsResponse)
    for kind, name in (
        (TOPIC, talk.name("no")),
        (TOPIC, "a b"),
        (TOPIC, ""),
        (BROKER, "7"),
        (BROKER, "x"),
        (LOGGER, "1"),
        (METRICS, "m"),
        (GROUP, "g"),
        (77, "x"),
        (0, "x"),
    ):
        talk.ask(f"resource {kind} {name}", _describe((kind, name)), DescribeConfigsResponse)
    for name in ("1", ""):
        request = _describe((BROKER, name), keys=list(BROKER_KEYS), synonyms=True)
        talk.ask(f"broker {name!r}", request, DescribeConfigsResponse)
    talk.ask("twice", _describe((TOPIC, topic), (TOPIC, topic), keys=["retention.ms"]), DescribeConfigsResponse)


def _describe(
    *resources: tuple[int, str], keys: Sequence[str] | None = None, synonyms: bool = False
) -> DescribeConfigsRequest:
    rows = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        for kind, name in resources
    ]
    return DescribeConfigsRequest(resources=rows, include_synonyms=synonyms)


def altered(talk: Talk) -> None:
    """AlterConfigs replaces, IncrementalAlterConfigs changes."""
    topic = make_topic(talk, "altered", config={"segment.ms": "1000000"})
    for version in talk.common(AlterConfigsResponse):
        _alter(talk, "a topic", (TOPIC, topic), {"retention.ms": str(1000 + version)}, version)
        _shown(talk, topic, "retention.ms", str(1000 + version))
    wrong: Sequence[tuple[str, tuple[int, str], dict[str, str | None]]] = (
        ("unknown topic", (TOPIC, talk.name("no")), {"retention.ms": "1"}),
        ("bad name", (TOPIC, "a b"), {"retention.ms": "1"}),
        ("unknown key", (TOPIC, topic), {"no.such": "1"}),
        ("bad value", (TOPIC, topic), {"retention.ms": "soon"}),
        ("null value", (TOPIC, topic), {"retention.ms": None}),
        ("broker, fixed key", (BROKER, "1"), {"node.id": "4"}),
        ("unknown broker", (BROKER, "9"), {"log.retention.ms": "1"}),
        ("bad broker", (BROKER, "x"), {"log.retention.ms": "1"}),
        ("unknown type", (77, "x"), {"a": "1"}),
        ("logger", (LOGGER, "1"), {"a": "INFO"}),
    )
    for name, resource, values in wrong:
        _alter(talk, name, resource, values)
    told: Sequence[tuple[str, tuple[int, str], Sequence[tuple[str, int, str | None]]]] = (
        ("set", (TOPIC, topic), [("max.message.bytes", SET, "1000")]),
        ("delete", (TOPIC, topic), [("max.message.bytes", DELETE, None)]),
        ("delete what is not set", (TOPIC, topic), [("segment.ms", DELETE, None)]),
        ("append", (TOPIC, topic), [("cleanup.policy", APPEND, "compact")]),
        ("append again", (TOPIC, topic), [("cleanup.policy", APPEND, "compact")]),
        ("subtract", (TOPIC, topic), [("cleanup.policy", SUBTRACT, "compact")]),
        ("append to no list", (TOPIC, topic), [("retention.ms", APPEND, "5")]),
        ("set null", (TOPIC, topic), [("retention.ms", SET, None)]),
        ("unknown operation", (TOPIC, topic), [("retention.ms", 9, "5")]),
        ("one key twice", (TOPIC, topic), [("retention.ms", SET, "5"), ("retention.ms", SET, "6")]),
        ("unknown key", (TOPIC, topic), [("no.such", SET, "5")]),
        ("delete an unknown key", (TOPIC, topic), [("no.such", DELETE, None)]),
        ("bad value", (TOPIC, topic), [("retention.ms", SET, "soon")]),
        ("unknown topic", (TOPIC, talk.name("no")), [("retention.ms", SET, "5")]),
        ("nothing", (TOPIC, topic), []),
        ("unknown broker", (BROKER, "9"), [("log.retention.ms", SET, "5")]),
        ("bad broker", (BROKER, "x"), [("log.retention.ms", SET, "5")]),
        ("broker, fixed key", (BROKER, "1"), [("node.id", SET, "5")]),
        ("broker, bad value", (BROKER, "1"), [("log.retention.ms", SET, "soon")]),
        ("unknown type", (77, "x"), [("a", SET, "5")]),
        ("group", (GROUP, ""), [("consumer.session.timeout.ms", SET, "50000")]),
    )
    for name, resource, changes in told:
        for check in (True, False):
            _change(talk, f"{name}{', only checked' if check else ''}", resource, changes, check=check)
    _change_broker(talk, topic)


def _change_broker(talk: Talk, topic: str) -> None:
    """A default of all brokers, one of this broker, and what the topic and the broker then show."""
    _change(talk, "all brokers", (BROKER, ""), [("log.cleaner.min.compaction.lag.ms", SET, "7")])
    _shown(talk, topic, "min.compaction.lag.ms", "7")
    _change(talk, "one broker", (BROKER, "1"), [("log.cleaner.min.compaction.lag.ms", SET, "8")])
    _shown(talk, topic, "min.compaction.lag.ms", "8")
    request = _describe((TOPIC, topic), keys=["min.compaction.lag.ms"], synonyms=True)
    talk.ask("the topic then", request, DescribeConfigsResponse)
    for name in ("1", ""):
        request = _describe((BROKER, name), keys=["log.cleaner.min.compaction.lag.ms"], synonyms=True)
        talk.ask(f"broker {name!r} then", request, DescribeConfigsResponse)
    for name, shown in (("1", "7"), ("", "0")):
        _change(talk, f"taken back {name!r}", (BROKER, name), [("log.cleaner.min.compaction.lag.ms", DELETE, None)])
        _shown(talk, topic, "min.compaction.lag.ms", shown)


def _alter(
    talk: Talk, name: str, resource: tuple[int, str], values: dict[str, str | None], version: int | None = None
) -> None:
    rows = [AlterableConfig(name=key, value=value) for key, value in values.items()]
    whole = AlterConfigsResource(resource_type=resource[0], resource_name=resource[1], configs=rows)
    for check in (True, False):
        request = AlterConfigsRequest(resources=[whole], validate_only=check)
        talk.ask(f"alter {name}, check {check}", request, AlterConfigsResponse, version=version)


def _change(
    talk: Talk,
    name: str,
    resource: tuple[int, str],
    changes: Sequence[tuple[str, int, str | None]],
    *,
    check: bool = False,
) -> None:
    rows = [Change(name=key, config_operation=operation, value=value) for key, operation, value in changes]
    whole = ChangedResource(resource_type=resource[0], resource_name=resource[1], configs=rows)
    request = IncrementalAlterConfigsRequest(resources=[whole], validate_only=check)
    talk.ask(f"change {name}", request, IncrementalAlterConfigsResponse)


def _shown(talk: Talk, topic: str, key: str, value: str) -> None:
    def shown() -> bool:
        answer = talk.peek(_describe((TOPIC, topic), keys=[key]), DescribeConfigsResponse)
        return answer.results[0].configs[0].value == value

    talk.until(shown, f"{key}={value}")


def cluster(talk: Talk) -> None:
    """DescribeCluster, DescribeLogDirs, ListConfigResources, ListPartitionReassignments."""
    topic = make_topic(talk, "stored", 2)
    fill(talk, topic, 1)
    talk.each_version("cluster", DescribeClusterResponse, DescribeClusterRequest())
    for kind in (1, 2, 3, 0):
        request = DescribeClusterRequest(endpoint_type=kind, include_cluster_authorized_operations=True)
        talk.ask(f"cluster, endpoint {kind}", request, DescribeClusterResponse)
    fenced = DescribeClusterRequest(include_fenced_brokers=True)
    talk.ask("cluster with fenced brokers", fenced, DescribeClusterResponse)
    talk.each_version("folders", DescribeLogDirsResponse, _folders(topic, [0, 1]))
    for name, asked in ((topic, [0, 9]), (talk.name("no"), [0]), (topic, [])):
        talk.ask(f"folders of {name} {asked}", _folders(name, asked), DescribeLogDirsResponse)
    talk.ask("no folders", DescribeLogDirsRequest(topics=[]), DescribeLogDirsResponse)
    for kinds in ([], [TOPIC], [BROKER], [LOGGER], [GROUP], [METRICS], [77], [TOPIC, BROKER]):
        talk.ask(f"resources {kinds}", ListConfigResourcesRequest(resource_types=kinds), ListConfigResourcesResponse)
    talk.ask("resources", ListConfigResourcesRequest(), ListConfigResourcesResponse, version=0)
    moved = [ListPartitionReassignmentsTopics(name=topic, partition_indexes=[0, 9])]
    for topics in (None, moved, []):
        moves = ListPartitionReassignmentsRequest(timeout_ms=5000, topics=topics)
        talk.ask(f"moves of {topics and topic}", moves, ListPartitionReassignmentsResponse)


def _folders(topic: str, partitions: Sequence[int]) -> DescribeLogDirsRequest:
    return DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=topic, partitions=list(partitions))])


SCRIPTS = {"versions": versions, "described": described, "altered": altered, "cluster": cluster}
