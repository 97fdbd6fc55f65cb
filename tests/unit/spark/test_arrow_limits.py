"""When rows are counted instead of bytes, and that the session is as before afterwards."""

from types import SimpleNamespace
from typing import Any

import pytest

from semel.sinks.kafka.rows import PIECE_BYTES
from semel.spark.arrow_limits import (
    BATCH_BYTES,
    BYTES,
    NO_LIMIT,
    ROWS,
    ROWS_MAX,
    ROWS_MIN,
    limited_by_rows,
    rows_in_batch,
)


class Conf(dict[str, str]):
    """As much of Spark's settings as is needed."""

    def set(self, name: str, value: str) -> None:
        self[name] = value


def session() -> Any:
    return SimpleNamespace(conf=Conf({ROWS: "50000", BYTES: "8388608"}))


def get(spark: Any) -> tuple[str, str]:
    return spark.conf[ROWS], spark.conf[BYTES]


@pytest.mark.parametrize(
    ("row_bytes_max", "rows"),
    [
        (0, None),
        (1, ROWS_MAX),
        (100, ROWS_MAX),
        (BATCH_BYTES // ROWS_MAX, ROWS_MAX),
        (BATCH_BYTES // ROWS_MIN, ROWS_MIN),
        (BATCH_BYTES // ROWS_MIN + 1, None),
        (1 << 20, None),
    ],
)
def test_only_small_rows_are_counted(row_bytes_max: int, rows: int | None) -> None:
    assert rows_in_batch(row_bytes_max) == rows


def test_a_piece_of_a_batch_is_as_small_as_the_rows_it_is_counted_with() -> None:
    """What a keyed sink sends through its shuffle is counted by the same limit as the rows."""
    assert PIECE_BYTES * ROWS_MAX <= BATCH_BYTES


def test_bytes_do_not_count_while_rows_do() -> None:
    spark = session()
    with limited_by_rows(spark, 100):
        assert get(spark) == (str(ROWS_MAX), NO_LIMIT)
    assert get(spark) == ("50000", "8388608")


def test_the_settings_come_back_after_a_failure() -> None:
    spark = session()
    with pytest.raises(RuntimeError), limited_by_rows(spark, 100):
        raise RuntimeError
    assert get(spark) == ("50000", "8388608")


def test_nothing_is_set_where_nothing_is_known() -> None:
    spark = session()
    with limited_by_rows(spark, 0):
        assert get(spark) == ("50000", "8388608")
