"""Options of the source: what is read from them, and that every wrong one is named with what is wanted."""

import json
import pickle

import pytest

from semel.errors import ConfigError
from semel.spark.options import WITHOUT_EFFECT, SourceOptions, without_effect
from semel.spark.positions import AtLedger, AtOffsets, AtTime, Edge, WhenLate
from semel.spark.ranges import TaskLimits
from semel.wire.topology import Isolation, TopicPartition

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}
JSON_OFFSETS = '{"orders": {"0": 5, "1": -2}}'


def parse(streaming: bool = True, **options: str) -> SourceOptions:
    return SourceOptions.parse(
        {**BASE, **{name.replace("__", "."): text for name, text in options.items()}}, streaming=streaming
    )


def test_defaults() -> None:
    options = parse()
    assert options.subscription.names == {"orders"}
    assert options.starting is None
    assert options.ending is Edge.LATEST
    assert options.offsets_per_trigger_max is None
    assert options.tasks == TaskLimits(tasks_min=0, records_max=None)
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.isolation is Isolation.READ_COMMITTED


def test_names_do_not_mind_case() -> None:
    given = {"KAFKA.bootstrap.SERVERS": "localhost:9092", "SUBSCRIBE": "a, b", "MAXoffsetsPERtrigger": "7"}
    options = SourceOptions.parse(given, streaming=True)
    assert options.subscription.names == {"a", "b"}
    assert options.offsets_per_trigger_max == 7


def test_numbers_and_flags() -> None:
    options = parse(
        minPartitions="6",
        maxRecordsPerPartition="100",
        failOnDataLoss="FALSE",
        includeHeaders="true",
        kafka__isolation__level="read_uncommitted",
    )
    assert options.tasks == TaskLimits(tasks_min=6, records_max=100)
    assert not options.fail_on_data_loss
    assert options.include_headers
    assert options.isolation is Isolation.READ_UNCOMMITTED


def test_options_travel_to_tasks() -> None:
    options = parse(startingOffsets=JSON_OFFSETS)
    assert pickle.loads(pickle.dumps(options)) == options


def test_starting_positions() -> None:
    first, second = TopicPartition("orders", 0), TopicPartition("orders", 1)
    assert parse(startingOffsets="Earliest").starting is Edge.EARLIEST
    assert parse(startingOffsets="latest").starting is Edge.LATEST
    at_offsets = AtOffsets(option="startingOffsets", offsets={first: 5, second: -2})
    assert parse(startingOffsets=JSON_OFFSETS).starting == at_offsets
    assert parse(startingOffsets="ledger", ledger="p").starting == AtLedger(pipeline="p")
    by_time = parse(startingTimestamp="17", startingOffsets="earliest").starting
    assert by_time == AtTime(option="startingTimestamp", time_ms=17, when_late=WhenLate.ERROR)


def test_one_time_goes_before_one_each() -> None:
    each = '{"orders": {"0": 9}}'
    strategy = "latest"
    both = parse(
        startingTimestamp="17", startingOffsetsByTimestamp=each, startingOffsetsByTimestampStrategy=strategy
    ).starting
    assert both == AtTime(option="startingTimestamp", time_ms=17, when_late=WhenLate.LATEST)
    one_each = parse(startingOffsetsByTimestamp=each).starting
    assert isinstance(one_each, AtTime)
    assert one_each.time_ms == {TopicPartition("orders", 0): 9}


def test_ending_positions() -> None:
    offsets = parse(streaming=False, endingOffsets='{"orders": {"0": -1}}').ending
    assert offsets == AtOffsets(option="endingOffsets", offsets={TopicPartition("orders", 0): -1})
    by_time = parse(streaming=False, endingTimestamp="17").ending
    assert by_time == AtTime(option="endingTimestamp", time_ms=17, when_late=WhenLate.LATEST)


WRONG = [
    ("maxOffsetsPerTrigger", "0", "whole number of at least 1"),
    ("maxOffsetsPerTrigger", "many", "whole number of at least 1"),
    ("minPartitions", "-3", "whole number of at least 1"),
    ("maxRecordsPerPartition", "1.5", "whole number"),
    ("failOnDataLoss", "yes", "true or false"),
    ("includeHeaders", "", "true or false"),
    ("startingOffsets", "newest", '{"topic"'),
    ("startingOffsets", "[1]", '{"topic"'),
    ("startingOffsets", "{}", "at least one partition"),
    ("startingOffsets", '{"orders": 3}', '{"topic"'),
    ("startingOffsets", '{"orders": {"zero": 3}}', '{"topic"'),
    ("startingOffsets", '{"orders": {"0": true}}', '{"topic"'),
    ("startingOffsets", '{"orders": {"0": -3}}', "from -2 on"),
    ("startingTimestamp", "-1", "at least 0"),
    ("startingOffsetsByTimestamp", '{"orders": {"0": -1}}', "from 0 on"),
    ("startingOffsetsByTimestampStrategy", "guess", "error or latest"),
    ("kafka.isolation.level", "serializable", "read_uncommitted or read_committed"),
    ("ledger", " ", "the name of the pipeline that this stream feeds"),
    ("endingOffsets", "latest", "spark.read"),
    ("endingTimestamp", "5", "spark.read"),
    ("kafka.fetch.max.bytes", "0", "at least 1"),
    ("kafka.fetch.max.bytes", "2147483648", "at most 2147483647"),
    ("maxOffsetsPerTrigger", "9223372036854775808", "at most 9223372036854775807"),
    ("minPartitions", "", "whole number"),
    ("startingOffsets", '{"orders": {"0": 9223372036854775808}}', "from -2 on"),
]


