"""What an operator does to a pipeline: take it over, move its ledger and checkpoint, give its name up.

Every act fences first: from then on no older driver commits, so what is read afterwards stays true. Then the ledger is
moved, in a transaction of the pipeline's own, and last the checkpoint. A crash in between leaves a checkpoint that does
not stand where the output ends: a start is refused, `status` says why, and `reset --to ledger` brings the two together.

Keeps: E20 of docs/DESIGN.md.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from semel.errors import ConfigError, SinkError
from semel.pipeline.facts import ONGOING, LedgerState, PipelineFacts, gather_facts, owner_of
from semel.pipeline.folder import CheckpointFolder, open_checkpoint
from semel.pipeline.plan import ResetPlan, To, plan_reset, sources_at
from semel.sinks.commands import repair_command, status_command
from semel.sinks.kafka.ledger import moved_entries, read_ledger
from semel.sinks.kafka.runs import is_run_group, last_run_group
from semel.sinks.kafka.settling import (
    Ending,
    Reach,
    Unsettled,
    all_partitions,
    ending_of,
    find_unsettled,
    last_ending,
    output_partitions,
    settle,
    take_over,
)
from semel.wire.admin import delete_group, list_groups
from semel.wire.cluster import WireCluster
from semel.wire.group_offsets import committed_offsets
from semel.wire.topology import TopicPartition
from semel.wire.transaction import TransactionClient

TRANSACTION_TIMEOUT_MS = 60_000
Say = Callable[[str], None]


def ignore_text(_: str) -> None:
    """Nobody listens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """One reset: look, show, and after somebody agreed, carry out."""

    cluster: WireCluster
    name: str
    to: To
    checkpoint: str = ""
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    on_step: Say = ignore_text
    """Called after each step with its name: where a test stops the process, or does something in between."""

    def look(self) -> tuple[ResetPlan, PipelineFacts, CheckpointFolder | None]:
        """What it would do; changes nothing."""
        folder = open_checkpoint(self.checkpoint) if self.checkpoint else None
        known = (folder.position.offsets or {}) if folder is not None and folder.position is not None else {}
        facts = gather_facts(self.cluster, self.name, partitions=list(known))
        return plan_reset(facts, folder, self.to, self.offsets), facts, folder

    def carry_out(self, shown: PipelineFacts, say: Say) -> ResetPlan:
        """Fence, look again, move. What is moved is what the ledger says after the fence."""
        held: AbstractContextManager[None] = nullcontext()
        if self.checkpoint:
            found = open_checkpoint(self.checkpoint)
            found.check_writable()
            held = found.held()
        with held:
            transaction = own(self.cluster, self.name)
            self.on_step("fenced")
            say(f"fenced: a driver of {self.name} that still runs stops at its next micro-batch")
            plan, facts, folder = self.look()
            self.on_step("looked")
            if facts.ledger_state is LedgerState.UNDECIDED:
                raise _undecided(self.name, self.cluster.settings.addresses)
            if facts.committed != shown.committed:
                self._tell_moved(say)
            if self.to is not To.LEDGER:
                self._move_ledger(transaction, plan, facts, folder)
                self.on_step("ledger moved")
                say("the ledger is moved")
            if folder is not None and folder.position is not None:
                number = folder.move(sources_at(folder.position, plan.positions, facts.topic_ids))
                say(f"the checkpoint is moved: micro-batch {number} is done and ends there")
        return plan

    def _tell_moved(self, say: Say) -> None:
        if self.to is To.LEDGER:
            say("the pipeline went on until it was fenced: its checkpoint goes to where the output ends now")
            return
        raise SinkError(
            f"pipeline {self.name!r} went on after its position was shown: neither ledger nor checkpoint is moved",
            because="what would be repeated or lost is not what you agreed to; its drivers are fenced now",
            next_command="stop its drivers, then the same reset again",
        )

    def _move_ledger(
        self,
        transaction: TransactionClient,
        plan: ResetPlan,
        facts: PipelineFacts,
        folder: CheckpointFolder | None,
    ) -> None:
        assert facts.ledger.last is not None
        last = facts.ledger.last
        entries = moved_entries(
            facts.ledger,
            plan.positions,
            facts.topic_ids,
            query_id=last.query_id if folder is None else folder.query_id,
            micro_batch_id=last.micro_batch_id if folder is None else folder.next_id,
        )
        before = transaction.commit_offsets(self.name, entries, self.cluster.deadline())
        if before != dict(facts.committed):
            transaction.end(self.cluster.deadline(), commit=False)
            raise SinkError(
                f"pipeline {self.name!r}: the ledger holds more than was read; it is not moved",
                because="it was read from a broker that another had replaced as the group's coordinator, or a driver "
                "that is declared at_least_once, and so cannot be fenced, went on",
                next_command="stop the drivers of this pipeline, then the same reset again",
            )
        transaction.end(self.cluster.deadline(), commit=True)


