"""Cells of the matrix on Apache Kafka: those whose fault needs no hook inside the broker.

A program that is killed, and with three nodes a node that is killed, restarted or stopped in place while it leads or
coordinates. The program, its moment and the reader that counts are the same as on the embedded cluster. All cells of a
run share one cluster, and have topics, a group and a transactional id of their own: starting Apache Kafka takes longer
than a cell.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from semel.drill.cells import Cell, ClientKill, Observed
from semel.drill.damage.records import WAIT_S_MAX, new_topic, wait_until
from semel.drill.drill_cluster import CONFIG, IN_SYNC_S_MAX
from semel.drill.programs import ProgramInput
from semel.drill.running import PARTITIONS, AtMoment, Outcome, prepared, with_killed_client
from semel.drill.spark_ways import SparkFault
from semel.drill.strikes import GROUPS, TRANSACTIONS
from semel.engine.apache import ApacheCluster
from semel.errors import EnvironmentFailure
from semel.protocol.coordinator_partition import coordinator_partition

NODES_MAX = 3
# The first group of a new cluster waits for its coordinator longer than embedded brokers let anybody wait.
IDLE_MS_MAX = 20_000
KILLED, PAUSED, RESTARTED = "killed", "paused", "restarted"
# Who has the part: the topic that says so, for this program_input.
ROLES: dict[str, Callable[[ProgramInput], str]] = {
    "target's leader": lambda program_input: program_input.target,
    "source's leader": lambda program_input: program_input.source,
    "group coordinator": lambda _: GROUPS,
    "transaction coordinator": lambda _: TRANSACTIONS,
}
ON_NODES = {
    **{f"{role} {how}": (role, how) for role in ROLES for how in (KILLED, PAUSED)},
    f"target's leader {RESTARTED}": ("target's leader", RESTARTED),
}


def can_run(cell: Cell, nodes: int) -> bool:
    """Whether this cell can run on so many nodes. On a single node no other one can take over from it."""
    if isinstance(cell.fault, SparkFault):
        return cell.fault.strike is None
    # A story moves messages inside the cluster, and its names are none of these.
    return isinstance(cell.fault, ClientKill) or (nodes == NODES_MAX and cell.fault.name in ON_NODES)


@contextmanager
def apache_cells(nodes: int) -> Iterator[ApacheCells]:
    """A cluster of so many nodes."""
    with ApacheCluster(brokers=nodes, config={**CONFIG, "min.insync.replicas": str(min(2, nodes))}) as cluster:
        yield ApacheCells(cluster, nodes)


class ApacheCells:
    """Runs cells on one cluster of Apache Kafka."""

    def __init__(self, cluster: ApacheCluster, nodes: int) -> None:
        """The cluster runs already."""
        self._cluster, self._nodes = cluster, nodes
        # Without a word of its own: that a killed node does not answer is no news.
        self._admin = import_module("confluent_kafka.admin").AdminClient(
            {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
        )

    @property
    def bootstrap(self) -> str:
        """Where it is, for cells with Spark, which run in a process of their own."""
        return self._cluster.bootstrap

    def run(self, cell: Cell, seed: int, folder: Path) -> Observed:
        """Run one; the folder takes what the program keeps. What could not be done is the reason."""
        try:
            # Of its own: what the last cell left in a topic must not be counted here.
            source = new_topic(self._cluster, "orders", partitions=PARTITIONS, replicas=self._nodes)
            target = new_topic(self._cluster, "results", replicas=self._nodes)
            program_input = prepared(self._cluster, cell, folder / "results.db", source=source, target=target)
            program_input = replace(program_input, idle_ms_max=IDLE_MS_MAX)
            if isinstance(cell.fault, ClientKill):
                fired, errors, reason = with_killed_client(cell, cell.fault, program_input, cell.count(seed))
            else:
                fired, errors, reason = self._under_strike(cell, program_input, cell.count(seed))
            found = cell.program.found(program_input)
        except EnvironmentFailure as failure:
            return Observed(reason=failure.summary)
        return Observed.count(program_input.values, found, fired=fired, errors=errors, reason=reason)

    def _under_strike(self, cell: Cell, program_input: ProgramInput, count: int) -> Outcome:
        role, how = ON_NODES[cell.fault.name]
        running_strike = NodeStrike(
            self._cluster, how, partial(self._node_of, ROLES[role](program_input), program_input), cell.strike.hold_ms
        )
        errors, reason = [], ""
        try:
            struck = replace(program_input, on_step=AtMoment(cell.program.moment, count, running_strike.begin))
            errors = [error.summary for error in cell.program.survive(struck)]
        except EnvironmentFailure as failure:
            reason = failure.summary
        finally:
            running_strike.mend()
        self._cluster.wait_until_ready()
        wait_until(self._is_in_sync, "all replicas are in sync", IN_SYNC_S_MAX)
        return {cell.kinds[0]: running_strike.fired}, errors, reason

    def _node_of(self, topic: str, program_input: ProgramInput) -> int:
        """Who leads the topic's first partition, or the one that knows this group or transactional id."""
        partitions = self._topics()[topic].partitions
        is_internal = topic in (GROUPS, TRANSACTIONS)
        return int(partitions[coordinator_partition(program_input.name, len(partitions)) if is_internal else 0].leader)

    def _is_in_sync(self) -> bool:
        places = [place for topic in self._topics().values() for place in topic.partitions.values()]
        return all(place.leader > 0 and len(place.isrs) == len(place.replicas) for place in places)

    def _topics(self) -> Any:
        return self._admin.list_topics(timeout=WAIT_S_MAX).topics


class NodeStrike:
    """A node that is killed, restarted or stopped in place, and mended a while later or at the end."""

    def __init__(self, cluster: ApacheCluster, how: str, whom: Callable[[], int], hold_ms: float) -> None:
        """Nothing is broken yet."""
        self._cluster, self._how, self._whom = cluster, how, whom
        self._mending = threading.Timer(0 if how == RESTARTED else hold_ms / 1000, self._mend)
        self._node = 0
        self.fired = 0

    def begin(self) -> None:
        """Break the broker that has the part now."""
        # Asked now: leaders and coordinators have moved with every cell before this one.
        self._node = self._whom()
        if self._how == PAUSED:
            self._cluster.pause_node(self._node)
        else:
            self._cluster.kill_node(self._node)
        self.fired += 1
        self._mending.start()

    def _mend(self) -> None:
        # Taken out first: the timer and the end of the cell may both come here.
        node, self._node = self._node, 0
        if node and self._how == PAUSED:
            self._cluster.resume_node(node)
        elif node:
            self._cluster.start_node(node)

    def mend(self) -> None:
        """Mend now what is not mended yet."""
        if self._mending.ident is not None:
            self._mending.cancel()
            self._mending.join()
        self._mend()
