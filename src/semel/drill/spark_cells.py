"""Cells with Spark: one session, one cluster and one PostgreSQL for all of them, as starting these takes long.

Each cell has topics, an output, a checkpoint and a pipeline of its own. A cell that leaves the cluster broken costs the
next one a new cluster. Apache Kafka can stand in for the embedded cluster, for the cells that do not strike it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from semel.drill.cells import Cell, Observed
from semel.drill.damage.records import WAIT_S_MAX, Reachable, new_topic, producer, wait_until
from semel.drill.drill_cluster import CONFIG, wait_in_sync
from semel.drill.running import FELT_S_MAX, PARTITIONS, RECORDS, Outcome
from semel.drill.spark_life import killed_life
from semel.drill.spark_pipeline import AtStep, Killed, Pipeline, session_settings, summary
from semel.drill.spark_targets import Target, new_target
from semel.drill.spark_ways import KAFKA, POSTGRES, Act, SparkFault, SparkWay
from semel.drill.strikes import RunningStrike, Scene
from semel.engine.embedded import Cluster
from semel.engine.java import spark_environment
from semel.engine.postgres import PostgresServer
from semel.errors import EnvironmentFailure, FencedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BROKERS = 3
IN_TASKS = (Act.FAIL_TASK, Act.KILL_TASK, Act.FAIL_WRITTEN_TASK)
# As on a cluster a task that fails is tried again, up to three times; `local[2]` would end the job at once.
MASTER = "local[2,4]"
NOT_FENCED = "a driver was replaced, and its successor did not fence it"


class SparkCells:
    """Runs cells one after the other; what they need is started when the first of them needs it."""

    def __init__(
        self,
        folder: Path,
        *,
        elsewhere: Reachable | None = None,
        replicas: int = BROKERS,
        spark: SparkSession | None = None,
    ) -> None:
        """`elsewhere` is a cluster of Apache Kafka that runs already, with so many nodes; `spark` a running session."""
        self._folder, self._elsewhere, self._replicas = folder, elsewhere, replicas
        self._stack = ExitStack()
        self._cluster: Cluster | None = None
        self._spark = spark
        self._postgres: PostgresServer | None = None

    def __enter__(self) -> SparkCells:
        """Nothing is started yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """End what was started: the session last, since its JVM may be gone already."""
        self._drop_cluster()
        self._stack.close()

    def run(self, cell: Cell, seed: int, folder: Path) -> Observed:
        """Run one; the folder takes its checkpoint. What could not be done is the reason."""
        assert isinstance(cell.fault, SparkFault)
        assert isinstance(cell.way, SparkWay)
        values = [str(number) for number in range(RECORDS)]
        try:
            pipeline = self._prepared(cell.way, values, folder)
            fired, errors, reason, broken = self._break(pipeline, cell.fault, cell.way, cell.count(seed))
            if self._cluster is not None:
                wait_in_sync(self._cluster)
            found = pipeline.target.found()
        except EnvironmentFailure as failure:
            self._drop_cluster()
            return Observed(reason=failure.summary)
        return Observed.count(values, found, fired=fired, errors=errors, reason=reason, broken=broken)

    # --- what a cell needs

    def _prepared(self, way: SparkWay, values: list[str], folder: Path) -> Pipeline:
        cluster, spark = self._running_cluster(), self._session()
        source = new_topic(cluster, f"orders-{os.getpid()}", partitions=PARTITIONS, replicas=self._replicas)
        client = producer(cluster, {"enable.idempotence": True})
        for number, value in enumerate(values):
            client.produce(source, value, partition=number % PARTITIONS)
        if client.flush(WAIT_S_MAX):
            raise EnvironmentFailure("the input of the cell could not be written")
        return Pipeline(
            spark=spark,
            bootstrap=cluster.bootstrap,
            source=source,
            path=way.path,
            target=self._target(way.path, cluster, folder),
            guarantee=way.guarantee,
            folder=folder,
        )

    def _target(self, path: str, cluster: Reachable, folder: Path) -> Target:
        place = str(folder)
        if path == KAFKA:
            place = cluster.bootstrap
        elif path == POSTGRES:
            place = self._server().conninfo
        return new_target(path, place, self._replicas)

    def _running_cluster(self) -> Reachable:
        if self._elsewhere is not None:
            return self._elsewhere
        if self._cluster is None:
            self._cluster = Cluster(brokers=BROKERS, config=CONFIG)
            self._cluster.start()
        wait_in_sync(self._cluster)
        return self._cluster

    def _drop_cluster(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.stop()

    def _session(self) -> SparkSession:
        from semel.spark.sessions import session  # noqa: PLC0415  (an optional part)

        if self._spark is None:
            os.environ.update(spark_environment())
            self._spark = session("semel drill", master=MASTER, config=session_settings(self._folder))
            # Stack traces are the point of a drill, and would hide its report.
            self._spark.sparkContext.setLogLevel("OFF")
            self._stack.callback(_stop, self._spark)
        return self._spark

    def _server(self) -> PostgresServer:
        if self._postgres is None:
            self._postgres = self._stack.enter_context(PostgresServer())
        return self._postgres

    # --- what is done to it

    def _break(self, pipeline: Pipeline, fault: SparkFault, way: SparkWay, count: int) -> tuple[*Outcome, str]:
        """What fired, the errors, why nothing was shown, and what else was promised and not kept."""
        if fault.strike is not None:
            return *self._under_strike(pipeline, fault, way, count), ""
        assert fault.act is not None
        if fault.act is Act.KILL_JVM:
            killed_life(pipeline, fault.step, count)
            return {fault.name: 1}, pipeline.survive(), "", ""
        if fault.act in IN_TASKS:
            return *self._with_broken_task(pipeline, fault, fault.act, count), ""
        act, finish = self._act(pipeline, fault.act)
        at_step = AtStep(fault.step, count, act)
        first = pipeline.run(at_step)
        # A sink may live through the end of its database; through its own end, or a successor, no driver does.
        if not first and fault.act in (Act.KILL_DRIVER, Act.LOSE_CHECKPOINT):
            return {fault.name: 0}, [], "the driver was to end there and did not", ""
        errors = [*([summary(first)] if first else []), *finish()]
        # What the successor has committed may keep it from doing harm. That it hears of its successor is promised.
        is_unfenced = fault.act is Act.TWO_DRIVERS and FencedError.__name__ not in first
        return {fault.name: at_step.fired}, errors, "", NOT_FENCED if is_unfenced else ""

    def _act(self, pipeline: Pipeline, act: Act) -> tuple[Callable[[], None], Callable[[], list[str]]]:
        """What is done at the step, and how the pipeline is brought to its end afterwards."""
        match act:
            case Act.KILL_DRIVER:
                return _die, pipeline.survive
            case Act.LOSE_CHECKPOINT:
                return _die, lambda: _survive_without_checkpoint(pipeline)
            case Act.KILL_POSTGRES:
                return self._restart_postgres, pipeline.survive
            case Act.TWO_DRIVERS:
                newer = Successor(pipeline)
                return newer.take_over, newer.check
            case _:
                raise AssertionError(act)

    def _restart_postgres(self) -> None:
        """Between the last statement and the commit: what was not committed is gone, and so is the connection."""
        server = self._server()
        server.kill()
        server.start_again()

    def _with_broken_task(self, pipeline: Pipeline, fault: SparkFault, act: Act, count: int) -> Outcome:
        pipeline.break_tasks(act)
        errors = pipeline.survive(AtStep(fault.step, count, pipeline.arm))
        return {fault.name: int(pipeline.is_struck)}, errors, ""

    def _under_strike(self, pipeline: Pipeline, fault: SparkFault, way: SparkWay, count: int) -> Outcome:
        assert fault.strike is not None
        assert self._cluster is not None
        target = pipeline.target.name if way.path == KAFKA else pipeline.source
        scene = Scene(cluster=self._cluster, source=pipeline.source, target=target, name=pipeline.name, apis=way.apis)
        errors, reason = [], ""
        with ExitStack() as stack:
            running_strike = RunningStrike(strike=fault.strike, scene=scene, stack=stack)
            try:
                errors = pipeline.survive(AtStep(fault.step, count, running_strike.begin))
                if running_strike.faults:
                    wait_until(lambda: running_strike.is_felt, f"everything was felt: {running_strike}", FELT_S_MAX)
            except EnvironmentFailure as failure:
                reason = failure.summary
            running_strike.wait_mended()
        return {str(one): one.fired for one in running_strike.faults}, errors, reason


def _stop(spark: SparkSession) -> None:
    with suppress(Exception):  # a drill that was interrupted has ended the JVM
        spark.stop()


def _die() -> None:
    raise Killed("the drill ends this driver here")


def _survive_without_checkpoint(pipeline: Pipeline) -> list[str]:
    pipeline.lose_checkpoint()
    return pipeline.survive()


class Successor:
    """A second driver of a pipeline, which does all there is while the first is in the middle of a micro-batch."""

    def __init__(self, pipeline: Pipeline) -> None:
        """It is not started yet."""
        self._pipeline = pipeline
        self._failure = "it was never started"

    def take_over(self) -> None:
        """Start it, and let it come to its end."""
        self._failure = self._pipeline.succeed()

    def check(self) -> list[str]:
        """Nobody has to go on: it is done. If it is not, this cell has shown nothing."""
        if self._failure:
            raise EnvironmentFailure(f"the second driver failed: {summary(self._failure)}")
        return []
