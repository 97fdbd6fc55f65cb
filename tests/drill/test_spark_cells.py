"""Cells with Spark: a killed driver in each sink, and mistakes that are found; the rest is in `semel drill --quick`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from semel.drill.cells import Cell, chosen_cells, judge
from semel.drill.spark_cells import SparkCells
from semel.drill.spark_ways import SparkFault, SparkWay
from semel.guarantee import Guarantee
from semel.history import Verdict
from semel.sinks.base import CommitStep
from tests.spark.conftest import spark

__all__ = ["spark"]

EXACTLY = "spark-delta.exactly-once.driver-killed-at-rows-written"


@pytest.fixture(scope="module")
def cells(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCells]:
    with SparkCells(tmp_path_factory.mktemp("cells"), spark=spark) as running:
        yield running


def cell_of(name: str) -> Cell:
    (found,) = chosen_cells([name])
    return found


def fault_of(cell: Cell) -> SparkFault:
    assert isinstance(cell.fault, SparkFault)
    return cell.fault


@pytest.mark.full
@pytest.mark.parametrize(
    "name",
    [
        "spark-postgres.at-least-once.driver-killed-at-rows-written",
        "spark-delta.at-most-once.driver-killed-at-committed",
    ],
)
def test_the_damage_of_a_weaker_guarantee_shows(cells: SparkCells, tmp_path: Path, name: str) -> None:
    """The quick run of the command has those of Kafka."""
    cell = cell_of(name)
    observed = cells.run(cell, 1, tmp_path)
    assert judge(cell.way.guarantee, observed, cell.certain) == (Verdict.HELD, "")
    assert observed.lost + observed.duplicated == 20, "one micro-batch"


def test_a_planted_mistake_is_broken(cells: SparkCells, tmp_path: Path) -> None:
    """Exactly once declared, and a sink that writes its ledger after its rows."""
    cell = cell_of(EXACTLY)
    assert isinstance(cell.way, SparkWay)
    weak = replace(cell, way=replace(cell.way, guarantee=Guarantee.AT_LEAST_ONCE))
    verdict, why = judge(Guarantee.EXACTLY_ONCE, cells.run(weak, 1, tmp_path))
    assert (verdict, why) == (Verdict.BROKEN, "20 duplicated, which exactly_once does not allow")


@pytest.mark.full
def test_a_driver_that_never_comes_to_its_end_is_unknown(cells: SparkCells, tmp_path: Path) -> None:
    """At least once never opens a transaction, so nobody dies there."""
    cell = cell_of("spark-delta.at-least-once.driver-killed-at-rows-written")
    spared = replace(cell, fault=replace(fault_of(cell), step=CommitStep.OPENED))
    verdict, why = judge(Guarantee.AT_LEAST_ONCE, cells.run(spared, 1, tmp_path))
    assert (verdict, why) == (Verdict.UNKNOWN, "the driver was to end there and did not")
