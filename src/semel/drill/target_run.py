"""Run a target: its program works while the cluster breaks under it and while it is killed; then its output is counted.

1. Steady state: some input, with nothing broken. What does not come out now is no fault's doing.
2. Method, in rounds: some input, then faults by the schedule while the program works on it. A program that ends is
   started again, as a supervisor would; in some rounds it is killed in the middle of its work.
3. Rollback: everything is mended, and some input more has to come out: then the program has caught up.
4. The program is ended, and a reader that knows only the ids counts.

Why: input is written between the faults, never under them. So no fault is spent on the drill's own producer.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from semel.drill.cells import Observed
from semel.drill.commands import RunningCommand, last_lines
from semel.drill.drill_cluster import CONFIG, wait_in_sync
from semel.drill.numbered_records import arrived_ids, ids_of, send_ids
from semel.drill.run_folder import scratch_folder
from semel.drill.target import BROKERS, Round, Target
from semel.engine.embedded import Cluster
from semel.errors import EnvironmentFailure
from semel.faults import played

if TYPE_CHECKING:
    from semel.broker.cluster import ClusterCore

BOOTSTRAP, INPUT, OUTPUT = "SEMEL_BOOTSTRAP_SERVERS", "SEMEL_INPUT_TOPIC", "SEMEL_OUTPUT_TOPIC"
KILL_PROGRAM = "kill-program"
PROGRAM_LOG = "program.log"
PAUSE_S = 0.01
RESTART_PAUSE_S = 0.2
KILL_S_MAX = 30.0
STOP_S_MAX = 10.0


@dataclass(kw_only=True)
class TargetRun:
    """One run of a target on a cluster of its own."""

    target: Target
    rounds: list[Round]
    folder: Path
    narrate: Callable[[str], None]
    starts: int = 0
    kills: int = 0
    fired: Counter[str] = field(default_factory=Counter)
    sent: list[str] = field(default_factory=list)

    def run(self) -> Observed:
        """Break the program, and count."""
        topics = [f"{one.name}:{one.partitions}:{BROKERS}" for one in (self.target.source, self.target.target)]
        with (
            (self.folder / PROGRAM_LOG).open("a+b") as log,
            scratch_folder() as logs,
            Cluster(brokers=BROKERS, topics=topics, config=CONFIG, data=logs / "cluster") as cluster,
        ):
            wait_in_sync(cluster)
            program = Program(self.target, cluster, log.fileno())
            try:
                reason = self._break(cluster, program, log.fileno())
            finally:
                program.end()
                self.starts = program.starts
            found = Counter(self._arrived(cluster))
        fired = {**self.fired, **({KILL_PROGRAM: self.kills} if self.kills else {})}
        asked = sum(one.kill_after > 0 for one in self.rounds)
        missed = f"killed {self.kills} of {asked} times" if self.kills < asked else ""
        return Observed.count(self.sent, found, fired=fired, errors=[], reason=reason, missed=missed)

    def _break(self, cluster: Cluster, program: Program, log: int) -> str:
        """The three parts; why there is nothing to judge, if there is not."""
        self.narrate("steady state: the program works, nothing is broken")
        self._send(cluster, 0)
        if not self._comes_out(cluster, program, 0):
            raise EnvironmentFailure(
                f"of {self.target.records} records not all came out of the program within "
                f"{self.target.steady_s_max:.0f} s, although nothing was broken",
                because=last_lines(log),
                you_want=f"a program that reads ${INPUT} and writes each id to ${OUTPUT}, on ${BOOTSTRAP}",
            )
        for number, one in enumerate(self.rounds, 1):
            kill = f", killed after {one.kill_after} records" if one.kill_after else ""
            self.narrate(f"round {number} of {len(self.rounds)}: {len(one.schedule.entries)} faults{kill}")
            # Before the input: a quick program has worked off most of it by the time that all is sent.
            before = _output_end(cluster, self.target)
            self._send(cluster, number)
            self._play(cluster, program, one, before)
            wait_in_sync(cluster)
        self.narrate("rollback: everything is mended")
        last = len(self.rounds) + 1
        self._send(cluster, last)
        if not self._comes_out(cluster, program, last):
            return f"the program has not caught up {self.target.steady_s_max:.0f} s after everything was mended"
        return ""

    def _play(self, cluster: Cluster, program: Program, one: Round, before: int) -> None:
        """Play the faults, and kill the program when its output is so much longer than `before`."""
        begun = time.monotonic()
        is_killed = not one.kill_after
        with played(cluster, one.schedule) as playing:
            while True:
                program.keep_running()
                # A program that has ended by itself is killed in its next life.
                if not is_killed and _output_end(cluster, self.target) - before >= one.kill_after and program.kill():
                    self.kills += 1
                    is_killed = True
                # A program that a fault holds up, or that loses records, may never come so far.
                if is_killed or time.monotonic() - begun > KILL_S_MAX:
                    if playing.wait(PAUSE_S):
                        break
                else:
                    time.sleep(PAUSE_S)
        for entry in one.schedule.entries:
            if entry.fault.fired:
                self.fired[entry.fault.name] += entry.fault.fired

    def _send(self, cluster: Cluster, part: int) -> None:
        ids, topic = ids_of(part, self.target.records), self.target.source
        send_ids(cluster, topic.name, ids, partitions=topic.partitions, value=self.target.value)
        self.sent += ids

    def _comes_out(self, cluster: Cluster, program: Program, part: int) -> bool:
        """Wait until everything of one part has arrived."""
        wanted, deadline = set(ids_of(part, self.target.records)), time.monotonic() + self.target.steady_s_max
        while not wanted <= set(self._arrived(cluster)):
            if time.monotonic() > deadline:
                return False
            program.keep_running()
            time.sleep(PAUSE_S)
        return True

    def _arrived(self, cluster: Cluster) -> list[str]:
        return arrived_ids(cluster, self.target.target.name, partitions=self.target.target.partitions)


class Program:
    """The user's program, started again whenever it ends."""

    def __init__(self, target: Target, cluster: Cluster, log: int) -> None:
        self._target, self._log = target, log
        self._environment = {
            BOOTSTRAP: cluster.bootstrap,
            INPUT: target.source.name,
            OUTPUT: target.target.name,
        }
        self.starts = 0
        self._running = self._start()
        self._ended_at = 0.0

    def _start(self) -> RunningCommand:
        self.starts += 1
        return RunningCommand(
            self._target.command, self._log, environment=self._environment, folder=self._target.folder
        )

    def keep_running(self) -> None:
        """Start it again, a moment after it has ended."""
        if self.is_running:
            return
        self._running.kill()  # what it has left behind in its group
        self._ended_at = self._ended_at or time.monotonic()
        if time.monotonic() - self._ended_at >= RESTART_PAUSE_S:
            self._running, self._ended_at = self._start(), 0.0

    @property
    def is_running(self) -> bool:
        """Whether it has not ended by itself."""
        return self._running.process.poll() is None

    def kill(self) -> bool:
        """SIGKILL; False if it had ended by itself."""
        if not self.is_running:
            return False
        self._running.kill()
        return True

    def end(self) -> None:
        """For good."""
        # Asked first: a program that ends in order commits what it has done.
        self._running.end(STOP_S_MAX)


def _output_end(cluster: Cluster, target: Target) -> int:
    """How long the output's partitions are together, open transactions included, without asking as a client."""

    async def look(core: ClusterCore) -> int:
        places = [(target.target.name, number) for number in range(target.target.partitions)]
        ends = Counter[tuple[str, int]]()
        for broker in core.brokers.values():
            for place in places:
                if (found := broker.partitions.get(place)) is not None:
                    ends[place] = max(ends[place], found.log.log_end_offset)
        return ends.total()

    return cluster.run(look)
