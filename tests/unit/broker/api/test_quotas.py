"""Client quotas and the quorum over the wire: what is not there is said, what cannot be kept is refused."""

from __future__ import annotations

import pytest

from semel.engine.embedded import Cluster
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from semel.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from semel.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    TopicData,
)
from tests.support.kafka_commands import java_tool
from tests.support.wire import Wire


def alter(cluster: Cluster, *entries: EntryData, validate_only: bool = False) -> list[tuple[int, str | None]]:
    request = AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    with Wire.to_broker(cluster) as wire:
        answer = wire.ask(request, AlterClientQuotasResponse)
    return [(row.error_code, row.error_message) for row in answer.entries]


def entry(op: OpData, user: str | None = "ann") -> EntryData:
    return EntryData(entity=[EntityData(entity_type="user", entity_name=user)], ops=[op])


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize("user", ["ann", None])
def test_a_quota_is_refused_with_a_reason_and_is_not_there_afterwards(
    cluster: Cluster, user: str | None, validate_only: bool
) -> None:
    wanted = entry(OpData(key="producer_byte_rate", value=1000.0), user)
    gone = entry(OpData(key="producer_byte_rate", remove=True), "bob")
    refused, removed = alter(cluster, wanted, gone, validate_only=validate_only)
    assert refused[0] == ErrorCode.INVALID_REQUEST
    assert "does not enforce client quotas" in (refused[1] or "")
    assert removed == (ErrorCode.NONE, None)
    with Wire.to_broker(cluster) as wire:
        found = wire.ask(DescribeClientQuotasRequest(), DescribeClientQuotasResponse)
    assert (found.error_code, found.entries) == (ErrorCode.NONE, [])


def test_a_filter_that_makes_no_sense_is_refused(cluster: Cluster) -> None:
    both = [ComponentData(entity_type=kind, match_type=2, match=None) for kind in ("ip", "user")]
    with Wire.to_broker(cluster) as wire:
        found = wire.ask(DescribeClientQuotasRequest(components=both), DescribeClientQuotasResponse)
    assert (found.error_code, found.entries) == (ErrorCode.INVALID_REQUEST, None)
    assert found.error_message


def test_every_broker_describes_the_same_quorum_and_it_moves_on(cluster: Cluster) -> None:
    wanted = [TopicData(topic_name="__cluster_metadata", partitions=[PartitionData()])]
    ends = []
    for broker_id in (1, 2, 3):
        with Wire.to_broker(cluster, broker_id) as wire:
            found = wire.ask(DescribeQuorumRequest(topics=wanted), DescribeQuorumResponse)
        row = found.topics[0].partitions[0]
        assert (found.error_code, row.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
        assert [voter.replica_id for voter in row.current_voters] == [row.leader_id] == [found.nodes[0].node_id]
        ends.append(row.high_watermark)
    assert ends == sorted(ends)
    assert ends[0] > 0


@pytest.mark.full
def test_kafkas_own_commands_show_users_and_the_quorum(cluster: Cluster) -> None:
    users = ["--bootstrap-server", cluster.bootstrap, "--entity-type", "users"]
    credential = "SCRAM-SHA-256=[iterations=4096,password=secret]"
    added = java_tool(
        "kafka.admin.ConfigCommand", *users, "--alter", "--entity-name", "ann", "--add-config", credential
    )
    assert added.startswith("0 "), added
    shown = java_tool("kafka.admin.ConfigCommand", *users, "--describe")
    assert shown.startswith("0 "), shown
    assert "SCRAM-SHA-256=iterations=4096" in shown
    limit = ["--alter", "--entity-name", "ann", "--add-config", "producer_byte_rate=1000"]
    assert "does not enforce client quotas" in java_tool("kafka.admin.ConfigCommand", *users, *limit)
    status = ["--bootstrap-server", cluster.bootstrap, "describe", "--status"]
    quorum = java_tool("org.apache.kafka.tools.MetadataQuorumCommand", *status)
    assert quorum.startswith("0 "), quorum
    assert "LeaderId:" in quorum
