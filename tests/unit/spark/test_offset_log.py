"""Spark's offset log (E7): what the sink reads from it, whoever the sources are."""

import json

import pytest

from semel.errors import ConfigError, SinkError
from semel.spark.offset_log import parse_offset_log
from semel.spark.offsets import SourceOffsets
from semel.wire.topology import TopicPartition

META = '{"batchWatermarkMs":0,"batchTimestampMs":1700000000123,"conf":{},"sourceMetadataInfo":{}}'
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
KAFKA = '{"a":{"0":12,"1":7}}'


def entry(*lines: str) -> str:
    return "\n".join(["v1", META, *lines])


def test_sparks_own_kafka_source() -> None:
    planned = parse_offset_log(entry(KAFKA))
    assert planned.planned_ms == 1_700_000_000_123
    assert planned.offsets == {A0: 12, A1: 7}
    assert planned.topic_ids == {}


def test_the_semel_source_says_where_the_query_began() -> None:
    offsets = SourceOffsets(offsets_next={A0: 12, A1: 7}, start={A0: 2, A1: 7}, topic_ids={"a": "x"})
    planned = parse_offset_log(entry(json.dumps(offsets.encode())))
    assert planned.offsets == {A0: 12, A1: 7}
    assert planned.known is not None
    assert planned.known["0"].start == {A0: 2, A1: 7}
    assert planned.topic_ids == {"a": "x"}


def test_several_sources_are_one_ledger() -> None:
    assert parse_offset_log(entry(KAFKA, '{"b":{"0":1}}')).offsets == {A0: 12, A1: 7, B0: 1}


def test_a_source_that_has_nothing_yet() -> None:
    assert parse_offset_log(entry(KAFKA, "-")).offsets == {A0: 12, A1: 7}


def test_two_sources_that_stand_differently_in_one_partition() -> None:
    """A union of a DataFrame with itself has two sources; as long as Spark plans them alike, it works."""
    with pytest.raises(ConfigError, match="two sources of one query read a-0"):
        assert parse_offset_log(entry(KAFKA, '{"a":{"0":11}}')).offsets
    assert parse_offset_log(entry(KAFKA, '{"a":{"0":12}}')).offsets == {A0: 12, A1: 7}


@pytest.mark.parametrize(
    "line", ["17", '{"logOffset":3}', "[1]", "file:///in", "{}", '{"a":{"x":1}}', '{"a":{"0":"many"}}', '"text"']
)
def test_a_source_without_kafka_offsets(line: str) -> None:
    """E8: then there are none to commit, also when another source has some."""
    assert parse_offset_log(entry(line)).offsets is None
    assert parse_offset_log(entry(KAFKA, line)).offsets is None


def test_version_2_names_its_sources() -> None:
    """`spark.sql.streaming.offsetLog.formatVersion=2`: read as version 1 is, and never as "no Kafka offsets"."""
    planned = parse_offset_log("\n".join(["v2", META, f"orders:{KAFKA}", '1:{"b":{"0":1}}']))
    assert planned.offsets == {A0: 12, A1: 7, B0: 1}
    assert set(planned.sources) == {"orders", "1"}


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(SinkError, match="cannot be read") as caught:
        parse_offset_log("\n".join(["v3", META, KAFKA]))
    assert "formatVersion=1 or 2" in caught.value.you_want


def test_the_digest_tells_positions_apart() -> None:
    """E8: of sources without Kafka offsets nothing else can be compared."""
    assert parse_offset_log(entry("17")).digest == parse_offset_log(entry("17")).digest
    assert parse_offset_log(entry("17")).digest != parse_offset_log(entry("18")).digest


@pytest.mark.parametrize("text", ["", "v1", "nonsense\n{}", "v1\nnonsense", 'v1\n{"conf":{}}', "v1\n[]"])
def test_an_entry_that_cannot_be_read(text: str) -> None:
    with pytest.raises(SinkError, match="offset log"):
        parse_offset_log(text)
