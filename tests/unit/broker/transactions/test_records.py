"""Records of `__transaction_state`: what is written is read back, and Apache Kafka's own classes read it too.

Keeps: P1 bytes that do not fit the format are a ProtocolError; T2 the record that decides a transaction is readable.
"""

import base64
import json
import os
import subprocess
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.broker.transactions.records import decode_key, decode_value, encode_key, encode_value
from semel.broker.transactions.types import PRODUCER_EPOCH_MAX, TransactionEntry, TransactionState
from semel.engine.jars import KAFKA_BROKER, class_path
from semel.engine.java import find_java
from semel.errors import CorruptBatchError, ProtocolError
from tests.support.java import JVM_OPTIONS, compile_java

IDS = st.integers(-1, 2**63 - 1)
EPOCHS = st.integers(-1, PRODUCER_EPOCH_MAX)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
ENTRIES = st.builds(
    TransactionEntry,
    transactional_id=NAMES,
    producer_id=IDS,
    producer_epoch=EPOCHS,
    previous_producer_id=IDS,
    next_producer_id=IDS,
    last_producer_epoch=EPOCHS,
    timeout_ms=st.integers(0, 2**31 - 1),
    state=st.sampled_from(TransactionState),
    partitions=st.frozensets(st.tuples(NAMES, st.integers(0, 1000)), max_size=8),
    started_ms=IDS,
    updated_ms=IDS,
    client_version=st.integers(0, 2),
)
# A value of version 0, written by hand: producer id 7, epoch 3, timeout 60000, Ongoing, one topic, times 20 and 10.
VERSION_0 = (
    bytes.fromhex("0000 0000000000000007 0003 0000ea60 01 00000001 0001")
    + b"t"
    + bytes.fromhex("00000002 00000000 00000001 0000000000000014 000000000000000a")
)


@given(ENTRIES)
def test_an_entry_is_read_back(entry: TransactionEntry) -> None:
    if entry.state is TransactionState.EMPTY:
        entry = replace(entry, partitions=frozenset())
    assert decode_key(encode_key(entry.transactional_id)) == entry.transactional_id
    assert decode_value(entry.transactional_id, encode_value(entry)) == entry


def test_version_0_is_read() -> None:
    entry = decode_value("id", VERSION_0)
    assert entry == TransactionEntry(
        transactional_id="id",
        producer_id=7,
        producer_epoch=3,
        timeout_ms=60_000,
        state=TransactionState.ONGOING,
        partitions=frozenset({("t", 0), ("t", 1)}),
        started_ms=10,
        updated_ms=20,
    )


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\2", b"\0\x09abc"])
def test_an_unknown_version_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptBatchError):
        decode_value("id", data)
    with pytest.raises(CorruptBatchError):
        decode_key(b"\0\1" + data)


def test_an_unknown_state_is_refused() -> None:
    data = bytearray(VERSION_0)
    data[16] = 99
    with pytest.raises(CorruptBatchError, match="makes no sense"):
        decode_value("id", bytes(data))


@given(ENTRIES, st.data())
def test_a_cut_value_is_refused(entry: TransactionEntry, data: st.DataObject) -> None:
    value = encode_value(entry)
    with pytest.raises(ProtocolError):
        decode_value("id", value[: data.draw(st.integers(0, len(value) - 1))])


# Apache Kafka's own classes, from the broker's jars.


def read_in_java(rows: list[tuple[str, bytes]]) -> list[dict[str, Any]]:
    """What the broker's classes make of each key or value."""
    classes = compile_java("TransactionRecords") + os.pathsep + class_path(KAFKA_BROKER)
    asked = [
        json.dumps({"command": "read", "type": kind, "bytes": base64.b64encode(data).decode()}) for kind, data in rows
    ]
    ran = subprocess.run(
        [str(find_java().path), *JVM_OPTIONS, "-cp", classes, "TransactionRecords"],
        input="\n".join(asked),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [json.loads(line)["result"] for line in ran.stdout.splitlines()]


def entry_in(state: TransactionState) -> TransactionEntry:
    return TransactionEntry(
        transactional_id="orders",
        producer_id=4_000_000_000,
        producer_epoch=32_767,
        previous_producer_id=4_000_000_000,
        next_producer_id=4_000_000_001,
        last_producer_epoch=32_766,
        timeout_ms=60_000,
        state=state,
        partitions=frozenset({("seats", 0), ("status", 0), ("status", 2)}),
        started_ms=1_700_000_000_001,
        updated_ms=1_700_000_000_002,
        client_version=2,
    )


@pytest.mark.full
def test_the_broker_of_apache_kafka_reads_every_record_and_writes_the_same_bytes() -> None:
    values = [("TransactionLogValue", encode_value(entry_in(state))) for state in TransactionState]
    rows = [("TransactionLogKey", encode_key("ordérs")), *values]
    key, *found = read_in_java(rows)
    assert "transactionalId='ordérs'" in key["text"]
    for state, row in zip(TransactionState, found, strict=True):
        for field in (
            "producerId=4000000000",
            "previousProducerId=4000000000",
            "nextProducerId=4000000001",
            "producerEpoch=32767",
            "transactionTimeoutMs=60000",
            f"transactionStatus={state.value}",
            "transactionStartTimestampMs=1700000000001",
            "transactionLastUpdateTimestampMs=1700000000002",
            "clientTransactionVersion=2",
        ):
            assert field in row["text"], row["text"]
        in_status = "topic='status', partitionIds=[0, 2]" in row["text"]
        assert in_status == (state is not TransactionState.EMPTY)
    for (_, written), row in zip(rows, [key, *found], strict=True):
        assert (row["left"], base64.b64decode(row["bytes"])) == (0, written)
