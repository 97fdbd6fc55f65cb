"""E2: what the driver makes of the tasks' reports before it commits."""

import pyarrow as pa
import pytest

from semel.errors import SinkError
from semel.sinks.base import CommitStep, arrow_schema
from semel.sinks.kafka.stages import Written, check_written
from semel.wire.topology import TopicPartition

P0, P1 = TopicPartition("out", 0), TopicPartition("out", 1)


def test_every_row_was_acknowledged() -> None:
    rows = [Written(task=0, target=P0, records=3), Written(task=1, target=P1, records=4)]
    assert check_written(7, rows) == 7
    assert check_written(0, []) == 0


def test_one_task_may_report_a_partition_twice() -> None:
    assert check_written(7, [Written(task=0, target=P0, records=3), Written(task=0, target=P0, records=4)]) == 7


@pytest.mark.parametrize("encoded", [6, 8])
def test_counts_that_differ_are_refused(encoded: int) -> None:
    with pytest.raises(SinkError, match=f"{encoded} rows were encoded, but 7 acknowledged"):
        check_written(encoded, [Written(task=0, target=P0, records=7)])


def test_two_writers_of_one_partition_are_refused() -> None:
    rows = [Written(task=0, target=P0, records=3), Written(task=1, target=P0, records=4)]
    with pytest.raises(SinkError, match="tasks 0 and 1 both wrote to out-0"):
        check_written(7, rows)


def test_what_a_stage_gives_is_said_once_for_spark_and_for_arrow() -> None:
    names, types = ["a", "b", "c", "d"], [pa.int32(), pa.int64(), pa.string(), pa.binary()]
    fields = [pa.field(name, kind) for name, kind in zip(names, types, strict=True)]
    assert arrow_schema("a int, b long, c string, d binary") == pa.schema(fields)


def test_the_order_of_steps() -> None:
    """The order is the guarantee: ownership before anything, rows before offsets, offsets before the commit."""
    assert [str(step) for step in CommitStep] == [
        "owned",
        "ledger-read",
        "opened",
        "rows-written",
        "offsets-written",
        "committed",
    ]
