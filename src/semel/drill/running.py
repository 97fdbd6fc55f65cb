"""Run a cell: a cluster of its own, the program, the fault at its moment, and a count of what came out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from semel.drill.cells import KILL_CLIENT, Cell, ClientKill, Observed
from semel.drill.client_life import killed_at
from semel.drill.damage.records import WAIT_S_MAX, Reachable, commit_positions, consumer, producer, wait_until
from semel.drill.drill_cluster import CONFIG, wait_in_sync
from semel.drill.programs import ProgramInput
from semel.drill.stories import STORY_OF
from semel.drill.story_ways import StoryFault
from semel.drill.strikes import RunningStrike, Scene
from semel.engine.embedded import Cluster
from semel.errors import EnvironmentFailure

RECORDS = 60
FELT_S_MAX = 60.0
SOURCE, TARGET, PARTITIONS = "orders", "results", 2


def run_cell(cell: Cell, seed: int, folder: Path) -> Observed:
    """Run it; the folder takes the logs and what the program keeps. What could not be done is the reason."""
    # A story has a cluster and clients of its own.
    if isinstance(cell.fault, StoryFault):
        return STORY_OF[cell.fault.name].run(folder)
    try:
        return _run(cell, seed, folder)
    except EnvironmentFailure as failure:
        return Observed(reason=failure.summary)


def _run(cell: Cell, seed: int, folder: Path) -> Observed:
    # Lost and slow syncs are felt only by a cluster that syncs.
    flush = "os" if isinstance(cell.fault, ClientKill) else cell.strike.flush
    topics = [f"{SOURCE}:{PARTITIONS}:3", f"{TARGET}:1:3"]
    with Cluster(brokers=3, topics=topics, config=CONFIG, flush=flush, data=folder / "cluster") as cluster:
        program_input = prepared(cluster, cell, folder / "results.db")
        wait_in_sync(cluster)
        if isinstance(cell.fault, ClientKill):
            fired, errors, reason = with_killed_client(cell, cell.fault, program_input, cell.count(seed))
        else:
            fired, errors, reason = _under_strike(cell, cluster, program_input, cell.count(seed))
        wait_in_sync(cluster)
        found = cell.program.found(program_input)
    return Observed.count(program_input.values, found, fired=fired, errors=errors, reason=reason)


Outcome = tuple[dict[str, int], list[str], str]


def _under_strike(cell: Cell, cluster: Cluster, program_input: ProgramInput, count: int) -> Outcome:
    way, strike, reason = cell.program, cell.strike, ""
    errors: list[str] = []
    scene = Scene(
        cluster=cluster,
        source=program_input.source,
        target=program_input.target,
        name=program_input.name,
        apis=way.apis,
    )
    with ExitStack() as stack:
        running_strike = RunningStrike(strike=strike, scene=scene, stack=stack)
        if strike.at_start:
            running_strike.begin()
        else:
            program_input = replace(program_input, on_step=AtMoment(way.moment, count, running_strike.begin))
        try:
            errors = [error.summary for error in way.survive(program_input)]
            # The program may be done before its clients' own threads have met the fault.
            if running_strike.faults:
                wait_until(lambda: running_strike.is_felt, f"everything was felt: {running_strike}", FELT_S_MAX)
        except EnvironmentFailure as failure:
            reason = failure.summary
        running_strike.wait_mended()
    return {str(fault): fault.fired for fault in running_strike.faults}, errors, reason


def with_killed_client(cell: Cell, kill: ClientKill, program_input: ProgramInput, count: int) -> Outcome:
    """One life that dies at its step, then as many as it takes; what fired, the errors, and why nothing was shown."""
    program_input = replace(program_input, member="worker")
    fault = f"{KILL_CLIENT} step={kill.step}"
    try:
        killed_at(cell.program, program_input, kill.step, count)
        errors = [error.summary for error in cell.program.survive(program_input)]
    except EnvironmentFailure as failure:
        return {fault: 0}, [], failure.summary
    return {fault: 1}, errors, ""


class AtMoment:
    """Strikes once, when the work has come to a step for the n-th time."""

    def __init__(self, moment: str, count: int, strike: Callable[[], None]) -> None:
        """Nothing has happened yet."""
        self._moment, self._left, self._strike = moment, count, strike

    def __call__(self, step: str) -> None:
        """Count."""
        if step == self._moment:
            self._left -= 1
            if self._left == 0:
                self._strike()


def prepared(
    cluster: Reachable, cell: Cell, store: Path, *, source: str = SOURCE, target: str = TARGET
) -> ProgramInput:
    """The input in its topic, and a group that stands at its beginning: at most once does not choose that by itself."""
    values = [str(number) for number in range(RECORDS)]
    if cell.way.path != "produce":
        client = producer(cluster, {"enable.idempotence": True})
        for number, value in enumerate(values):
            client.produce(source, value, partition=number % PARTITIONS)
        if client.flush(WAIT_S_MAX):
            raise EnvironmentFailure("the input of the cell could not be written")
        _commit_start(cluster, source)
    # The program is done when its group stands there.
    ends = tuple(RECORDS // PARTITIONS for _ in range(PARTITIONS))
    return ProgramInput(
        bootstrap=cluster.bootstrap, source=source, target=target, values=values, ends=ends, store=store
    )


def _commit_start(cluster: Reachable, source: str) -> None:
    member = consumer(cluster, source)
    commit_positions(member, source, dict.fromkeys(range(PARTITIONS), 0))
    member.close()
