"""Which partition a row goes to, and what becomes of its columns."""

from typing import Any

import pyarrow as pa
import pytest

from semel.errors import ConfigError
from semel.sinks.kafka.rows import Chunk, chunks_of, route
from semel.sinks.kafka.targets import Targets
from tests.support.murmur2 import partition_of

ONE = Targets.of({"out": 5})
TWO = Targets.of({"b": 2, "a": 3})
KEYS = [b"", b"a", b"key 1", b"key 2", b"\x00\xff" * 9, bytes(range(21))]


def chunk(**columns: Any) -> Chunk:
    size = len(next(iter(columns.values())))
    given = {"value": pa.array([b"v"] * size)} | {name: _array(name, rows) for name, rows in columns.items()}
    (found,) = chunks_of([pa.RecordBatch.from_pydict(given)], 1)
    return found


def _array(name: str, rows: list[Any]) -> Any:
    types = {"key": pa.binary(), "topic": pa.string(), "partition": pa.int32()}
    return pa.array(rows, types.get(name))


def routed(targets: Targets, turn: int = 0, **columns: Any) -> list[int]:
    return list(map(int, route(chunk(**columns), targets, turn)))


def test_a_key_goes_where_the_java_client_sends_it() -> None:
    assert routed(ONE, key=KEYS) == [partition_of(key, 5) for key in KEYS]


def test_text_keys_are_their_bytes() -> None:
    keys = pa.array(["ä", "b"], pa.string())
    (found,) = chunks_of([pa.RecordBatch.from_pydict({"key": keys, "value": keys})], 1)
    assert list(route(found, ONE, 0)) == [partition_of("ä".encode(), 5), partition_of(b"b", 5)]


@pytest.mark.parametrize("turn", [0, 3, 7])
def test_rows_without_a_key_take_turns(turn: int) -> None:
    assert routed(ONE, turn, key=[None, b"a", None]) == [turn % 5, partition_of(b"a", 5), turn % 5]
    assert routed(ONE, turn, value=[b"x", b"y"]) == [turn % 5] * 2


def test_the_partition_column_goes_before_the_key() -> None:
    wanted = [4, partition_of(b"b", 5), 0]
    assert routed(ONE, key=[b"a", b"b", b"c"], partition=[4, None, 0]) == wanted


@pytest.mark.parametrize("wrong", [-2, -1, 5, 2**31 - 1])
def test_a_partition_that_does_not_exist(wrong: int) -> None:
    with pytest.raises(ConfigError, match=rf"partition {wrong} of out, which has partitions 0 to 4"):
        routed(ONE, partition=[0, wrong])


def test_several_topics() -> None:
    topics = ["a", "b", "a", "b"]
    wanted = [2 + partition_of(b"x", 3), partition_of(b"x", 2), 2 + 2, 1]
    assert routed(TWO, key=[b"x"] * 4, topic=topics, partition=[None, None, 2, 1]) == wanted


def test_a_partition_is_checked_against_its_own_topic() -> None:
    assert routed(TWO, topic=["a"], partition=[2]) == [4]
    with pytest.raises(ConfigError, match="partition 2 of b"):
        routed(TWO, topic=["b"], partition=[2])


@pytest.mark.parametrize("stranger", ["other", None])
def test_a_topic_that_is_no_output(stranger: str | None) -> None:
    with pytest.raises(ConfigError, match=f"a row goes to topic {stranger!r}, which is not an output"):
        routed(TWO, topic=["a", stranger])
    with pytest.raises(ConfigError, match=f"a row goes to topic {stranger!r}, which is not an output"):
        routed(ONE, topic=["out", stranger])


def test_several_topics_without_a_column() -> None:
    with pytest.raises(ConfigError, match="need a column named topic"):
        routed(TWO, value=[b"x"])


def test_chunks_gather_batches_and_leave_empty_ones_out() -> None:
    batch = pa.RecordBatch.from_pydict({"value": [b"x"] * 3})
    empty = batch.slice(0, 0)
    assert [one.rows for one in chunks_of([batch, empty, batch], 1)] == [6]
    assert list(chunks_of([empty], 1)) == []


def test_a_big_micro_batch_comes_in_several_chunks() -> None:
    batch = pa.RecordBatch.from_pydict({"value": [b"x" * 200_000] * 3})
    assert [one.rows for one in chunks_of([batch] * 5, 1)] == [6, 6, 3]
    assert [one.rows for one in chunks_of([batch] * 5, targets=4)] == [12, 3]
    assert [one.rows for one in chunks_of([batch] * 16, targets=1_000)] == [42, 6]
