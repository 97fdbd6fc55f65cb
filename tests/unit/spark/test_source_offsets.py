"""A stream's offsets in Spark's checkpoint: readable, canonical, and those of Spark's own source are understood."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ProtocolError
from semel.spark.offsets import SourceOffsets
from semel.wire.topology import TopicPartition

topics = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True)
places = st.builds(TopicPartition, topics, st.integers(0, 2**31 - 1))
numbers = st.dictionaries(places, st.integers(0, 2**63 - 1), max_size=8)


@st.composite
def source_offsets(draw: st.DrawFn) -> SourceOffsets:
    offsets = draw(numbers)
    named = sorted({one.topic for one in offsets})
    ids = draw(st.dictionaries(st.sampled_from(named), st.uuids().map(str))) if named else {}
    epochs = draw(st.dictionaries(st.sampled_from(sorted(offsets)), st.integers(0, 2**31 - 1))) if offsets else {}
    start = draw(st.none() | numbers.filter(bool))
    return SourceOffsets(
        offsets_next=offsets, topic_ids=ids, leader_epochs=epochs, initial=draw(st.booleans()), start=start
    )


@given(source_offsets())
def test_what_is_encoded_is_decoded(offsets: SourceOffsets) -> None:
    through_spark = json.loads(json.dumps(offsets.encode()))
    assert SourceOffsets.decode(through_spark) == offsets


@given(source_offsets(), st.randoms())
def test_equal_offsets_are_equal_text(offsets: SourceOffsets, random: object) -> None:
    def shuffled(numbers: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        items = list(numbers.items())
        random.shuffle(items)  # type: ignore[attr-defined]
        return dict(items)

    other = SourceOffsets(
        offsets_next=shuffled(offsets.offsets_next),
        topic_ids=offsets.topic_ids,
        leader_epochs=shuffled(offsets.leader_epochs),
        initial=offsets.initial,
        start=offsets.start,
    )
    assert json.dumps(other.encode()) == json.dumps(offsets.encode())


def test_the_text_is_that_of_the_kafka_source_with_one_addition() -> None:
    offsets = SourceOffsets(
        offsets_next={TopicPartition("b", 10): 7, TopicPartition("b", 2): 5, TopicPartition("a", 0): 1},
        topic_ids={"a": "id-a"},
        leader_epochs={TopicPartition("a", 0): 4},
    )
    addition = '{"logs":{"a":{"id":"id-a","leader_epochs":{"0":4}}}}'
    assert list(offsets.encode().items()) == [
        ("a", {"0": 1}),
        ("b", {"2": 5, "10": 7}),
        (f"#semel {addition}", {}),
    ]


@given(source_offsets())
def test_sparks_own_source_finds_its_offsets_and_nothing_else(offsets: SourceOffsets) -> None:
    """It reads a map of maps of numbers, and takes every inner entry for a partition."""
    read = {
        TopicPartition(topic, int(partition)): number
        for topic, rows in offsets.encode().items()
        for partition, number in rows.items()
    }
    assert read == offsets.offsets_next


def test_offsets_of_sparks_own_source_are_understood() -> None:
    decoded = SourceOffsets.decode(json.loads('{"orders":{"1":3,"0":23}}'))
    assert decoded == SourceOffsets(offsets_next={TopicPartition("orders", 0): 23, TopicPartition("orders", 1): 3})


def test_a_topic_may_be_named_like_the_project() -> None:
    offsets = SourceOffsets(offsets_next={TopicPartition("semel", 0): 3}, topic_ids={"semel": "x"})
    assert SourceOffsets.decode(offsets.encode()) == offsets


@pytest.mark.parametrize(
    "text",
    [
        '{"logOffset": 3}',
        '{"a": {"x": 1}}',
        '{"a": {"0": null}}',
        '{"#semel": 3}',
        '{"#semel 3": {}}',
        '{"#semel {": {}}',
        '{"#semel {}": {}, "#semel {\\"initial\\":true}": {}}',
        "[1]",
        '"text"',
        "3",
    ],
)
def test_other_sources_offsets_are_refused(text: str) -> None:
    with pytest.raises(ProtocolError, match="not those of a Kafka source"):
        SourceOffsets.decode(json.loads(text))
