"""The page of results: sums for each way, a line for each cell, and nothing that is not HELD is hidden."""

from __future__ import annotations

from semel.cli.drill_matrix import Matrix, Tried
from semel.drill.cells import Observed, chosen_cells
from tests.tidy.project import ROOT
from tools import drill_results


def tried(name: str, *, lost: int = 0, duplicated: int = 0) -> Tried:
    (cell,) = chosen_cells([name])
    found = Observed(sent=60, arrived=60, lost=lost, duplicated=duplicated, fired={"a fault": 1}, seconds=4.25)
    return Tried(cell=cell, seed=7, observed=found)


def test_sums_and_lines() -> None:
    cells = [
        tried("copy.at-least-once.answers-lost-at-work", duplicated=3),
        tried("copy.at-least-once.client-killed-at-sent", duplicated=2),
        tried("copy.exactly-once.disk-full", lost=1),
    ]
    rules = [{"verdict": "HELD"}, {"verdict": "BROKEN"}]
    run = {**Matrix(tried=cells, folder=ROOT).as_json(), "cells": rules, "seconds": 1500.0, "jobs": 2}
    page = drill_results.render([run])
    assert "seed 7" in page
    assert "## The embedded cluster, 3 nodes" in page
    assert "3 cells: 1 BROKEN, 2 HELD. The whole run took 25 minutes with `-j 2`." in page
    assert "2 drills of rules, ignored and followed: 1 as expected." in page
    assert "| copy | at_least_once | 2 | 2 | 0 | 5 |" in page
    assert "| copy | exactly_once | 1 | 0 | 1 | 0 |" in page
    broken = "BROKEN: 1 lost, which exactly_once does not allow"
    assert f"| copy.exactly-once.disk-full | 1 | 1 | 0 | 4.2 | {broken} |" in page
