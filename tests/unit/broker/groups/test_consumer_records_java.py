"""Records of the consumer protocol, read by Apache Kafka's own classes from the broker's jars. Keeps: G9."""

import base64
import json
import os
import subprocess
from typing import Any
from uuid import UUID

import pytest

from semel.broker.groups.consumer.records import (
    ConsumerRecord,
    CurrentValue,
    GroupValue,
    Kind,
    MemberValue,
    RegexValue,
    TargetEpochValue,
    Value,
    decode_record,
    encode_record,
    held_partitions,
    target_value,
)
from semel.engine.jars import KAFKA_BROKER, class_path
from semel.engine.java import find_java
from tests.support.java import JVM_OPTIONS, compile_java

TOPIC = UUID("12345678-1234-5678-1234-567812345678")
CLASSES = {
    Kind.GROUP: "ConsumerGroupMetadata",
    Kind.MEMBER: "ConsumerGroupMemberMetadata",
    Kind.TARGET_EPOCH: "ConsumerGroupTargetAssignmentMetadata",
    Kind.TARGET: "ConsumerGroupTargetAssignmentMember",
    Kind.CURRENT: "ConsumerGroupCurrentMemberAssignment",
    Kind.REGEX: "ConsumerGroupRegularExpression",
}
MEMBER = MemberValue(
    instance_id="i",
    rack_id="r",
    client_id="c",
    client_host="/h",
    subscribed_names=["a", "b"],
    subscribed_regex="x.*",
    rebalance_timeout_ms=300_000,
    server_assignor="range",
)
CURRENT = CurrentValue(
    member_epoch=7,
    previous_epoch=6,
    state=1,
    assigned=held_partitions({(TOPIC, 0): 5, (TOPIC, 2): 7}),
    revoking=held_partitions({(TOPIC, 1): 5}),
)
RECORDS: dict[Kind, tuple[Value, list[str]]] = {
    Kind.GROUP: (GroupValue(epoch=7, metadata_hash=-(2**62)), ["epoch=7", f"metadataHash={-(2**62)}"]),
    Kind.MEMBER: (
        MEMBER,
        [
            "instanceId='i'",
            "rackId='r'",
            "clientHost='/h'",
            "subscribedTopicNames=[a, b]",
            "subscribedTopicRegex='x.*'",
            "rebalanceTimeoutMs=300000",
            "serverAssignor='range'",
        ],
    ),
    Kind.TARGET_EPOCH: (
        TargetEpochValue(epoch=7, timestamp_ms=1_700_000_000_001),
        ["assignmentEpoch=7", "assignmentTimestamp=1700000000001"],
    ),
    Kind.TARGET: (target_value({(TOPIC, 0), (TOPIC, 2)}), ["partitions=[0, 2]"]),
    Kind.CURRENT: (CURRENT, ["memberEpoch=7", "previousMemberEpoch=6", "state=1", "assignmentEpochs=[5, 7]"]),
    Kind.REGEX: (RegexValue(topics=["a"], version=3, timestamp_ms=9), ["topics=[a]", "version=3", "timestamp=9"]),
}


def read_in_java(rows: list[tuple[str, bytes]]) -> list[dict[str, Any]]:
    """What the broker's classes make of each key or value."""
    classes = compile_java("GroupRecords") + os.pathsep + class_path(KAFKA_BROKER)
    asked = [
        json.dumps({"command": "read", "type": kind, "bytes": base64.b64encode(data).decode()}) for kind, data in rows
    ]
    ran = subprocess.run(
        [str(find_java().path), *JVM_OPTIONS, "-cp", classes, "GroupRecords"],
        input="\n".join(asked),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [json.loads(line)["result"] for line in ran.stdout.splitlines()]


@pytest.mark.full
def test_the_broker_of_apache_kafka_reads_every_record_and_writes_the_same_bytes() -> None:
    rows: list[tuple[str, bytes]] = []
    for kind, (written, _) in RECORDS.items():
        encoded = encode_record(ConsumerRecord(kind=kind, group_id="grøup", name="named", value=written))
        assert encoded.value is not None
        assert decode_record(encoded.key, encoded.value) is not None
        rows += [(f"{CLASSES[kind]}Key", encoded.key), (f"{CLASSES[kind]}Value", encoded.value)]
    found = read_in_java(rows)
    for (name, data), row in zip(rows, found, strict=True):
        assert row["left"] == 0, name
        assert base64.b64decode(row["bytes"]) == data, name
    for (kind, (_, fields)), key, value in zip(RECORDS.items(), found[::2], found[1::2], strict=True):
        assert (key["prefix"], value["prefix"]) == (kind, 0)
        assert "groupId='grøup'" in key["text"]
        assert ("named" in key["text"]) is (kind not in (Kind.GROUP, Kind.TARGET_EPOCH))
        for field in fields:
            assert field in value["text"], value["text"]
