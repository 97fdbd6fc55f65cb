"""The parts of semel that need no Spark, each doing a little of its work as one user."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import semel
from semel.audit.places import Topic
from semel.audit.topics import bound_topics
from semel.cli import main
from semel.errors import SemelError
from semel.guarantee import Guarantee
from semel.sinks.base import MicroBatch, Run
from semel.sinks.kafka.session import KafkaSession
from semel.sinks.kafka.sink import KafkaOutput
from semel.sinks.recovery import Plan
from semel.sinks.run_ids import run_query_id
from semel.spark.options import SourceOptions
from semel.spark.stream_plan import StreamPlan
from semel.spark.view import KafkaView
from semel.wire.cluster import WireCluster
from semel.wire.fetch import fetch
from semel.wire.produce import send_batches
from semel.wire.settings import WireSettings
from semel.wire.topology import TopicPartition
from tests.wire.records import batch_of

IDLE_MS_MAX = 30_000
API_MS_MAX = "8000"


class PartFailed(Exception):
    """What somebody without a right gets to see."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A cluster as one user reaches it, and names that no other run uses."""

    client: Mapping[str, str]  # librdkafka's settings
    folder: Path
    prefix: str

    def name(self, text: str) -> str:
        """A name of this run."""
        return f"{self.prefix}{text}"

    @property
    def bootstrap(self) -> str:
        """Where the cluster is."""
        return self.client["bootstrap.servers"]

    @property
    def own_settings(self) -> dict[str, str]:
        """The settings beside the address."""
        return {name: value for name, value in self.client.items() if name != "bootstrap.servers"}

    @property
    def options(self) -> dict[str, str]:
        """The same as options of the source and the sink."""
        jaas = (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="{self.client["sasl.username"]}" password="{self.client["sasl.password"]}";'
        )
        return {
            "kafka.bootstrap.servers": self.bootstrap,
            "kafka.security.protocol": self.client["security.protocol"],
            "kafka.sasl.mechanism": self.client["sasl.mechanism"],
            "kafka.sasl.jaas.config": jaas,
            "kafka.default.api.timeout.ms": API_MS_MAX,
        }

    def command(self, *arguments: str) -> str:
        """Run a command with the user's settings; its output, or PartFailed with it."""
        file = self.folder / "client.properties"
        names = {name.removeprefix("kafka."): value for name, value in self.options.items()}
        del names["bootstrap.servers"]
        file.write_text("".join(f"{name}={value}\n" for name, value in names.items()))
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = main([*arguments, "--bootstrap", self.bootstrap, "--command-config", str(file)])
        if code:
            raise PartFailed(out.getvalue())
        return out.getvalue()


def producer(stage: Stage) -> None:
    """Every guarantee without a transaction."""
    for guarantee in (Guarantee.AT_MOST_ONCE, Guarantee.AT_LEAST_ONCE, Guarantee.EXACTLY_ONCE):
        with semel.Producer(stage.bootstrap, guarantee=guarantee, settings=stage.own_settings) as made:
            made.send(stage.name("bills"), b"one").result()


def consumer(stage: Stage) -> None:
    """Read and commit."""
    with semel.Consumer(
        stage.bootstrap,
        [stage.name("orders")],
        group=stage.name("billing"),
        guarantee=Guarantee.AT_LEAST_ONCE,
        settings={**stage.own_settings, "auto.offset.reset": "earliest"},
    ) as made:
        for _ in made.batches(idle_ms_max=IDLE_MS_MAX):
            made.commit()
            break


def store(stage: Stage) -> None:
    """Offsets beside the results, none in Kafka."""
    kept = semel.SqliteStore(str(stage.folder / "results.db"))
    settings = {**stage.own_settings, "auto.offset.reset": "earliest"}
    with semel.Consumer(
        stage.bootstrap,
        [stage.name("orders")],
        group=stage.name("billing"),
        guarantee=Guarantee.EXACTLY_ONCE,
        settings=settings,
        store=kept,
    ) as made:
        for batch in made.batches(idle_ms_max=IDLE_MS_MAX):
            with kept.transaction(batch) as transaction:
                transaction.execute("CREATE TABLE IF NOT EXISTS seen (value BLOB)")
            break


def transaction(stage: Stage) -> None:
    """Consume, process, produce."""
    with (
        semel.Producer(
            stage.bootstrap,
            guarantee=Guarantee.EXACTLY_ONCE,
            transactional_id=stage.name("billing"),
            settings=stage.own_settings,
        ) as made,
        semel.Consumer(
            stage.bootstrap,
            [stage.name("orders")],
            group=stage.name("billing"),
            guarantee=Guarantee.EXACTLY_ONCE,
            settings={**stage.own_settings, "auto.offset.reset": "earliest"},
        ) as read,
    ):
        for batch in read.batches(idle_ms_max=IDLE_MS_MAX):
            with made.transaction() as tx:
                for order in batch:
                    tx.send(stage.name("bills"), order.value)
                tx.commit_offsets(read)
            break