@pytest.mark.parametrize(("name", "value", "want"), WRONG)
def test_a_wrong_value_is_named(name: str, value: str, want: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SourceOptions.parse({**BASE, name: value}, streaming=True)
    text = str(caught.value)
    assert name in text
    assert value in text
    assert want in text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("startingOffsets", "latest"),
        ("startingOffsets", '{"orders": {"0": -1}}'),
        ("endingOffsets", "earliest"),
        ("endingOffsets", '{"orders": {"0": -2}}'),
    ],
)
def test_a_batch_read_that_would_always_be_empty(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=r"nothing|empty"):
        SourceOptions.parse({**BASE, name: value}, streaming=False)


@pytest.mark.parametrize(
    "name", ["kafka.auto.offset.reset", "kafka.enable.auto.commit", "kafka.key.deserializer", "minOffsetsPerTrigger"]
)
def test_options_that_belong_elsewhere(name: str) -> None:
    with pytest.raises(ConfigError, match="not for this source"):
        SourceOptions.parse({**BASE, name: "x"}, streaming=True)


@pytest.mark.parametrize("name", sorted(WITHOUT_EFFECT))
def test_options_without_effect_are_told(name: str) -> None:
    given = {**BASE, name: "512"}
    assert SourceOptions.parse(given, streaming=True) == parse()
    assert without_effect({key.lower(): value for key, value in given.items()}) == {name: WITHOUT_EFFECT[name]}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, set()),
        ({"startingOffsets": "earliest"}, set()),
        ({"startingOffsets": "earliest", "startingTimestamp": "1"}, {"startingOffsets"}),
        ({"startingOffsets": "ledger", "ledger": "p", "startingTimestamp": "1"}, {"startingOffsets"}),
        (
            {"startingOffsetsByTimestamp": '{"orders": {"0": 9}}', "startingTimestamp": "1"},
            {"startingOffsetsByTimestamp"},
        ),
        ({"startingOffsetsByTimestampStrategy": "latest"}, {"startingOffsetsByTimestampStrategy"}),
        ({"startingOffsetsByTimestampStrategy": "latest", "startingTimestamp": "1"}, set()),
        ({"endingOffsets": "latest", "endingTimestamp": "1"}, {"endingOffsets"}),
    ],
)
def test_an_option_that_another_goes_before_is_told(given: dict[str, str], told: set[str]) -> None:
    SourceOptions.parse({**BASE, **given}, streaming=None)
    assert without_effect({**BASE, **given}).keys() == told


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("maxoffsetpertriger", "maxOffsetsPerTrigger"),
        ("SUBSCRIBEPATERN", "subscribePattern"),
        ("security.protocol", "kafka.security.protocol"),
        ("isolation.level", "kafka.isolation.level"),
        ("bootstrap.server", "kafka.bootstrap.servers"),
        ("kafka.isolation.levl", "kafka.isolation.level"),
        ("kafka.sasl.pasword", "kafka.sasl.password"),
    ],
)
def test_a_misspelt_option_gets_a_suggestion(name: str, wanted: str) -> None:
    with pytest.raises(ConfigError, match=name.lower()) as refused:
        SourceOptions.parse({**BASE, name: "top-5ecret"}, streaming=None)
    assert refused.value.you_want == wanted
    assert "5ecret" not in str(refused.value)


@pytest.mark.parametrize("name", ["kafka.acks", "kafka.linger.ms", "kafka.compression.type", "kafka.ssl.protocol"])
def test_options_of_writers_and_of_java_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"option {name} is not supported"):
        SourceOptions.parse({**BASE, name: "1"}, streaming=True)


def test_a_batch_read_has_no_triggers() -> None:
    with pytest.raises(ConfigError, match="no triggers"):
        parse(streaming=False, maxOffsetsPerTrigger="5")


def test_what_depends_on_the_kind_of_read_waits_until_that_is_known() -> None:
    given = {**BASE, "endingOffsets": "latest", "maxOffsetsPerTrigger": "5", "startingOffsets": "latest"}
    assert SourceOptions.parse(given, streaming=None).offsets_per_trigger_max == 5


@pytest.mark.parametrize("ways", [{}, {"subscribe": "a", "assign": json.dumps({"a": [0]})}])
def test_exactly_one_way_to_say_what_to_read(ways: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="exactly one of subscribe, assign, subscribePattern"):
        SourceOptions.parse({"kafka.bootstrap.servers": "localhost:9092", **ways}, streaming=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("subscribe", " , "),
        ("assign", "{}"),
        ("assign", '{"a": 0}'),
        ("assign", '{"a": [-1]}'),
        ("subscribePattern", "("),
        ("subscribePattern", ""),
    ],
)
def test_a_wrong_subscription(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        SourceOptions.parse({"kafka.bootstrap.servers": "localhost:9092", name: value}, streaming=True)


def test_the_ledger_needs_a_pipeline() -> None:
    with pytest.raises(ConfigError, match="needs a pipeline"):
        parse(startingOffsets="ledger")
