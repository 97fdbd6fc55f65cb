"""Settings of topics and brokers over the wire: what is shown, what can be changed, what is refused."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from semel.broker.controller.config_changes import ConfigOperation, ResourceType
from semel.broker.metadata.config_view import Source
from semel.engine.embedded import Cluster
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages import alter_configs as legacy
from semel.protocol.messages import incremental_alter_configs as incremental
from semel.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from semel.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from tests.support.topics import create_topic
from tests.support.wire import Wire

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
Rows = Sequence[tuple[str, int, str | None]]
Outcome = tuple[int, str | None]


def describe_all(
    cluster: Cluster, kind: int, name: str, *, keys: Sequence[str] | None = None, version: int = 4
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    with Wire.to_broker(cluster) as wire:
        return wire.ask(request, DescribeConfigsResponse, version=version).results[0]


def describe(cluster: Cluster, kind: int, name: str, key: str) -> DescribeConfigsResourceResult:
    return describe_all(cluster, kind, name, keys=[key]).configs[0]


def change(cluster: Cluster, kind: int, name: str, rows: Rows, *, validate_only: bool = False) -> Outcome:
    configs = [incremental.AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in rows]
    resource = incremental.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    with Wire.to_broker(cluster) as wire:
        row = wire.ask(request, incremental.IncrementalAlterConfigsResponse).responses[0]
    assert (row.resource_type, row.resource_name) == (kind, name)
    return row.error_code, row.error_message


def replace(cluster: Cluster, kind: int, name: str, values: Mapping[str, str | None]) -> Outcome:
    configs = [legacy.AlterableConfig(name=key, value=value) for key, value in values.items()]
    resource = legacy.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    with Wire.to_broker(cluster) as wire:
        row = wire.ask(legacy.AlterConfigsRequest(resources=[resource]), legacy.AlterConfigsResponse).responses[0]
    return row.error_code, row.error_message


def own_settings(cluster: Cluster, topic: str) -> dict[str, str]:
    rows = describe_all(cluster, TOPIC, topic).configs
    return {row.name: row.value or "" for row in rows if row.config_source == Source.TOPIC}


def test_a_topic_shows_its_own_value_over_what_it_would_inherit(cluster: Cluster, name: str) -> None:
    create_topic(cluster, name, config={"retention.ms": "1000"})
    own = describe(cluster, TOPIC, name, "retention.ms")
    assert (own.value, own.config_source, own.config_type, own.read_only) == ("1000", Source.TOPIC, 5, False)
    places = [(row.name, row.value, row.source) for row in own.synonyms]
    assert places == [("retention.ms", "1000", 1), ("log.retention.ms", "604800000", 5)]
    inherited = describe(cluster, TOPIC, name, "cleanup.policy")
    assert (inherited.value, inherited.config_source, inherited.config_type) == ("delete", Source.DEFAULT, 7)


@pytest.mark.parametrize("version", range(1, 5))
def test_every_version_describes_a_broker(cluster: Cluster, version: int) -> None:
    rows = {row.name: row for row in describe_all(cluster, BROKER, "1", version=version).configs}
    given = rows["group.min.session.timeout.ms"]
    assert (given.value, given.config_source, given.read_only) == ("100", Source.STATIC_BROKER, True)
    assert not rows["log.retention.ms"].read_only


def test_no_keys_and_an_empty_list_both_ask_for_all(cluster: Cluster, name: str) -> None:
    create_topic(cluster, name)
    assert len(describe_all(cluster, TOPIC, name, keys=None).configs) > 20
    assert len(describe_all(cluster, TOPIC, name, keys=[]).configs) > 20
    assert [row.name for row in describe_all(cluster, TOPIC, name, keys=["segment.ms", "x"]).configs] == ["segment.ms"]


@pytest.mark.parametrize(
    ("kind", "resource", "code"),
    [
        (TOPIC, "no-such-topic", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (ResourceType.GROUP, "g", ErrorCode.INVALID_REQUEST),
        (99, "g", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_described_is_refused(cluster: Cluster, kind: int, resource: str, code: ErrorCode) -> None:
    result = describe_all(cluster, kind, resource)
    assert (result.error_code, result.configs, result.resource_name) == (code, [], resource)


def test_single_settings_are_set_and_deleted_and_the_others_stay(cluster: Cluster, name: str) -> None:
    create_topic(cluster, name, config={"segment.ms": "5000", "retention.ms": "1000"})
    rows: Rows = [("retention.ms", ConfigOperation.DELETE, None), ("max.message.bytes", ConfigOperation.SET, "2000")]
    assert change(cluster, TOPIC, name, rows) == (ErrorCode.NONE, None)
    assert own_settings(cluster, name) == {"segment.ms": "5000", "max.message.bytes": "2000"}
    brokers = cluster.core.brokers.values()
    (partition,) = (broker.partitions[name, 0] for broker in brokers if (name, 0) in broker.partitions)
    assert partition.log.config.batch_bytes_max == 2000


def test_segments_can_be_as_small_as_tests_of_kafka_make_them(cluster: Cluster, name: str) -> None:
    """Kafka's internal setting goes before segment.bytes, and is shown only where it was set."""
    key = "internal.segment.bytes"
    create_topic(cluster, name, config={key: "200", "segment.bytes": "1048576"})
    assert own_settings(cluster, name) == {key: "200", "segment.bytes": "1048576"}
    (partition,) = (
        broker.partitions[name, 0] for broker in cluster.core.brokers.values() if (name, 0) in broker.partitions
    )
    assert partition.log.config.segment_bytes_max == 200
    assert change(cluster, TOPIC, name, [(key, ConfigOperation.DELETE, None)]) == (ErrorCode.NONE, None)
    assert partition.log.config.segment_bytes_max == 1_048_576
    assert key not in {row.name for row in describe_all(cluster, TOPIC, name).configs}
    for value in ("soon", "0", "-1"):
        assert change(cluster, TOPIC, name, [(key, ConfigOperation.SET, value)])[0] == ErrorCode.INVALID_CONFIG
    assert partition.log.config.segment_bytes_max == 1_048_576


