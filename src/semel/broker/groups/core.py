"""What the parts of the group coordinator share: the groups, the timers, and effects on their way out.

Keeps: G1 every request is answered exactly once, if it is answered at all; G2 what depends on a record is done only
       when that record is durable.
Why:   an append is remembered with what to do when its fate is known. Its request may be answered earlier, with an
       error, when durability takes too long; the record still counts if it becomes durable after that.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from semel.broker.groups.classic.state import Group
from semel.broker.groups.classic.types import GroupState
from semel.broker.groups.consumer.changes import GroupEntry
from semel.broker.groups.consumer.records import ConsumerRecord, encode_record
from semel.broker.groups.consumer.state import ConsumerGroup
from semel.broker.groups.offsets.committed import OffsetStore
from semel.broker.groups.records import STRING_BYTES_MAX
from semel.broker.groups.timers import TimerKey, TimerKind, Timers
from semel.broker.groups.types import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Answer,
    AppendRecords,
    CoordinatorRecord,
    Effect,
    GroupSettings,
    Later,
    Response,
)
from semel.broker.metadata.cluster_state import ClusterState
from semel.protocol.error_codes import ErrorCode

# An append error is answered as something that tells a client what to do: look again, or find the coordinator.
_ANSWER_FOR_APPEND_ERROR = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendFate:
    """How an append ended. `base_offset` is that of its first record."""

    error_code: ErrorCode
    base_offset: int

    @property
    def is_durable(self) -> bool:
        """Say whether the records are in the log for good."""
        return self.error_code is ErrorCode.NONE


@dataclass(slots=True, kw_only=True)
class _Append:
    apply: Callable[[AppendFate], None]
    answer: Callable[[ErrorCode], None]
    answered: bool = False


class GroupCore:
    """All groups, offsets and timers, and the effects of the present call; the rules are in the other modules."""

    def __init__(
        self, settings: GroupSettings, new_uuid: Callable[[], str], cluster: Callable[[], ClusterState]
    ) -> None:
        """Start with no group."""
        self.settings = settings
        self.new_uuid = new_uuid
        self.cluster = cluster
        self.now_ms = 0  # the time of the call that goes on
        self.groups: dict[str, Group] = {}  # those of the classic protocol
        self.consumer_entries: dict[str, GroupEntry] = {}  # those of the consumer protocol; no group id is in both
        self.offsets = OffsetStore()
        self.timers = Timers()
        self._effects: list[Effect] = []
        self._appends: dict[int, _Append] = {}
        self._append_tokens = 0
        self._offset_last = -1

    def drain(self) -> list[Effect]:
        """Hand over the effects of the call that ends now."""
        effects, self._effects = self._effects, []
        return effects

    def answer(self, token: int, response: Response) -> None:
        """Respond to a request."""
        self._effects.append(Answer(token=token, response=response))

    def later(self, work: Callable[[], None]) -> None:
        """Go on with this when others were served."""
        self._effects.append(Later(work=work))

    def append(
        self,
        group_id: str,
        records: tuple[CoordinatorRecord, ...],
        *,
        apply: Callable[[AppendFate], None],
        answer: Callable[[ErrorCode], None],
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> None:
        """Write records; `apply` runs when their fate is known, `answer` then or when the wait is given up."""
        self._append_tokens += 1
        self._appends[self._append_tokens] = _Append(apply=apply, answer=answer)
        self._effects.append(
            AppendRecords(
                append_token=self._append_tokens,
                group_id=group_id,
                records=records,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
            )
        )

    def appended(self, append_token: int, fate: AppendFate) -> None:
        """Act on an append that is durable or has failed; one from before an unload is ignored."""
        append = self._appends.pop(append_token, None)
        if append is None:
            return
        if fate.is_durable:
            # Which of two commits wins is decided by their offsets, so they must be heard of in that order.
            assert fate.base_offset > self._offset_last, "appends must be reported in log order"
            self._offset_last = fate.base_offset
        # The state first: the answer may bring the client's next request at once.
        append.apply(fate)
        self._answer_append(append, fate.error_code)

    def append_timed_out(self, append_token: int) -> None:
        """Answer with an error now; the append stays open."""
        append = self._appends.get(append_token)
        if append is not None:
            self._answer_append(append, ErrorCode.REQUEST_TIMED_OUT)

    def _answer_append(self, append: _Append, error_code: ErrorCode) -> None:
        if not append.answered:
            # A request that was answered with a timeout must not be answered again
            # when its append becomes durable (G1).
            append.answered = True
            append.answer(_ANSWER_FOR_APPEND_ERROR.get(error_code, error_code))

    def append_consumer_records(
        self,
        group_id: str,
        records: tuple[ConsumerRecord, ...],
        *,
        answer: Callable[[ErrorCode], None],
        before: tuple[CoordinatorRecord, ...] = (),
        applied: Callable[[AppendFate], None] = lambda _fate: None,
    ) -> None:
        """Write a change of a group of the consumer protocol; it counts for the next request already."""
        entry = self.consumer_entry(group_id)
        entry.start(records)

        def apply(fate: AppendFate) -> None:
            entry.finish(records, is_durable=fate.is_durable)
            if entry.is_vacant and self.consumer_entries.get(group_id) is entry:
                del self.consumer_entries[group_id]
            applied(fate)

        encoded = tuple(encode_record(record) for record in records)
        self.append(group_id, (*before, *encoded), apply=apply, answer=answer)

    def consumer_entry(self, group_id: str) -> GroupEntry:
        """Find or create the entry of a group of the consumer protocol."""
        self.schedule_retention()
        return self.consumer_entries.setdefault(group_id, GroupEntry())

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """Find a group of the consumer protocol, as the next request must see it."""
        entry = self.consumer_entries.get(group_id)
        return None if entry is None else entry.current

    def current_consumer_groups(self) -> Iterator[ConsumerGroup]:
        """Every group of the consumer protocol, as the next request must see it."""
        for entry in list(self.consumer_entries.values()):
            if entry.current is not None:
                yield entry.current

    def group(self, group_id: str) -> Group:
        """Find or create a classic group."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id=group_id)
            self.schedule_retention()
        return group

    def schedule_retention(self) -> None:
        """See to it that expired offsets are looked for, as long as there are groups."""
        key = TimerKey(TimerKind.RETENTION)
        if key not in self.timers:
            self.timers.schedule(key, self.now_ms + self.settings.offsets_retention_check_interval_ms)

    def forget_group(self, group_id: str) -> None:
        """Drop a group and its timers; it has no members."""
        self.groups.pop(group_id, None)
        self.timers.cancel(TimerKey(TimerKind.JOIN, group_id))
        self.timers.cancel(TimerKey(TimerKind.SYNC, group_id))

    def abandon(self, error_code: ErrorCode) -> None:
        """Forget all state and answer every request that waits for an append."""
        self.groups.clear()  # first, so that no answer below starts a rebalance
        self.consumer_entries.clear()
        for append in self._appends.values():
            self._answer_append(append, error_code)
        self._appends.clear()
        self.offsets.clear()
        self.timers.clear()
        self._offset_last = -1

    def note_loaded(self, offset: int) -> None:
        """Remember how far the log was replayed."""
        self._offset_last = max(self._offset_last, offset)

    def keep_session(self, group: Group, member_id: str, timeout_ms: int) -> None:
        """Move the deadline for the member's next heartbeat."""
        key = TimerKey(TimerKind.SESSION, group.group_id, member_id)
        # Never at this very moment, or one `tick` could go round for ever.
        self.timers.schedule(key, self.now_ms + max(timeout_ms, 1))

    def error_for_group_id(self, group_id: str) -> ErrorCode:
        """Refuse a group id that cannot be stored."""
        # The id is part of the key of every record, whose length field has two bytes.
        fits = 0 < len(group_id.encode()) <= STRING_BYTES_MAX
        return ErrorCode.NONE if fits else ErrorCode.INVALID_GROUP_ID


def is_active(group: Group) -> bool:
    """Say whether the group has members that take part in a generation."""
    return group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE)


def no_answer(_error_code: ErrorCode) -> None:
    """Answer nobody: no request waits for this append."""
