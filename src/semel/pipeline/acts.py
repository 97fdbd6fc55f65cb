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

from semel.errors import BrokerError, ConfigError, SinkError
from semel.pipeline.facts import ONGOING, LedgerState, PipelineFacts, gather_facts, owner_of, with_unsettled
from semel.pipeline.folder import CheckpointFolder, open_checkpoint
from semel.pipeline.plan import ResetPlan, To, plan_reset, sources_at
from semel.pipeline.rights import Right, right_to_delete
from semel.protocol.error_codes import ErrorCode
from semel.sinks.commands import repair_command, status_command
from semel.sinks.kafka.ledger import moved_entries, read_ledger
from semel.sinks.kafka.runs import GROUP_MARKER, is_run_group, last_run_group
from semel.sinks.kafka.settling import (
    Ending,
    Unsettled,
    ending_of,
    is_of_runs,
    last_ending,
    look_everywhere,
    reach_of,
    settle,
    take_over,
)
from semel.sinks.ledger import Ledger
from semel.wire.admin import delete_group, list_groups
from semel.wire.cluster import WireCluster
from semel.wire.group_offsets import committed_offsets
from semel.wire.topology import TopicPartition
from semel.wire.transaction import TransactionClient

# Moving a ledger takes less than a second. After this long the coordinator aborts what an operator's process left when
# it died.
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
        # Asked for by name: a coordinator leaves entries that are not decided out of an answer about all of them (E12).
        known = (folder.position.offsets or {}) if folder is not None and folder.position is not None else {}
        # What is open (E21) changes no plan: `own` ends it, or refuses, before the ledger is read that is moved.
        facts = gather_facts(self.cluster, self.name, partitions=list(known))
        return plan_reset(facts, folder, self.to, self.offsets), facts, folder

    def carry_out(self, shown: PipelineFacts, say: Say) -> ResetPlan:
        """Fence, look again, move. What is moved is what the ledger says after the fence."""
        held: AbstractContextManager[None] = nullcontext()
        if self.checkpoint:
            found = open_checkpoint(self.checkpoint)
            # Before anything is fenced or moved: a ledger that is moved and a checkpoint that is not would have to be
            # brought together again.
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
        # The coordinator that takes the entries says what it held before them: the one that was read from may have been
        # replaced without knowing it (E11).
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
    # A leader that does not answer is an error here, not a guess: the transaction that moves the ledger would end with
    # its own marker what an earlier one has left open, also rows that were aborted (E21). Of a name that is given up
    # nobody would look for them again.
    reach = reach_of(cluster, name, cluster.deadline())
    take_over(cluster, transaction, reach, cluster.deadline())
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
        # Before the next epoch is taken: afterwards the coordinator no longer says how the last transaction ended.
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
        # A leader that does not answer is an error: what it has open would be left out of what is ended together.
        reach = reach_of(self.cluster, self.name, deadline)
        found = look_everywhere(self.cluster, self.name, producer_id, reach, told=told, deadline=deadline)
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
    """What is known of a name that is to be given up; refuses one that no pipeline has, and a user who may not do it.

    Why the rights are looked at here: afterwards the pipeline is fenced, and a part of its run ids deleted.
    """
    facts = gather_facts(cluster, name)
    # Run ids are remembered longer than a ledger that somebody has deleted.
    if facts.is_unknown and not _groups_of_runs(cluster, name):
        raise ConfigError(
            f"nothing is known of a pipeline {name!r}: there is nothing to release",
            because="it has no ledger, and no transaction was ever begun under this name, or that was long ago",
            you_want="the name as it was given to write_stream(..., pipeline=...)",
        )
    _check_may_delete(cluster, name, facts.ledger)
    return with_unsettled(cluster, facts)


def _check_may_delete(cluster: WireCluster, name: str, ledger: Ledger) -> None:
    if right_to_delete(cluster, name) is Right.DENIED:
        raise _may_not_delete(f"the group {name!r}", "nothing was changed")
    # The ledger of a query has no run ids beside it (E19), and an empty one may have none.
    if ledger.last is None or not is_of_runs(ledger.last):
        return
    # Asked of a group that no run has: only an entry for all of them allows that one too.
    if right_to_delete(cluster, name + GROUP_MARKER) in (Right.HIDDEN, Right.DENIED):
        raise _may_not_delete(_all_groups(name), "nothing was changed")


def release(cluster: WireCluster, name: str, say: Say) -> None:
    """Give the name up: fence, then delete the run ids of its batch jobs and last the ledger.

    Why last: if it is interrupted, the ledger still tells the next one that there is something to release.
    """
    own(cluster, name)
    say(f"fenced: a driver of {name} that still runs stops at its next micro-batch; what it had open is aborted")
    # Entries that are not decided are enough: they are only looked at for the group of the last run.
    committed = committed_offsets(cluster, name, deadline=cluster.deadline(), require_stable=False)
    ledger = read_ledger(name, committed, bootstrap=cluster.settings.addresses)
    # Not the ledger's word alone: it names the last run, and there may be hundreds.
    groups = _groups_of_runs(cluster, name)
    last = last_run_group(name, ledger)
    # Also if it is not listed: groups that this user may not see are left out, and the error here tells of them.
    for group in sorted({*groups, *([] if last is None else [last])}):
        _delete(cluster, group, _all_groups(name))
    if groups:
        ids = "1 run id of a batch job is" if len(groups) == 1 else f"{len(groups)} run ids of batch jobs are"
        say(f"{ids} deleted: under the same run id a run is written again")
    if ledger.last is None and right_to_delete(cluster, name + GROUP_MARKER) is Right.HIDDEN:
        say(
            f"run ids of batch jobs may be left: this user may not see {_all_groups(name)}, and without a ledger "
            "nobody knows whether there are any; a run that one of them remembers is skipped if the name is used again"
        )
    _delete(cluster, name, f"the group {name!r}")
    say("the ledger is deleted")


def _groups_of_runs(cluster: WireCluster, name: str) -> set[str]:
    """The groups that remember runs of this pipeline's batch jobs."""
    return {group for group in list_groups(cluster, cluster.deadline()) if is_run_group(group, name)}


def _delete(cluster: WireCluster, group: str, allowed: str) -> None:
    try:
        delete_group(cluster, group, cluster.deadline())
    except BrokerError as error:
        if error.code != ErrorCode.GROUP_AUTHORIZATION_FAILED:
            raise
        raise _may_not_delete(allowed, "it is fenced, and its ledger is still there") from error


def _all_groups(name: str) -> str:
    return f"groups that begin with {name + GROUP_MARKER!r} (a prefixed ACL)"


def _may_not_delete(allowed: str, state: str) -> SinkError:
    return SinkError(
        f"this user may not delete {allowed}: {state}",
        because="GROUP_AUTHORIZATION_FAILED: the ledger is the group named like the pipeline, and each run id of a "
        "batch job is a group whose name begins like that",
        you_want=f"the right DELETE on {allowed}",
        next_command="the same command again, which finishes it",
    )


def _undecided(name: str, bootstrap: str) -> SinkError:
    return SinkError(
        f"pipeline {name!r}: its ledger has entries of a transaction that is not decided; nothing is moved",
        because="no driver of this name has one open any more, so a producer of another name writes to this group",
        next_command=f"kafka-consumer-groups.sh --bootstrap-server {bootstrap} --describe --state "
        f"--group {shlex.quote(name)}",
    )
