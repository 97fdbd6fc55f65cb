"""Two engines read the table that the sink wrote, Arrow and DataFusion, each with a Parquet reader of its own.

DataFusion replays the table's log itself. Partitions, types, several commits and a column that came later are in it.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from semel.sinks.base import Column
from tests.unit.sinks.delta.local_table import LocalTable
from tests.unit.sinks.local_work import local_work

MOMENT = datetime(2026, 3, 29, 1, 59, 59, 999_999, tzinfo=UTC)
COLUMNS = (
    Column(name="id", type="bigint", json='"long"'),
    Column(name="place", type="string", json='"string"'),
    Column(name="day", type="date", json='"date"'),
    Column(name="at", type="timestamp", json='"timestamp"'),
    Column(name="price", type="decimal(20,3)", json='"decimal(20,3)"'),
    Column(name="raw", type="binary", json='"binary"'),
)
LATER = Column(name="more", type="double", json='"double"')


def rows(first: int) -> pa.Table:
    """Ten rows, with nulls and with values that folders have to escape."""
    numbers = range(first, first + 10)
    return pa.table(
        {
            "id": pa.array(numbers),
            "place": pa.array([None if one % 5 == 0 else f"a/b={one % 3} ü%" for one in numbers]),
            "day": pa.array([date(2026, 1, 1) + timedelta(days=one % 2) for one in numbers]),
            "at": pa.array([MOMENT + timedelta(days=one) for one in numbers], pa.timestamp("us", "UTC")),
            "price": pa.array([Decimal(one) / 8 for one in numbers], pa.decimal128(20, 3)),
            "raw": pa.array([bytes([one]) for one in numbers]),
        }
    )


def by_arrow(folder: Path) -> list[dict[str, Any]]:
    found: Any = deltalake.DeltaTable(folder).to_pyarrow_dataset().to_table()
    return sorted(pa.table(found).to_pylist(), key=lambda row: row["id"])


def by_datafusion(folder: Path) -> list[dict[str, Any]]:
    engine: Any = deltalake.QueryBuilder().register("orders", deltalake.DeltaTable(folder))
    return list(pa.table(engine.execute("SELECT * FROM orders ORDER BY id").read_all()).to_pylist())


@pytest.mark.parametrize("partition_by", [(), ("place", "day")], ids=["one folder", "partitions"])
def test_two_engines_read_the_same_rows(tmp_path: Path, partition_by: tuple[str, ...]) -> None:
    job = LocalTable(tmp_path / "orders", options={"partition_by": partition_by, "merge_schema": True})
    job.write(job.open(), 0, work=local_work(rows(0).to_batches(), COLUMNS, attempts=2))
    wider = rows(10).append_column("more", pa.array([0.5] * 10))
    job.write(job.open(), 1, work=local_work(wider.to_batches(), (*COLUMNS, LATER)))
    wanted = [one | {"more": None} for one in rows(0).to_pylist()] + wider.to_pylist()
    assert by_arrow(job.folder) == wanted
    assert by_datafusion(job.folder) == wanted