def source(stage: Stage, **more: str) -> None:
    """What the driver asks, and what a task reads."""
    given = {**stage.options, "subscribe": stage.name("orders"), "startingOffsets": "earliest", **more}
    options = SourceOptions.parse(given, streaming=True)
    plan = StreamPlan(options, KafkaView(options, takes_over=bool(more)))
    start = plan.initial()
    end = plan.latest(start, None)
    assert plan.ranges(start, end) or more, "only a pipeline's output may hold all there is"
    view = KafkaView(options)
    place = TopicPartition(stage.name("orders"), 0)
    assert place in fetch(view.cluster, {place: 0}, deadline=view.cluster.deadline())


def source_of_pipeline(stage: Stage) -> None:
    """The same with the option `ledger`."""
    source(stage, ledger=stage.name("billing"), startingOffsets="ledger")


def _session(stage: Stage) -> KafkaSession:
    return KafkaOutput(stage.options, stage.name("bills")).open(stage.name("billing"))


def sink(stage: Stage) -> None:
    """One micro-batch, exactly once."""
    session = _session(stage)
    place = TopicPartition(stage.name("orders"), 0)
    micro_batch = MicroBatch(
        pipeline=stage.name("billing"),
        query_id="query",
        id=0,
        guarantee=Guarantee.EXACTLY_ONCE,
        offsets={place: 1},
        offsets_before={place: 0},
    )
    identity = session.own()
    session.read_ledger(micro_batch)
    decision = session.decide(micro_batch, is_stateful=False, checkpoint="")
    if decision.error is not None:
        raise decision.error
    assert decision.action is Plan.RUN
    session.begin()
    rows = [(TopicPartition(stage.name("bills"), 0), batch_of(["one"], transactional=True))]
    send_batches(session.cluster, rows, producer=identity, deadline=session.cluster.deadline())
    session.write_ledger(micro_batch)
    session.commit()


def batch_sink(stage: Stage) -> None:
    """A batch job with a run id."""
    session = _session(stage)
    run = Run(id="monday")
    job = MicroBatch(
        pipeline=stage.name("billing"),
        query_id=run_query_id(run),
        id=0,
        guarantee=Guarantee.EXACTLY_ONCE,
        offsets=None,
        run=run,
    )
    if session.prepare_run(job) is None:
        raise PartFailed("how long runs are remembered is not known")
    session.own()
    session.read_ledger(job)
    assert session.plan_run(job) is Plan.RUN
    session.begin()
    session.write_ledger(job)
    session.commit()


def check(stage: Stage) -> None:
    """Every rule about a live cluster can be judged."""
    names = ("--topic", stage.name("bills"), "--group", stage.name("billing"))
    more = ("--transactional-id", stage.name("billing"))
    try:
        said = stage.command("check", *names, *more)
    except PartFailed as failed:
        said = str(failed)
    if "UNKNOWN" in said:
        raise PartFailed(said)


def audit(stage: Stage) -> None:
    """What is asked before Spark starts, for topics of a pipeline, and a record of each side."""
    with contextlib.closing(WireCluster(WireSettings.from_options(stage.options))) as cluster:
        topics = [
            (Topic(text=name, bootstrap=stage.bootstrap, name=stage.name(name)), cluster)
            for name in ("orders", "bills")
        ]
        ours, theirs = bound_topics(topics[0], topics[1:], stage.name("billing"))
        for (topic, _), bounds in zip(topics, (ours, *theirs), strict=True):
            assert bounds is not None
            if bounds.incomplete:
                raise PartFailed("\n".join(one.text for one in bounds.incomplete))
            place = TopicPartition(topic.name, 0)
            assert place in fetch(cluster, {place: 0}, deadline=cluster.deadline())


def status(stage: Stage) -> None:
    """Look at a pipeline."""
    said = stage.command("pipeline", "status", stage.name("billing"))
    if "unknown" in said.lower():
        raise PartFailed(said)


def reset(stage: Stage) -> None:
    """Move a pipeline."""
    stage.command("pipeline", "reset", stage.name("billing"), "--to", "earliest", "--yes")


def release(stage: Stage) -> str:
    """Give the name of a pipeline up."""
    return stage.command("pipeline", "release", stage.name("billing"), "--yes")


def release_of_runs(stage: Stage) -> None:
    """The same with the run ids of its batch jobs."""
    said = release(stage)
    if "1 run id of a batch job is deleted" not in said:
        raise PartFailed(said)


PARTS: dict[str, Callable[[Stage], None]] = {  # by their headings in the guide
    "Producer": producer,
    "Consumer": consumer,
    "Consumer with a store": store,
    "Producer and Consumer in one transaction": transaction,
    "Spark source": source,
    "Spark source that knows its pipeline": source_of_pipeline,
    "Exactly-once sink": sink,
    "Batch job with a run id": batch_sink,
    "semel check": check,
    "semel audit": audit,
    "semel pipeline status": status,
    "semel pipeline reset": reset,
    "semel pipeline release": release_of_runs,
}
OF_A_PIPELINE = (
    "Spark source that knows its pipeline",
    "semel check",
    "semel audit",
    "semel pipeline status",
    "semel pipeline reset",
)
OF_BATCH_JOBS = ("semel pipeline release",)


def attempt(part: str, stage: Stage) -> str:
    """What somebody sees who runs a part: nothing when it works."""
    try:
        PARTS[part](stage)
    except (SemelError, PartFailed) as error:
        return "\n".join([str(error), *getattr(error, "__notes__", ())])
    return ""
