"""A client that keeps a group's position: commits ever higher offsets and reads them back."""

from __future__ import annotations

from dataclasses import replace

from semel.errors import ConnectionFailure
from semel.history import CommitOffset, FetchOffset, Outcome, Place
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from semel.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from semel.sim.client import GROUP, HEALED_MS_MAX, Activity, Client

# NOT_COORDINATOR is not among them: it also ends the wait for an append that the next coordinator may find.
NOT_COMMITTED = frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS})


async def find_offset(client: Client, group: str, place: Place, *, final: bool = False) -> int | None:
    """Ask once what is committed, waiting for no transaction to be open; None when no answer came."""
    topic = OffsetFetchRequestTopics(name=place[0], partition_indexes=[place[1]])
    # As a consumer of transactional offsets does; otherwise an offset that is about to be replaced would be taken.
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[topic])], require_stable=True)
    invoked = client.recorder.begin()
    try:
        answer = await client.ask_coordinator(GROUP, group, request, OffsetFetchResponse, 9)
    except ConnectionFailure:
        return None
    found = answer.groups[0]
    row = found.topics[0].partitions[0] if found.topics else None
    if row is None or found.error_code or row.error_code:
        client.forget_coordinator(GROUP, group)
        return None
    who = client.coordinator_of(GROUP, group)
    act = FetchOffset(group=group, place=place, offset_next=row.committed_offset, coordinator=who, final=final)
    client.recorder.end(client.name, act, Outcome.OK, invoked)
    return row.committed_offset


async def fetch_offset(client: Client, group: str, place: Place, *, final: bool = False) -> bool:
    """Ask once and record it; whether an answer came."""
    return await find_offset(client, group, place, final=final) is not None


async def commit_offset(client: Client, act: CommitOffset, *, generation: int = -1, member_id: str = "") -> Outcome:
    """Try once to commit, as a member or as somebody without a group, and record it."""
    row = OffsetCommitRequestPartition(partition_index=act.place[1], committed_offset=act.offset_next)
    topic = OffsetCommitRequestTopic(name=act.place[0], partitions=[row])
    request = OffsetCommitRequest(
        group_id=act.group, generation_id_or_member_epoch=generation, member_id=member_id, topics=[topic]
    )
    invoked, error = client.recorder.begin(), ""
    try:
        answer = await client.ask_coordinator(GROUP, act.group, request, OffsetCommitResponse, 9)
    except ConnectionFailure as failure:
        outcome, error = Outcome.UNKNOWN, failure.summary
    else:
        code = ErrorCode(answer.topics[0].partitions[0].error_code)
        act = replace(act, coordinator=client.coordinator_of(GROUP, act.group))
        # Any other error may hide a commit that was written and not confirmed.
        outcome = Outcome.FAILED if code in NOT_COMMITTED else Outcome.UNKNOWN if code else Outcome.OK
        if code:
            error = code.name
            client.forget_coordinator(GROUP, act.group)
    client.recorder.end(client.name, act, outcome, invoked, error)
    return outcome


class Offsets(Activity):
    """Commits outside any transaction, as a consumer that assigns partitions to itself does."""

    aim = "commit and find its offset"

    def __init__(self, client: Client, group: str, place: Place) -> None:
        """Keep this group's offset of one partition."""
        super().__init__(client)
        self._group, self._place = group, place
        self._offset_next = 0

    async def work(self) -> None:
        """Commit the next offset, or look what is committed."""
        if self.client.rng.chance(0.5):
            await self._commit()
        else:
            await fetch_offset(self.client, self._group, self._place)

    async def settle(self) -> bool:
        """A commit and a look at it."""
        deadline_ms = self.client.clock.monotonic_ms() + HEALED_MS_MAX
        while self.client.clock.monotonic_ms() < deadline_ms:
            if await self._commit() and await fetch_offset(self.client, self._group, self._place, final=True):
                return True
            await self.client.pause()
        return False

    async def _commit(self) -> bool:
        # Raised at every attempt: if one with an unknown outcome arrives late, no later one may look older.
        self._offset_next += 1
        act = CommitOffset(group=self._group, place=self._place, offset_next=self._offset_next)
        return await commit_offset(self.client, act) is Outcome.OK


class GroupWatch(Activity):
    """Looks at the offsets that the transactions of an id commit."""

    aim = "find the group's offset"
    pace_ms = 1000

    def __init__(self, client: Client, group: str, place: Place) -> None:
        """Watch this group."""
        super().__init__(client)
        self._group, self._place = group, place

    async def work(self) -> None:
        """One look."""
        await fetch_offset(self.client, self._group, self._place)

    async def settle(self) -> bool:
        """The last look."""
        deadline_ms = self.client.clock.monotonic_ms() + HEALED_MS_MAX
        while self.client.clock.monotonic_ms() < deadline_ms:
            if await fetch_offset(self.client, self._group, self._place, final=True):
                return True
            await self.client.pause()
        return False