def test_a_list_is_appended_to_and_subtracted_from(cluster: Cluster, name: str) -> None:
    create_topic(cluster, name)
    for operation, word, value in (
        (ConfigOperation.APPEND, "compact", "delete,compact"),
        (ConfigOperation.APPEND, "compact", "delete,compact"),
        (ConfigOperation.SUBTRACT, "delete", "compact"),
    ):
        assert change(cluster, TOPIC, name, [("cleanup.policy", operation, word)])[0] == ErrorCode.NONE
        assert own_settings(cluster, name) == {"cleanup.policy": value}


def test_replacing_removes_what_is_not_named(cluster: Cluster, name: str) -> None:
    create_topic(cluster, name, config={"segment.ms": "5000"})
    assert replace(cluster, TOPIC, name, {"retention.ms": "1"}) == (ErrorCode.NONE, None)
    assert own_settings(cluster, name) == {"retention.ms": "1"}
    assert replace(cluster, TOPIC, name, {"retention.ms": None})[0] == ErrorCode.INVALID_REQUEST
    assert own_settings(cluster, name) == {"retention.ms": "1"}


def test_validation_changes_nothing(cluster: Cluster, name: str) -> None:
    create_topic(cluster, name)
    rows: Rows = [("retention.ms", ConfigOperation.SET, "7")]
    assert change(cluster, TOPIC, name, rows, validate_only=True)[0] == ErrorCode.NONE
    assert own_settings(cluster, name) == {}
    assert change(cluster, TOPIC, name, [("retention.ms", 0, "x")], validate_only=True)[0] == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([("no.such.key", 0, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", 0, "soon")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", 0, "1_000")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", 0, "-2")], ErrorCode.INVALID_CONFIG),
        ([("min.insync.replicas", 0, "0")], ErrorCode.INVALID_CONFIG),
        ([("segment.bytes", 0, str(2**31))], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", ConfigOperation.APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([("cleanup.policy", ConfigOperation.APPEND, "burn")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", 0, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", 4, "1")], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", 0, "1"), ("retention.ms", 0, "2")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_bad_change_is_refused_whole(cluster: Cluster, name: str, rows: Rows, code: ErrorCode) -> None:
    topic = f"t{abs(hash((name, code)))}"
    create_topic(cluster, topic)
    refused, message = change(cluster, TOPIC, topic, [("segment.ms", 0, "9"), *rows])
    assert (refused, bool(message)) == (code, True)
    assert own_settings(cluster, topic) == {}


def test_a_resource_named_twice_is_refused_twice(cluster: Cluster, name: str) -> None:
    create_topic(cluster, name)
    config = incremental.AlterableConfig(name="segment.ms", value="9")
    resource = incremental.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[config])
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource, resource])
    with Wire.to_broker(cluster) as wire:
        rows = wire.ask(request, incremental.IncrementalAlterConfigsResponse).responses
    assert [row.error_code for row in rows] == [ErrorCode.INVALID_REQUEST] * 2
    assert own_settings(cluster, name) == {}


