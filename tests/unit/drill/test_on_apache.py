"""Which cells Apache Kafka can run, what is refused, and that a node that was broken is mended once."""

from __future__ import annotations

from typing import cast

import pytest

from semel.cli import main
from semel.cli.drill_matrix import Tried
from semel.cli.exit_code import ExitCode
from semel.drill.cells import CELLS, KILL_CLIENT, Observed
from semel.drill.on_apache import KILLED, ON_NODES, PAUSED, RESTARTED, NodeStrike, can_run
from semel.drill.spark_ways import SPARK_WAYS, Act
from semel.drill.strikes import STRIKES
from semel.engine.apache import ApacheCluster
from tests.support.waiting import eventually

HOUR_MS = 3_600_000


def test_cells_without_hooks_are_those_of_killed_programs_and_broken_nodes() -> None:
    assert set(ON_NODES) <= set(STRIKES)
    one, three = ([cell for cell in CELLS if can_run(cell, nodes)] for nodes in (1, 3))
    assert {kind for cell in one for kind in cell.kinds} == {KILL_CLIENT, *Act}
    assert {kind for cell in three for kind in cell.kinds} == {
        KILL_CLIENT,
        *Act,
        "kill-broker",
        "pause-broker",
        "restart-broker",
    }
    on_spark = [cell for cell in one if cell.way in SPARK_WAYS]
    assert on_spark == [cell for cell in three if cell.way in SPARK_WAYS]
    assert (len(one) - len(on_spark), len(three) - len(on_spark)) == (12, 56)


def test_the_command_that_repeats_a_cell_names_the_engine() -> None:
    tried = Tried(cell=CELLS[0], seed=7, observed=Observed(), nodes=3)
    assert tried.command == f"semel drill {CELLS[0].id} --seed 7 --engine apache --nodes 3"
    assert (tried.as_json()["engine"], tried.as_json()["nodes"]) == ("apache", 3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["M04", "--nodes", "3"], "--nodes is for Apache Kafka"),
        (["--quick", "--engine", "apache", "--nodes", "4"], "--nodes 4 cannot be used"),
        (["S003", "--engine", "apache"], "needs hooks inside the broker"),
        (["--fault", "kill-broker", "--engine", "apache"], "or more nodes"),
        (["target.toml", "--engine", "apache"], "hooks of the embedded cluster"),
        (["--quick", "--engine", "apache", "-j", "2"], "cells on Apache Kafka run one by one"),
    ],
)
def test_a_wrong_use(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    assert main(["drill", *arguments]) == ExitCode.USAGE
    assert words in capsys.readouterr().err


class Nodes:
    """Notes what is done to nodes."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def __getattr__(self, name: str) -> object:
        return lambda node: self.done.append(f"{name} {node}")


@pytest.mark.parametrize(
    ("how", "done"),
    [
        (KILLED, ["kill_node 2", "start_node 2"]),
        (RESTARTED, ["kill_node 2", "start_node 2"]),
        (PAUSED, ["pause_node 2", "resume_node 2"]),
    ],
)
@pytest.mark.parametrize("hold_ms", [0, HOUR_MS])
def test_a_broken_node_is_mended_once(how: str, done: list[str], hold_ms: float) -> None:
    nodes = Nodes()
    running_strike = NodeStrike(cast("ApacheCluster", nodes), how, lambda: 2, hold_ms)
    running_strike.begin()
    assert running_strike.fired == 1
    if hold_ms == 0 or how == RESTARTED:
        eventually(lambda: len(nodes.done) == 2, what="it is mended by itself")
    running_strike.mend()
    running_strike.mend()
    assert nodes.done == done


def test_what_was_never_broken_is_not_mended() -> None:
    nodes = Nodes()
    NodeStrike(cast("ApacheCluster", nodes), KILLED, lambda: 2, HOUR_MS).mend()
    assert not nodes.done
