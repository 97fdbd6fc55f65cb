"""How far a query is behind, from the offsets in its progress."""

import json

from pyspark.sql.streaming.listener import SourceProgress, StreamingQueryProgress

from semel.spark import lag
from semel.spark.offsets import SourceOffsets
from semel.wire.topology import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def source(end: object, latest: object) -> SourceProgress:
    offsets = {"startOffset": None, "endOffset": end, "latestOffset": latest}
    rates = {"numInputRows": 0, "inputRowsPerSecond": 0.0, "processedRowsPerSecond": 0.0}
    return SourceProgress.fromJson({"description": "x", **offsets, **rates})


def progress(*sources: SourceProgress) -> StreamingQueryProgress:
    empty = StreamingQueryProgress.__new__(StreamingQueryProgress)
    empty["sources"] = list(sources)
    return empty


def test_the_figures_of_sparks_kafka_source() -> None:
    end = SourceOffsets(offsets_next={A0: 3, A1: 10, B0: 1}, topic_ids={"a": "x"}).encode()
    (found,) = lag(progress(source(end, {"a": {"0": 10, "1": 10}, "b": {"0": 2}})))
    assert found.behind == {A0: 7, A1: 0, B0: 1}
    assert found.topics == ("a", "b")
    assert found.metrics == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": "7",
        "avgOffsetsBehindLatest": str(8 / 3),
    }
    assert str(found) == "a, b: 8 offsets behind in 3 partitions, at most 7, at least 0, 2.7 on average"


def test_a_leader_that_did_not_answer() -> None:
    (found,) = lag(progress(source({"a": {"0": 3, "1": 4}}, {"a": {"0": 3}})))
    assert (found.behind, found.unknown) == ({A0: 0}, (A1,))
    assert "unknown for a-1" in str(found)
    (silent,) = lag(progress(source({"a": {"0": 3}}, {})))
    assert silent.metrics == {}
    assert str(silent) == "a: unknown for a-0"


def test_a_log_that_was_cut_is_not_behind() -> None:
    (found,) = lag(progress(source({"a": {"0": 30}}, {"a": {"0": 3}})))
    assert found.behind == {A0: 0}


def test_sources_of_other_kinds_and_no_progress() -> None:
    others = [source({"logOffset": 3}, None), source(None, None), source("17", "18"), source("text", "None")]
    assert lag(progress(*others)) == []
    assert lag(progress()) == []


def test_every_source_by_itself() -> None:
    one = {"a": {"0": 1}}
    found = lag(progress(source(one, {"a": {"0": 2}}), source(json.dumps(one), json.dumps({"a": {"0": 5}}))))
    assert [each.behind for each in found] == [{A0: 1}, {A0: 4}]