def own(cluster: WireCluster, name: str) -> TransactionClient:
    """Fence every driver of a pipeline, and end what it left open."""
    transaction = TransactionClient(cluster, name, timeout_ms=TRANSACTION_TIMEOUT_MS)
    targets = output_partitions(cluster, name, cluster.deadline())
    take_over(cluster, transaction, Reach(targets=targets, has_runs=True), cluster.deadline())
    return transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """End a transaction that is open although it was decided: what a start does by itself if it can tell how (E21)."""

    cluster: WireCluster
    name: str
    # None: as the coordinator, or a marker in the output, says.
    is_commit: bool | None = None

    def look(self) -> Unsettled | None:
        """What is open; changes nothing."""
        owner = owner_of(self.cluster, self.name)
        if owner is None:
            raise ConfigError(
                f"no transaction was ever begun under the name {self.name!r}: there is nothing to repair",
                you_want="the name as it was given to write_stream(..., pipeline=...)",
            )
        if owner.state == ONGOING:
            raise SinkError(
                f"pipeline {self.name!r}: its transaction is open, so there is nothing to repair yet",
                because="a driver runs, or died within a micro-batch; the next start aborts what it left open",
                next_command=status_command(self.name, self.cluster.settings.addresses),
            )
        return self._find(owner.producer_id, ending_of(owner))

    def carry_out(self, say: Say) -> Unsettled | None:
        """Fence, look again, end it."""
        transaction = TransactionClient(self.cluster, self.name, timeout_ms=TRANSACTION_TIMEOUT_MS)
        told = last_ending(self.cluster, transaction, self.cluster.deadline())
        identity = transaction.begin(self.cluster.deadline())
        say(f"fenced: a driver of {self.name} that still runs stops at its next micro-batch")
        found = self._find(identity.producer_id, told)
        if found is not None:
            settle(self.cluster, transaction, found, self.cluster.deadline())
            say(f"ended as {'committed' if found.outcome else 'aborted'}: {found}")
        return found

    def _find(self, producer_id: int, told: Ending | None) -> Unsettled | None:
        deadline = self.cluster.deadline()
        targets = output_partitions(self.cluster, self.name, deadline) or all_partitions(self.cluster, deadline)
        reach = Reach(targets=targets, has_runs=True)
        found = find_unsettled(self.cluster, self.name, producer_id, reach, told=told, deadline=deadline)
        if found is None or self.is_commit is None or found.outcome == self.is_commit:
            return found
        if found.outcome is None:
            return replace(found, outcome=self.is_commit, why="you say so")
        raise SinkError(
            f"pipeline {self.name!r}: its last transaction was {'committed' if found.outcome else 'aborted'}",
            because=f"{found.why}; ended otherwise, its output would hold rows that its ledger does not, or lack some",
            next_command=repair_command(self.name, self.cluster.settings.addresses),
        )


def look_before_release(cluster: WireCluster, name: str) -> PipelineFacts:
    """What is known of a name that is to be given up; refuses one that no pipeline has."""
    facts = gather_facts(cluster, name)
    # Run ids are remembered longer than a ledger that somebody has deleted.
    if facts.is_unknown and not _groups_of_runs(cluster, name):
        raise ConfigError(
            f"nothing is known of a pipeline {name!r}: there is nothing to release",
            because="it has no ledger, and no transaction was ever begun under this name, or that was long ago",
            you_want="the name as it was given to write_stream(..., pipeline=...)",
        )
    return facts


def release(cluster: WireCluster, name: str, say: Say) -> None:
    """Give the name up: fence, then delete the run ids of its batch jobs and last the ledger.

    Why last: if it is interrupted, the ledger still tells the next one that there is something to release.
    """
    own(cluster, name)
    say(f"fenced: a driver of {name} that still runs stops at its next micro-batch; what it had open is aborted")
    committed = committed_offsets(cluster, name, deadline=cluster.deadline(), require_stable=False)
    groups = _groups_of_runs(cluster, name)
    last = last_run_group(name, read_ledger(name, committed, bootstrap=cluster.settings.addresses))
    # Also if it is not listed: groups that this user may not see are left out, and the error here tells of them.
    for group in sorted({*groups, *([] if last is None else [last])}):
        delete_group(cluster, group, cluster.deadline())
    if groups:
        ids = "1 run id of a batch job is" if len(groups) == 1 else f"{len(groups)} run ids of batch jobs are"
        say(f"{ids} deleted: under the same run id a run is written again")
    delete_group(cluster, name, cluster.deadline())
    say("the ledger is deleted")


def _groups_of_runs(cluster: WireCluster, name: str) -> set[str]:
    """The groups that remember runs of this pipeline's batch jobs."""
    return {group for group in list_groups(cluster, cluster.deadline()) if is_run_group(group, name)}


def _undecided(name: str, bootstrap: str) -> SinkError:
    return SinkError(
        f"pipeline {name!r}: its ledger has entries of a transaction that is not decided; nothing is moved",
        because="no driver of this name has one open any more, so a producer of another name writes to this group",
        next_command=f"kafka-consumer-groups.sh --bootstrap-server {bootstrap} --describe --state "
        f"--group {shlex.quote(name)}",
    )
