"""What sinks ask of stamped rows, before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.errors import ConfigError
from semel.sinks.base import Column
from semel.sinks.delta.sink import DeltaSink
from semel.sinks.kafka.sink import KafkaOutput
from semel.sinks.stamps import STAMP, with_stamp

VALUE = Column(name="value", type="string")
STAMPED = Column(name=STAMP, type="string")
WRONG = Column(name=STAMP, type="bigint")


@pytest.mark.parametrize("columns", [[VALUE], [VALUE, WRONG]], ids=["no stamp", "a stamp that is no text"])
def test_rows_without_a_stamp_are_refused_with_what_to_do(columns: list[Column], tmp_path: Path) -> None:
    for sink in (KafkaOutput("localhost:9092", "out", stamp=True), DeltaSink(tmp_path / "out", stamp=True)):
        with pytest.raises(ConfigError, match="stamp=True needs a column") as refused:
            sink.check_columns(columns)
        assert "semel.stamp()" in str(refused.value)


def test_a_record_gets_the_stamp_as_a_header_and_no_column() -> None:
    columns = KafkaOutput("localhost:9092", "out", stamp=True).check_columns([VALUE, STAMPED])
    assert [one.name for one in columns] == ["value", "headers"]
    assert STAMP in columns[1].made_by


def test_without_being_asked_a_sink_makes_nothing_of_a_stamp() -> None:
    assert KafkaOutput("localhost:9092", "out").check_columns([VALUE, STAMPED]) == (VALUE,)


def test_a_table_keeps_the_stamp_in_its_column() -> None:
    assert [one.name for one in with_stamp([STAMPED, VALUE])] == [STAMP, "value"]
