"""Members of a group, driven request by request, so that a test decides when each thing happens."""

from __future__ import annotations

from semel.engine.embedded import Cluster
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from semel.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from semel.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
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
from semel.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.support.wire import Wire

LONG_MS = 60_000


class Member:
    """One member with its own connection."""

    def __init__(self, cluster: Cluster, group_id: str, *, instance: str | None = None) -> None:
        """Connect; nothing is asked yet."""
        self.wire = Wire.to_group(cluster, group_id)
        self.group_id = group_id
        self.instance = instance
        self.id = ""
        self.generation = -1
        self.leader = ""

    def post_join(self, *, session_ms: int = LONG_MS, rebalance_ms: int = LONG_MS) -> None:
        """Ask to join, with the member id that version 4 and later hand out first."""
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        if not self.id and self.instance is None:
            refusal = self.wire.ask(request, JoinGroupResponse)
            assert refusal.error_code == ErrorCode.MEMBER_ID_REQUIRED
            self.id = request.member_id = refusal.member_id
        self.wire.post(request)

    def receive_join(self) -> JoinGroupResponse:
        """Wait for the join phase to end."""
        response = self.wire.receive(JoinGroupResponse)
        if not response.error_code:
            self.id, self.generation, self.leader = response.member_id, response.generation_id, response.leader
        return response

    def join(self, *, session_ms: int = LONG_MS, rebalance_ms: int = LONG_MS) -> JoinGroupResponse:
        """Join when nobody else has to come back first."""
        self.post_join(session_ms=session_ms, rebalance_ms=rebalance_ms)
        return self.receive_join()

    def post_sync(self, assignments: dict[str, bytes] | None = None) -> None:
        """Ask for the assignment, or hand it in as the leader."""
        rows = [SyncGroupRequestAssignment(member_id=who, assignment=what) for who, what in (assignments or {}).items()]
        self.wire.post(
            SyncGroupRequest(
                group_id=self.group_id,
                generation_id=self.generation,
                member_id=self.id,
                group_instance_id=self.instance,
                protocol_type="consumer",
                protocol_name="range",
                assignments=rows,
            )
        )

    def receive_sync(self) -> SyncGroupResponse:
        """Wait for the assignment."""
        return self.wire.receive(SyncGroupResponse)

    def sync(self, assignments: dict[str, bytes] | None = None) -> SyncGroupResponse:
        """Hand in an assignment and get one's own."""
        self.post_sync(assignments)
        return self.receive_sync()

    def enter(self, *, session_ms: int = LONG_MS) -> None:
        """Join an empty group and make it stable."""
        assert self.join(session_ms=session_ms).error_code == ErrorCode.NONE
        assert self.sync({self.id: b"all"}).error_code == ErrorCode.NONE

    def heartbeat(self) -> int:
        """Say that this member lives; the error code."""
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self.instance,
        )
        return self.wire.ask(request, HeartbeatResponse).error_code

    def leave(self) -> int:
        """Go; the error code."""
        request = LeaveGroupRequest(
            group_id=self.group_id, members=[MemberIdentity(member_id=self.id, group_instance_id=self.instance)]
        )
        return self.wire.ask(request, LeaveGroupResponse).members[0].error_code

    def commit(self, topic: str, offset: int, *, partition: int = 0) -> int:
        """Commit one offset as this member; the error code."""
        row = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="m")
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self.generation,
            member_id=self.id,
            group_instance_id=self.instance,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[row])],
        )
        return self.wire.ask(request, OffsetCommitResponse, version=9).topics[0].partitions[0].error_code

    def committed(self, topic: str, *, partition: int = 0) -> int:
        """Read one committed offset, -1 when there is none."""
        topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=self.group_id, topics=topics)])
        group = self.wire.ask(request, OffsetFetchResponse, version=9).groups[0]
        assert group.error_code == ErrorCode.NONE
        return group.topics[0].partitions[0].committed_offset

    def close(self) -> None:
        """Cut the connection without a word."""
        self.wire.close()
