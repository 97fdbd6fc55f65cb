"""The driver's half of the Kafka sink: one Kafka transaction per micro-batch, output rows and source offsets together.

The driver owns the transaction; tasks write under its producer id and epoch. Here is what the steps of a commit are
made of: take ownership, read the ledger, open, commit, abort. `rows` is the tasks' half, `stages` says how Spark brings
them together, and `semel.sinks.commit` has the order that the guarantee needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, assert_never
from uuid import UUID

from semel.errors import BrokerError, ConfigError, FencedError, OutcomeUnknownError, SinkError
from semel.guarantee import Guarantee
from semel.protocol.coordinator_partition import GROUP_TOPIC
from semel.protocol.error_codes import ErrorCode
from semel.sinks.base import RUNS_MAX, ErrorKind, MicroBatch, Results, RowsAhead, SinkSession, WritePlan
from semel.sinks.commands import repair_command, reset_command, status_command
from semel.sinks.kafka.evidence import gather, topic_ids
from semel.sinks.kafka.ledger import entries_missing, ledger_entries, newest_entries, read_ledger
from semel.sinks.kafka.ownership import check_has_no_members, check_not_taken_over, new_producer, taken_over
from semel.sinks.kafka.retention import ledger_kept_ms
from semel.sinks.kafka.rows import RowWriter
from semel.sinks.kafka.runs import check_kept, plan_run, run_entries, run_group, run_places, was_written
from semel.sinks.kafka.settling import Reach, take_over
from semel.sinks.kafka.stages import ANONYMOUS, Partitioning, counted_rows, largest_row, plan_stages
from semel.sinks.kafka.targets import Targets
from semel.sinks.ledger import Ledger
from semel.sinks.recovery import Decision, Evidence, LedgerMissing, Plan, Situation, decide
from semel.sinks.run_ids import check_kind
from semel.wire.cluster import WireCluster, shared_cluster
from semel.wire.deadline import Deadline
from semel.wire.group_offsets import CommittedOffset, commit_offsets, committed_offsets
from semel.wire.produce import ProducerIdentity
from semel.wire.topology import TopicInfo, TopicPartition
from semel.wire.transaction import TransactionClient
from semel.world.clock import RealClock

if TYPE_CHECKING:
    from semel.sinks.kafka.sink import KafkaOutput

NEW_TOPIC_MS_MAX, NEW_TOPIC_PAUSE_MS = 2_000, 50
# Topics seldom change: to ask at every micro-batch would cost time and bring nothing.
TARGETS_AGE_MS_MAX = 1_000
# Words in the text of an error, since Spark hands on a task's error as text: wrong rows or settings stay wrong.
FINAL = ("ConfigError", "MESSAGE_TOO_LARGE", "INVALID_RECORD", "AUTHORIZATION_FAILED", "UNKNOWN_TOPIC_OR_PARTITION")


class KafkaSession(SinkSession):
    """One driver's hold on a pipeline: the functions that the commit steps are made of."""

    def __init__(self, sink: KafkaOutput, pipeline: str, is_called_off: Callable[[], bool]) -> None:
        """Look up the output topics; an unknown one is refused before anything runs.

        `is_called_off` says whether nobody waits for this driver any more: then it does not wait long for brokers.
        """
        self.sink = sink
        self.pipeline = pipeline
        self._is_called_off = is_called_off
        self.cluster: WireCluster = shared_cluster(sink.wire)
        self._output_ids: dict[str, UUID | None] = {}
        self.targets = self._find_targets()
        check_has_no_members(self.cluster, pipeline, self._deadline())
        self._transaction = TransactionClient(self.cluster, pipeline, timeout_ms=sink.transaction_timeout_ms)
        self._ledger = Ledger()
        self._beside = Evidence()
        self._topic_ids: dict[str, str] = {}
        self._found: dict[TopicPartition, CommittedOffset] = {}  # what the coordinator said the ledger is
        self._known: dict[TopicPartition, CommittedOffset] = {}  # what it is
        self._entries: dict[TopicPartition, CommittedOffset] = {}  # what the open transaction adds to it
        # What it was after this driver's last commit; None when there was none, or when its outcome is unknown.
        self._mine: dict[TopicPartition, CommittedOffset] | None = None
        self._run_found: dict[TopicPartition, CommittedOffset] = {}  # what the group of a batch job's run holds
        self._has_runs = False  # whether it is a batch job's
        self._run_kept_ms: int | None = None  # how long that group is kept; None when that is not known
        self._open_until: Deadline | None = None
        self._producer = ANONYMOUS  # whose epoch the rows of the open transaction carry

    def _deadline(self) -> Deadline:
        return Deadline.after_ms(self.sink.wire.api_timeout_ms, self._is_called_off)

    def _find_targets(self) -> Targets:
        # A topic that was created a moment ago is not known to every broker yet.
        deadline = self.cluster.deadline(NEW_TOPIC_MS_MAX)
        while True:
            found = self.cluster.topics(self._deadline(), self.sink.topics)
            missing = [name for name in self.sink.topics if name not in found]
            if not missing or deadline.expired:
                break
            deadline.wait_ms(NEW_TOPIC_PAUSE_MS)
        self._targets_until = Deadline.after_ms(TARGETS_AGE_MS_MAX)
        if missing:
            raise ConfigError(
                f"the output topic {missing[0]!r} does not exist",
                because="creating it here would hide a wrong name, and choose its partitions and replicas for you",
                next_command=f"kafka-topics.sh --bootstrap-server {self.sink.wire.addresses} --create "
                f"--topic {missing[0]} --partitions N",
            )
        self._check_same(found)
        return Targets.of({name: len(found[name].partitions) for name in self.sink.topics})

    def _check_same(self, found: Mapping[str, TopicInfo]) -> None:
        """Refuse an output that was replaced under a running query: what the ledger counts is gone with it (D20)."""
        ids = {name: info.topic_id for name, info in found.items()}
        for name, known in self._output_ids.items():
            if known is not None and ids[name] is not None and known != ids[name]:
                raise SinkError(
                    f"pipeline {self.pipeline!r}: its output topic {name!r} was deleted and created again while it ran",
                    because="the records that its ledger counts went with the old topic, so going on would leave a gap",
                    next_command=status_command(self.pipeline, self.sink.wire.addresses),
                )
        self._output_ids = ids

    @property
    def has_timed_out(self) -> bool:
        """Whether the broker may have aborted the open transaction by itself, because it took too long (E4)."""
        return self._open_until is not None and self._open_until.expired

    def own(self) -> ProducerIdentity:
        """Take the next producer epoch: fences every earlier owner and ends what it left open (E21).

        Once this driver owns the pipeline it asks only for the epoch after its own, so that it cannot fence a newer
        driver by mistake; after its own transaction timed out, the epoch has moved on and it takes a new one, unless
        it was somebody else who moved it.
        """
        # The broker may have aborted it and moved the epoch on, so the epoch after ours is not ours to ask for.
        new_owner = self.has_timed_out
        self._mine = None if new_owner else self._mine
        if new_owner and self._transaction.identity is not None:
            check_not_taken_over(self.cluster, self._transaction.identity, self._deadline())
        if self._targets_until.expired:
            # Partitions may have been added since, or the topic created again.
            self.targets = self._find_targets()
        try:
            reach = Reach(targets=list(self.targets), has_runs=self._has_runs)
            producer = take_over(self.cluster, self._transaction, reach, self._deadline(), new_owner=new_owner)
        except FencedError as error:
            raise taken_over(self.pipeline, error) from error
        self._open_until, self._producer = None, producer
        return producer

    def read_ledger(self, micro_batch: MicroBatch) -> Ledger:
        """What the output holds, as decided transactions say (E12).

        What this driver has committed itself it knows, since it owns the pipeline: a coordinator that still calls that
        undecided, or has not heard of it, does not stop it.
        """
        self._found = self._ask_for_ledger(micro_batch)
        self._known = newest_entries(self._found, self._mine or {})
        self._ledger = read_ledger(self.pipeline, self._known, bootstrap=self.sink.wire.addresses)
        check_kind(self._ledger.last, micro_batch)
        if micro_batch.run is not None:
            group, places = run_group(self.pipeline, micro_batch.run), run_places(self.sink.topics)
            self._run_found = self._ask_decided(group, lambda found: [] if found else places)
            self._topic_ids |= topic_ids(self.cluster, self.sink.topics)
        else:
            self._beside = self._evidence(micro_batch)
        return self._ledger

    def decide(self, micro_batch: MicroBatch, *, is_stateful: bool, checkpoint: str) -> Decision:
        """Hold a micro-batch, or a batch job's run, against the ledger that was just read; see `recovery`."""
        if micro_batch.run is not None:
            plan = self.plan_run(micro_batch)
            return Decision(action=plan, row="", reason=f"run {micro_batch.run.id!r} was written before")
        addresses = self.sink.wire.addresses
        return decide(
            Situation(
                ledger=self._ledger,
                micro_batch=micro_batch,
                evidence=self._beside,
                targets=self.sink.topics,
                is_stateful=is_stateful,
                ledger_missing=self.sink.ledger_missing,
                lost_state=self.sink.lost_state,
                checkpoint=checkpoint,
                status_command=status_command(self.pipeline, addresses, checkpoint),
                reset_command=reset_command(self.pipeline, addresses, checkpoint),
            )
        )

    def _evidence(self, micro_batch: MicroBatch) -> Evidence:
        """What is known beside the ledger; the cluster is asked only at a start, and when something may have changed.

        Offsets of one topic only grow, so smaller ones are those of a topic that was created again. Kafka deletes
        entries with their topic, so one that this driver has committed and the coordinator lacks may tell of that.
        """
        held, ends = self._ledger.offsets, micro_batch.offsets or {}
        is_other = any(self._topic_ids.get(name) != topic_id for name, topic_id in micro_batch.topic_ids.items())
        is_less = any(end < held.get(one, 0) for one, end in ends.items())
        is_forgotten = any(one in held and one not in self._found for one in ends)
        if self._mine is None or is_other or is_less or is_forgotten:
            evidence = gather(self.cluster, self._ledger, micro_batch, list(self.targets))
            self._topic_ids |= evidence.topic_ids
            return evidence
        new = {one.topic for one in ends} - self._topic_ids.keys()
        if new:
            self._topic_ids |= topic_ids(self.cluster, new)
        return Evidence()

    def _ask_for_ledger(self, micro_batch: MicroBatch) -> dict[TopicPartition, CommittedOffset]:
        if self._mine is not None:
            return committed_offsets(self.cluster, self.pipeline, deadline=self._deadline(), require_stable=False)
        return self._ask_decided(self.pipeline, partial(entries_missing, micro_batch, home=self.targets.home))

    def _ask_decided(
        self, group: str, missing_in: Callable[[Collection[TopicPartition]], list[TopicPartition]]
    ) -> dict[TopicPartition, CommittedOffset]:
        """Read a group's decided offsets: all of them, then those that are missing, by name.

        Why by name too: asked for all, a coordinator leaves out an entry whose first commit is undecided.
        """
        ask = partial(committed_offsets, self.cluster, group)
        try:
            found = ask(deadline=self._deadline())
            missing = missing_in(found)
            return {**found, **ask(missing, deadline=self._deadline())} if missing else found
        except BrokerError as error:
            if error.code != ErrorCode.UNSTABLE_OFFSET_COMMIT:
                raise
            raise OutcomeUnknownError(
                f"pipeline {self.pipeline!r}: its ledger has entries of a transaction that is not decided",
                because="no earlier driver has one open, so a producer of another name writes to this group, or the "
                f"end of a decided transaction never came and this client may not look for it (READ on {GROUP_TOPIC})",
                you_want="end that producer's transaction, or run the command as somebody who may read that topic",
                next_command=repair_command(self.pipeline, self.sink.wire.addresses),
            ) from error

    def prepare_run(self, micro_batch: MicroBatch) -> int | None:
        """Before a batch job owns anything: refuse it where it cannot be right; gives how long its run id is kept.

        Why before: the owner of the pipeline has fenced its driver, and a wrong name would stop somebody's query.
        """
        assert micro_batch.run is not None
        group = run_group(self.pipeline, micro_batch.run)
        self._has_runs = True
        self._run_kept_ms = ledger_kept_ms(self.cluster, group, self._deadline())
        check_kept(micro_batch, self._run_kept_ms)
        # `require_stable` would wait for a driver that is at work; its last decided entry is enough here.
        found = committed_offsets(self.cluster, self.pipeline, deadline=self._deadline(), require_stable=False)
        ledger = read_ledger(self.pipeline, found, bootstrap=self.sink.wire.addresses)
        check_kind(ledger.last, micro_batch)
        written = committed_offsets(self.cluster, group, deadline=self._deadline(), require_stable=False)
        self._was_written(micro_batch, ledger, written)
        return self._run_kept_ms

    def _was_written(
        self, micro_batch: MicroBatch, ledger: Ledger, found: Mapping[TopicPartition, CommittedOffset]
    ) -> bool:
        """Whether the run is in this output; refused when it is in another."""
        command = status_command(self.pipeline, self.sink.wire.addresses)
        return was_written(micro_batch, ledger, found, self._ids_of_targets(), next_command=command)

    def _ids_of_targets(self) -> dict[str, str]:
        """The output topics with their ids; empty ones from brokers before 2.8."""
        return {name: str(number or "") for name, number in self._output_ids.items()}

    def plan_run(self, micro_batch: MicroBatch) -> Plan:
        """Decide about a batch job by what `read_ledger` found."""
        return plan_run(
            micro_batch,
            is_written=self._was_written(micro_batch, self._ledger, self._run_found),
            kept_ms=self._run_kept_ms,
            now_ms=RealClock().wall_ms(),
            choice=None if self.sink.ledger_missing is LedgerMissing.STOP else Plan(self.sink.ledger_missing),
        )

    def begin(self) -> None:
        """Make every partition that rows may go to part of the transaction, so that an abort reaches them all."""
        # From before the request leaves, so that it is over here no later than at the broker.
        self._open_until = Deadline.after_ms(self.sink.transaction_timeout_ms)
        self._transaction.add_partitions(list(self.targets), self._deadline())

    def plan_write(self, micro_batch: MicroBatch, rows: RowsAhead, *, run: int) -> WritePlan:
        """Choose how many tasks write, and under which producer id."""
        declared = self.sink.partitioning
        limit = self.targets.fewest if declared is Partitioning.SPREAD else self.targets.total
        is_undone_by_abort = micro_batch.guarantee is Guarantee.EXACTLY_ONCE
        return plan_stages(
            self._writer(micro_batch, rows.writers(limit)),
            self._partitioning(run) if is_undone_by_abort else declared,
            order_by=self.sink.order_by,
            is_transaction=is_undone_by_abort,
            row_bytes_max=self.take_row_bytes_max(micro_batch, rows, run=run),
        )

    def _partitioning(self, run: int) -> Partitioning:
        """As declared; after a failed run `source` becomes `keyed`, where two tasks never write to one partition."""
        declared = self.sink.partitioning
        return Partitioning.KEYED if declared is Partitioning.SOURCE and run > 1 else declared

    def _writer(self, micro_batch: MicroBatch, writers: int) -> RowWriter:
        """What the tasks of this micro-batch need."""
        match micro_batch.guarantee:
            case Guarantee.EXACTLY_ONCE:
                producer = self._producer
            case Guarantee.AT_LEAST_ONCE:
                producer = ANONYMOUS
            case Guarantee.AT_MOST_ONCE:
                # Without a transaction: what is sent again is recognised, so no row is written twice.
                producer = new_producer(self.cluster, self._deadline())
            case _:
                assert_never(micro_batch.guarantee)
        return RowWriter(
            wire=self.sink.wire,
            targets=self.targets,
            writers=writers,
            micro_batch_id=micro_batch.id,
            producer=producer,
            codec=self.sink.codec,
            batch_bytes_max=self.sink.batch_bytes_max,
            deadline_ms=self.sink.transaction_timeout_ms,
        )

    def prepare(self, results: Results) -> int:
        """Check that every row was acknowledged (E2); the rows are in the transaction already."""
        self.row_bytes_max = largest_row(results)
        return counted_rows(results, self.targets)

    def write_ledger(self, micro_batch: MicroBatch) -> None:
        """Make the ledger entries part of the transaction; SinkError when they were planned on an old ledger (E11)."""
        self._entries = self._entries_of(micro_batch)
        before = self._transaction.commit_offsets(self.pipeline, self._entries, self._deadline())
        run_before = self._run_found
        if (run := micro_batch.run) is not None:
            group = run_group(self.pipeline, run)
            entries = run_entries(run, self._ids_of_targets())
            run_before = self._transaction.commit_offsets(group, entries, self._deadline())
        if before != self._found or run_before != self._run_found:
            raise SinkError(
                f"pipeline {self.pipeline!r}: the ledger holds more than was read before micro-batch {micro_batch.id}",
                because="it was read from a broker that another had replaced as the group's coordinator",
                you_want="the micro-batch run again: then it begins with the ledger as it is",
            )

    def commit(self) -> None:
        """Make rows and ledger entries visible together."""
        # Known again only when the commit is certain. Until then the coordinator is asked.
        mine, self._mine = {**self._known, **self._entries}, None
        self._transaction.end(self._deadline(), commit=True)
        self._open_until, self._mine = None, mine

    def abort(self) -> None:
        """Undo the transaction; when a newer owner or a timeout has done so already, that is as good."""
        deadline = self._deadline()
        deadline.hurry_if_called_off()
        try:
            self._transaction.end(deadline, commit=False)
        except FencedError:
            # Fenced while aborting: the newer owner has aborted it. The error that led here is raised.
            return
        self._open_until = None

    def commit_ledger(self, micro_batch: MicroBatch) -> None:
        """Write the ledger entries by themselves: for at least once, which may repeat rows."""
        entries = self._entries_of(micro_batch)
        commit_offsets(self.cluster, self.pipeline, entries, deadline=self._deadline())

    def _entries_of(self, micro_batch: MicroBatch) -> dict[TopicPartition, CommittedOffset]:
        ids = self._topic_ids | dict(micro_batch.topic_ids)
        return ledger_entries(micro_batch, self._ledger, self.targets.home, targets=self.sink.topics, topic_ids=ids)

    def classify(self, error: Exception) -> ErrorKind:
        """By its class, or by the name of its class in the text that Spark hands on."""
        if isinstance(error, OutcomeUnknownError):
            return ErrorKind.UNKNOWN
        is_fenced = isinstance(error, FencedError) or FencedError.__name__ in str(error)
        # After our own timeout the coordinator has moved the epoch on, which looks like a newer owner.
        if is_fenced and not self.has_timed_out:
            return ErrorKind.FENCED
        is_final = isinstance(error, ConfigError) or any(word in str(error) for word in FINAL)
        return ErrorKind.FINAL if is_final else ErrorKind.AGAIN

    def explain(self, error: Exception, micro_batch: MicroBatch, *, kind: ErrorKind, is_last_run: bool) -> Exception:
        """Say who has taken over, or that the transaction takes too long: trying once more would end the same way."""
        if kind is ErrorKind.FENCED:
            return taken_over(self.pipeline)
        if not (is_last_run and self.has_timed_out):
            return error
        limit_ms = self.sink.transaction_timeout_ms
        return SinkError(
            f"micro-batch {micro_batch.id} takes longer than its transaction may: {limit_ms} ms, {RUNS_MAX} times",
            because="the broker aborted the transaction each time, so nothing of it is visible",
            you_want=f"KafkaSink(..., transaction_timeout_ms={2 * limit_ms}), within the brokers' "
            "transaction.max.timeout.ms; or smaller micro-batches (maxOffsetsPerTrigger)",
        )
