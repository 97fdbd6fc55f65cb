"""What `.load()` runs: options are checked, and those without effect are told where people look."""

import os

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import BinaryType, StructType

from semel.errors import ConfigError
from semel.spark.source import SemelDataSource

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


def create(**more: str) -> SemelDataSource:
    given = BASE | {key.replace("__", "."): value for key, value in more.items()}
    return SemelDataSource(CaseInsensitiveDict(given))  # type: ignore[arg-type]  # as Spark's worker does


def test_nothing_is_said_of_options_that_are_honoured(capfd: pytest.CaptureFixture[str]) -> None:
    create(maxOffsetsPerTrigger="5", includeHeaders="true")
    assert capfd.readouterr() == ("", "")


def test_options_without_effect_are_told_once_each(capfd: pytest.CaptureFixture[str]) -> None:
    create(kafka__group__id="mine", groupIdPrefix="my")
    assert capfd.readouterr().err.splitlines() == [
        "semel: option groupIdPrefix has no effect: no consumer group is used",
        "semel: option kafka.group.id has no effect: no consumer group is used",
    ]


@pytest.mark.parametrize(
    "wrong", [{"maxOffsetPerTriger": "5"}, {"includeHeaders": "yes"}, {"kafka__sasl__password": "x"}, {"assign": "{}"}]
)
def test_a_wrong_option_is_found_at_once(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        create(**wrong)


def test_the_environment_of_a_driver_stays_as_it_is() -> None:
    before = dict(os.environ)
    with pytest.raises(ConfigError):
        create(subscribePattern="x")
    assert dict(os.environ) == before


@pytest.mark.parametrize("more", [{"topic": "totals"}, {"checkpointLocation": "/c"}, {"Topic": "totals"}])
def test_whoever_wants_to_write_is_told_how(more: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="does not write") as refused:
        create(**more)
    assert "semel.write_stream(" in refused.value.you_want
    for call in (create().writer, create().streamWriter):
        with pytest.raises(ConfigError, match="does not write"):
            call(StructType(), False)


def test_headers_that_the_schema_leaves_out() -> None:
    schema = StructType().add("key", BinaryType()).add("value", BinaryType())
    with pytest.raises(ConfigError, match="schema has no column headers"):
        create(includeHeaders="true").streamReader(schema)
