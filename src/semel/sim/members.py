"""Members of a group: join, share the partitions, commit as they go, and start over whenever a broker says so.

What a member commits is always one above what the group had committed when it got the partition, or what it committed
itself since; so the group's offsets rise as long as nobody of an older generation gets through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from semel.errors import ConnectionFailure
from semel.history import CommitOffset, Outcome, Place
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Message
from semel.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from semel.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from semel.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from semel.sim.client import COORDINATOR_MOVED, GROUP, HEALED_MS_MAX, Activity, Client
from semel.sim.offsets import commit_offset, find_offset

SESSION_MS = 6_000
# Shorter than a session, so that a member that is cut off holds up the others for a moment only.
REBALANCE_MS = 800
PROTOCOL = "range"
HEARTBEATS_PER_COMMIT = 2
M = TypeVar("M", bound=Message)
MEMBER_LOST = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})


@dataclass(slots=True)
class Joined:
    """One generation as this member lives it."""

    generation: int
    positions: dict[Place, int] = field(default_factory=dict)


class Member(Activity):
    """One member."""

    aim = "be a member of the group"
    pace_ms = 300

    def __init__(self, client: Client, group: str, places: Sequence[Place]) -> None:
        """Not joined yet."""
        super().__init__(client)
        self._group = group
        self._places = places
        self._member_id = ""
        self._joined: Joined | None = None

    async def work(self) -> None:
        """Join, or say that it is alive and commit."""
        try:
            await self._work()
        except ConnectionFailure:
            self.client.forget_coordinator(GROUP, self._group)

    async def _work(self) -> None:
        joined, self._joined = self._joined, None  # unless all goes well, what is committed must be asked for again
        if joined is None:
            self._joined = await self._join()
            return
        for _ in range(HEARTBEATS_PER_COMMIT):
            if not await self._is_accepted(joined.generation):
                return
        for place in joined.positions:
            if not await self._commit(joined, place):
                return
        self._joined = joined

    async def settle(self) -> bool:
        """Join a generation, with any share of the partitions, and have a heartbeat answered."""
        deadline_ms = self.client.clock.monotonic_ms() + HEALED_MS_MAX
        while self.client.clock.monotonic_ms() < deadline_ms:
            await self.work()
            try:
                if self._joined is not None and await self._is_accepted(self._joined.generation):
                    return True
            except ConnectionFailure:
                self.client.forget_coordinator(GROUP, self._group)
            await self.client.pause()
        return False

    async def _join(self) -> Joined | None:
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self._member_id,
            protocol_type="sim",
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=b"")],
        )
        answer = await self._ask(request, JoinGroupResponse, 6)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            # KIP-394: the first answer only gives the id; the next attempt joins with it.
            self._member_id = answer.member_id
        if self._is_refused(answer.error_code):
            return None
        self._member_id = answer.member_id
        members = [member.member_id for member in answer.members]
        return await self._sync(answer.generation_id, members if answer.leader == answer.member_id else [])

    async def _sync(self, generation: int, members: Sequence[str]) -> Joined | None:
        """The leader of the generation gives each member every n-th partition."""
        # Only the leader has heard of the members; for everybody else there are no shares to hand in.
        shares = {name: range(number, len(self._places), len(members)) for number, name in enumerate(members)}
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=generation,
            member_id=self._member_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=name, assignment=bytes(share)) for name, share in shares.items()
            ],
        )
        answer = await self._ask(request, SyncGroupResponse, 4)
        if self._is_refused(answer.error_code):
            return None
        joined = Joined(generation)
        for index in bytes(answer.assignment):
            found = await find_offset(self.client, self._group, self._places[index])
            if found is None:
                return None
            joined.positions[self._places[index]] = found
        return joined

    async def _is_accepted(self, generation: int) -> bool:
        request = HeartbeatRequest(group_id=self._group, generation_id=generation, member_id=self._member_id)
        return not self._is_refused((await self._ask(request, HeartbeatResponse, 4)).error_code)

    async def _commit(self, joined: Joined, place: Place) -> bool:
        offset_next = max(joined.positions[place], 0) + 1
        act = CommitOffset(group=self._group, place=place, offset_next=offset_next)
        outcome = await commit_offset(self.client, act, generation=joined.generation, member_id=self._member_id)
        # Also after an unknown outcome: the next commit must be higher, or a late one could seem to go back.
        joined.positions[place] = offset_next
        return outcome is Outcome.OK

    async def _ask(self, request: Message, response: type[M], version: int) -> M:
        return await self.client.ask_coordinator(GROUP, self._group, request, response, version)

    def _is_refused(self, error_code: int) -> bool:
        code = ErrorCode(error_code)
        if code in COORDINATOR_MOVED:
            self.client.forget_coordinator(GROUP, self._group)
        if code in MEMBER_LOST:
            self._member_id = ""
        return code is not ErrorCode.NONE