@pytest.mark.parametrize(
    ("kind", "resource", "code"),
    [
        (TOPIC, "no-such-topic", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (ResourceType.GROUP, "g", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_changed_is_refused(cluster: Cluster, kind: int, resource: str, code: ErrorCode) -> None:
    key = "retention.ms" if kind == TOPIC else "log.retention.ms"
    assert change(cluster, kind, resource, [(key, 0, "5")])[0] == code
    assert replace(cluster, kind, resource, {key: "5"})[0] == code


@pytest.mark.parametrize(("key", "value"), [("num.partitions", "5"), ("no.such", "5"), ("log.retention.ms", "-5")])
def test_a_broker_refuses_what_it_cannot_change_while_it_runs(cluster: Cluster, key: str, value: str) -> None:
    assert change(cluster, BROKER, "1", [(key, 0, value)])[0] == ErrorCode.INVALID_REQUEST


def test_dynamic_broker_settings_layer_and_survive_a_restart(tmp_path: Path) -> None:
    """B4 and B5."""
    with Cluster(brokers=1, data=tmp_path, topics=["t"], config={"log.segment.bytes": "5000"}) as cluster:
        for broker, value in (("", "4000"), ("1", "3000")):
            assert change(cluster, BROKER, broker, [("log.segment.bytes", 0, value)])[0] == ErrorCode.NONE
    with Cluster(brokers=1, data=tmp_path, config={"log.segment.bytes": "5000"}) as cluster:
        row = describe(cluster, TOPIC, "t", "segment.bytes")
        places = [(place.value, place.source) for place in row.synonyms]
        assert places == [("3000", 2), ("4000", 3), ("5000", 4), ("1073741824", 5)]
        default = describe_all(cluster, BROKER, "").configs
        assert [(one.name, one.value, one.config_source) for one in default] == [("log.segment.bytes", "4000", 3)]
        assert replace(cluster, BROKER, "1", {})[0] == ErrorCode.NONE
        assert describe(cluster, TOPIC, "t", "segment.bytes").value == "4000"


def test_everything_with_settings_is_listed(cluster: Cluster, name: str) -> None:
    create_topic(cluster, name)
    with Wire.to_broker(cluster) as wire:
        every = wire.ask(ListConfigResourcesRequest(), ListConfigResourcesResponse)
        brokers = wire.ask(ListConfigResourcesRequest(resource_types=[BROKER]), ListConfigResourcesResponse)
        unknown = wire.ask(ListConfigResourcesRequest(resource_types=[99]), ListConfigResourcesResponse)
        oldest = wire.ask(ListConfigResourcesRequest(), ListConfigResourcesResponse, version=0)
    assert (name, TOPIC) in {(row.resource_name, row.resource_type) for row in every.config_resources}
    assert [(row.resource_name, row.resource_type) for row in brokers.config_resources] == [
        (str(broker_id), BROKER) for broker_id in (1, 2, 3)
    ]
    assert unknown.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert oldest.config_resources == []
