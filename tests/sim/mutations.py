"""Deliberate bugs in the broker: each replaces a function while seeds run, and some seed must be BROKEN by it.

They exist in the test process only. docs/SIM_MUTATIONS.md lists them with the first seed that found each.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from semel.broker.api import k01_fetch
from semel.broker.controller.service import ControllerService
from semel.broker.coordinator.coordinators import Coordinators
from semel.broker.log import recovery, segmented_log
from semel.broker.log import replay as replay_module
from semel.broker.log.leader_epochs import LeaderEpochs
from semel.broker.log.partition_log import PartitionLog
from semel.broker.log.producer_state import ProducerStates
from semel.broker.log.segment import Segment
from semel.broker.metadata.cluster_state import PartitionKey
from semel.broker.metadata.store import MetadataStore
from semel.broker.replication.followers import IsrProposal, Leadership
from semel.broker.replication.partition import Partition
from semel.broker.transactions.shell import TransactionPartition
from semel.broker.transactions.types import WriteMarkers
from semel.protocol.error_codes import ErrorCode
from semel.protocol.record_batch import BatchHeader
from tests.mutations import switches
from tests.mutations.switches import Patch


@dataclass(frozen=True)
class Mutation:
    """One deliberate bug; `quick` ones are looked for by every test run."""

    name: str
    bug: str
    apply: Callable[[Patch], None]
    quick: bool = False


def never_diverging(patch: Patch) -> None:
    patch.setattr(k01_fetch, "_diverged", lambda *_: False)


def watermark_of_leader(patch: Patch) -> None:
    patch.setattr(Leadership, "high_watermark", lambda _, log_end_offset, *__: log_end_offset)


def shrink_alone(patch: Patch) -> None:
    original = Leadership.plan_shrink

    def plan_shrink(leadership: Leadership, log_end_offset: int, now_ms: float) -> IsrProposal | None:
        planned = original(leadership, log_end_offset, now_ms + 10_000)
        if planned is not None:
            leadership.state = replace(leadership.state, isr=planned.replicas)
            leadership.proposal = None
        return None

    patch.setattr(Leadership, "plan_shrink", plan_shrink)


def expand_unseen(patch: Patch) -> None:
    def plan_expand(leadership: Leadership, replica: int, _: int) -> IsrProposal | None:
        is_known = leadership.proposal is None and replica not in leadership.state.isr
        return leadership._propose((*leadership.state.isr, replica)) if is_known else None

    patch.setattr(Leadership, "plan_expand", plan_expand)


def lose_markers(patch: Patch) -> None:
    original = TransactionPartition._ask_leader

    async def ask_leader(
        shell: TransactionPartition, effect: WriteMarkers, leader: int | None, partitions: list[PartitionKey]
    ) -> dict[PartitionKey, ErrorCode]:
        answered = await original(shell, effect, leader, partitions)
        return {each: answered.get(each, ErrorCode.NONE) and ErrorCode.NONE for each in partitions}

    patch.setattr(TransactionPartition, "_ask_leader", ask_leader)


def copy_without_producers(patch: Patch) -> None:
    def note_replicated(log: PartitionLog, segment: Segment, header: BatchHeader, position: int, _: memoryview) -> None:
        segment.index.add_header(header, position)
        log.log_end_offset = header.offset_next
        log.epochs.assign(header.leader_epoch, header.base_offset)

    patch.setattr(PartitionLog, "_note_replicated", note_replicated)


def copy_without_aborted(patch: Patch) -> None:
    def note_replicated(
        log: PartitionLog, segment: Segment, header: BatchHeader, position: int, batch: memoryview
    ) -> None:
        segment.index.add_header(header, position)
        log.log_end_offset = header.offset_next
        log.epochs.assign(header.leader_epoch, header.base_offset)
        log.producers.replay(batch, header)

    patch.setattr(PartitionLog, "_note_replicated", note_replicated)


def always_unclean(patch: Patch) -> None:
    patch.setattr(ControllerService, "may_be_unclean", lambda *_: True)


def acknowledge_at_append(patch: Patch) -> None:
    async def replicated(*_: object, **__: object) -> ErrorCode:
        return ErrorCode.NONE

    patch.setattr(Partition, "replicated", replicated)


def any_leader_epoch(patch: Patch) -> None:
    patch.setattr(Partition, "check_leader_epoch", lambda *_: ErrorCode.NONE)


def append_after_stepping_down(patch: Patch) -> None:
    patch.setattr(Partition, "_step_down", switches.nothing)


def old_coordinator_stays(patch: Patch) -> None:
    original = Coordinators.partitions_changed

    def partitions_changed(coordinators: Coordinators[TransactionPartition]) -> None:
        kept = dict(coordinators._coordinators)
        original(coordinators)
        coordinators._coordinators.update(kept)

    patch.setattr(Coordinators, "partitions_changed", partitions_changed)


def stable_is_high(patch: Patch) -> None:
    patch.setattr(PartitionLog, "last_stable_offset", property(lambda log: log.high_watermark))


def stable_is_end(patch: Patch) -> None:
    def last_stable_offset(log: PartitionLog) -> int:
        first_open = log.producers.first_unstable_offset
        return log.log_end_offset if first_open is None else first_open

    patch.setattr(PartitionLog, "last_stable_offset", property(last_stable_offset))


def window_not_rebuilt(patch: Patch) -> None:
    def replay(*arguments: object, **options: object) -> tuple[ProducerStates, LeaderEpochs]:
        producers, epochs = original(*arguments, **options)  # type: ignore[arg-type]
        for entry in producers.entries.values():
            entry.batches.clear()
        return producers, epochs

    original = replay_module.replay
    patch.setattr(segmented_log, "replay", replay)
    patch.setattr(recovery, "replay", replay)


def skip_owner(patch: Patch) -> None:
    switches.skip_owner(patch)
    switches.skip_owner_at_end(patch)


def no_sync_before_answer(patch: Patch) -> None:
    async def flush(partition: Partition, _: int) -> None:
        partition._durable_to = partition.log.log_end_offset
        if partition.leadership is not None:
            partition._advance()

    patch.setattr(Partition, "flush", flush)


def old_controller_writes(patch: Patch) -> None:
    patch.setattr(MetadataStore, "append", lambda store, epoch, records: store._write(epoch, records))


MUTATIONS = (
    Mutation("no truncation on rejoin", "a follower whose log parts from its leader's is not told", never_diverging),
    Mutation(
        "high watermark of the leader",
        "a record counts as committed when the leader has it",
        watermark_of_leader,
        quick=True,
    ),
    Mutation("in-sync replicas shrunk alone", "a leader drops followers without asking the controller", shrink_alone),
    Mutation("in-sync too early", "a follower counts as in sync before it has caught up", expand_unseen),
    Mutation("markers lost", "a marker whose partition could not be reached counts as written", lose_markers),
    Mutation(
        "one marker skipped", "one partition of each transaction gets no marker", switches.skip_one_marker, quick=True
    ),
    Mutation("sequences not copied", "followers keep no producer state", copy_without_producers, quick=True),
    Mutation(
        "aborted index not copied",
        "followers do not learn which transactions were aborted",
        copy_without_aborted,
        quick=True,
    ),
    Mutation("unclean elections", "any replica may lead when no in-sync one can", always_unclean, quick=True),
    Mutation("acknowledged at append", "acks=all is answered before followers have it", acknowledge_at_append),
    Mutation("leader epochs unchecked", "fetches of any leader epoch are answered", any_leader_epoch),
    Mutation("leader does not step down", "a replaced leader goes on appending", append_after_stepping_down),
    Mutation("coordinator not fenced", "a coordinator goes on after its partition has moved", old_coordinator_stays),
    Mutation("stable offset ignored", "open transactions are read", stable_is_high, quick=True),
    Mutation("stable offset of the leader's end", "the last stable offset passes the high watermark", stable_is_end),
    Mutation("aborted list ignored", "readers are not told which transactions were aborted", switches.ignore_aborted),
    Mutation(
        "duplicate window not rebuilt",
        "a restarted replica has forgotten the last five batches",
        window_not_rebuilt,
        quick=True,
    ),
    Mutation("sequences unchecked", "neither a repeat nor a gap is recognised", switches.skip_sequences),
    Mutation("owner unchecked", "the coordinator lets any producer epoch act", skip_owner),
    Mutation("epoch kept", "a transaction ends without a new producer epoch", switches.keep_epoch),
    Mutation("decisions forgotten", "a new coordinator does not finish what was decided", switches.forget_decisions),
    Mutation("offsets early", "offsets of a transaction are visible before its commit", switches.show_offsets_early),
    Mutation("no sync", "flush=every answers before the disk has it", no_sync_before_answer),
    Mutation("old controller writes", "a replaced controller's changes are taken", old_controller_writes),
)
