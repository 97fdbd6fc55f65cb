"""A group coordinator with a log and a clock of its own, for tests."""

from collections.abc import Sequence
from itertools import count

from semel.broker.groups.classic.types import (
    HeartbeatRequest,
    JoinRequest,
    JoinResponse,
    LeaveRequest,
    LeaveResponse,
    LeavingMember,
    Protocol,
    SyncRequest,
    SyncResponse,
)
from semel.broker.groups.coordinator import GroupCoordinator
from semel.broker.groups.offsets.types import (
    CommitRequest,
    CommitResponse,
    DeleteOffsetsRequest,
    DeleteOffsetsResponse,
    FetchedOffset,
    FetchOffsetsRequest,
    OffsetToCommit,
    TxnCommitRequest,
)
from semel.broker.groups.types import (
    NO_PRODUCER_ID,
    Answer,
    AppendRecords,
    DeleteGroupResponse,
    Effect,
    GroupSettings,
    Later,
    LoadedMarker,
    LoadedRecord,
    Response,
)
from semel.broker.metadata.cluster_state import ClusterState
from semel.protocol.error_codes import ErrorCode

GROUP = "orders"
SESSION_MS = 10_000
REBALANCE_MS = 60_000


def subscription(*topics: str) -> bytes:
    """A consumer's subscription, version 0."""
    names = b"".join(len(topic).to_bytes(2) + topic.encode() for topic in topics)
    return b"\x00\x00" + len(topics).to_bytes(4) + names + b"\xff\xff\xff\xff"


RANGE = Protocol(name="range", metadata=subscription("t"))
STICKY = Protocol(name="sticky", metadata=subscription("t"))


class Harness:
    """Appends are durable at once unless `holds_appends`; the log survives `restart`."""

    def __init__(self, settings: GroupSettings | None = None) -> None:
        """Start a coordinator on an empty log."""
        self.settings = settings or GroupSettings()
        self.now_ms = 1_000_000
        self.log: list[LoadedRecord | LoadedMarker] = []
        self.answers: dict[int, Response] = {}
        self.asked: set[int] = set()
        self.held: list[AppendRecords] = []
        self.later: list[Later] = []
        self.holds_appends = False
        self._tokens = count(1)
        self._uuids = count(1)
        self.cluster = ClusterState()
        self.core = self._start()

    def _start(self) -> GroupCoordinator:
        core = GroupCoordinator(self.settings, lambda: f"uuid{next(self._uuids)}", lambda: self.cluster)
        self._perform(core.load(self.log, self.now_ms), core)
        return core

    def restart(self) -> None:
        """Kill the coordinator and load another from the log; waiting requests are lost with it."""
        self.asked &= self.answers.keys()
        self.held.clear()
        self.later.clear()
        self.core = self._start()

    def token(self) -> int:
        """A new token, noted as asked."""
        token = next(self._tokens)
        self.asked.add(token)
        return token

    def waiting(self) -> set[int]:
        """Tokens without an answer."""
        return self.asked - self.answers.keys()

    def _perform(self, effects: Sequence[Effect], core: GroupCoordinator | None = None) -> None:
        todo = list(effects)
        while todo:
            effect = todo.pop(0)
            if isinstance(effect, Answer):
                assert effect.token in self.asked
                assert effect.token not in self.answers, "answered twice"
                self.answers[effect.token] = effect.response
            elif isinstance(effect, Later):
                self.later.append(effect)
            elif self.holds_appends:
                self.held.append(effect)
            else:
                todo += self._write(effect, core or self.core)

    def write(self, effect: AppendRecords) -> int:
        """Put records in the log and give the offset of the first; the coordinator is not told."""
        base_offset = len(self.log)
        for index, record in enumerate(effect.records):
            loaded = LoadedRecord(
                offset=base_offset + index, key=record.key, value=record.value, producer_id=effect.producer_id
            )
            self.log.append(loaded)
        return base_offset

    def _write(self, effect: AppendRecords, core: GroupCoordinator) -> list[Effect]:
        return core.appended(effect.append_token, ErrorCode.NONE, self.write(effect), self.now_ms)

    def release(self, error_code: ErrorCode = ErrorCode.NONE) -> None:
        """Report the oldest held append."""
        effect = self.held.pop(0)
        if error_code is ErrorCode.NONE:
            self._perform(self._write(effect, self.core))
        else:
            self._perform(self.core.appended(effect.append_token, error_code, -1, self.now_ms))

    def release_all(self) -> None:
        """Report every held append, and those that follow, and hold no more."""
        self.holds_appends = False
        while self.held:
            self.release()

    def time_out(self) -> None:
        """Give up waiting for the oldest held append, which stays held."""
        self._perform(self.core.append_timed_out(self.held[0].append_token, self.now_ms))

    def advance(self, by_ms: int) -> None:
        """Let time pass, deadline by deadline."""
        end_ms = self.now_ms + by_ms
        while (deadline_ms := self.core.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self._perform(self.core.tick(self.now_ms))
        self.now_ms = end_ms

    def ask_join(
        self,
        member_id: str = "",
        *,
        group_id: str = GROUP,
        instance: str | None = None,
        protocols: tuple[Protocol, ...] = (RANGE,),
        protocol_type: str = "consumer",
        session_timeout_ms: int = SESSION_MS,
        rebalance_timeout_ms: int = REBALANCE_MS,
        api_version: int = 9,
    ) -> int:
        """Send JoinGroup; the answer may come later."""
        token = self.token()
        request = JoinRequest(
            group_id=group_id,
            member_id=member_id,
            group_instance_id=instance,
            client_id="client",
            client_host="/127.0.0.1",
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            protocol_type=protocol_type,
            protocols=protocols,
            api_version=api_version,
        )
        self._perform(self.core.join(token, request, self.now_ms))
        return token

    def joined(self, token: int) -> JoinResponse:
        """The answer to a JoinGroup."""
        response = self.answers[token]
        assert isinstance(response, JoinResponse)
        return response

    def synced(self, token: int) -> SyncResponse:
        """The answer to a SyncGroup."""
        response = self.answers[token]
        assert isinstance(response, SyncResponse)
        return response

    def new_id(self) -> str:
        """Ask for a member id, as a client of JoinGroup v4 and later does first."""
        response = self.joined(self.ask_join())
        assert response.error_code is ErrorCode.MEMBER_ID_REQUIRED
        return response.member_id

    def ask_sync(
        self,
        joined: JoinResponse,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> int:
        """Send SyncGroup for what a JoinGroup answer said."""
        token = self.token()
        request = SyncRequest(
            group_id=GROUP,
            generation=joined.generation,
            member_id=joined.member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=tuple((assignments or {}).items()),
        )
        self._perform(self.core.sync(token, request, self.now_ms))
        return token

    def stable(self, members: int = 1, *, instances: Sequence[str | None] = ()) -> list[JoinResponse]:
        """Bring a group to Stable; the leader is first."""
        names = [*instances, *[None] * members][:members]
        ids = [self.new_id() if name is None else "" for name in names]
        tokens = [self.ask_join(ids[0], instance=names[0])]
        for member_id, name in zip(ids[1:], names[1:], strict=True):
            tokens = [self._again(token, names[i]) for i, token in enumerate(tokens)]
            tokens.append(self.ask_join(member_id, instance=name))
            tokens = [self._again(token, names[i]) for i, token in enumerate(tokens)]
        joined = [self.joined(token) for token in tokens]
        assert {response.generation for response in joined} == {joined[0].generation}
        assignments = {response.member_id: f"for {response.member_id}".encode() for response in joined}
        syncs = [self.ask_sync(r, assignments, instance=n) for r, n in zip(joined, names, strict=True)]
        assert all(self.synced(token).error_code is ErrorCode.NONE for token in syncs)
        return joined

    def _again(self, token: int, instance: str | None) -> int:
        """Rejoin if the generation this token joined is over."""
        if token not in self.answers:
            return token
        response = self.joined(token)
        code = self.heartbeat(response, instance=instance)
        return self.ask_join(response.member_id, instance=instance) if code is not ErrorCode.NONE else token

    def heartbeat(self, joined: JoinResponse, *, instance: str | None = None) -> ErrorCode:
        """Send Heartbeat as that member."""
        return self.core.heartbeat(
            HeartbeatRequest(
                group_id=GROUP,
                generation=joined.generation,
                member_id=joined.member_id,
                group_instance_id=instance,
            ),
            self.now_ms,
        )

    def leave(self, *members: LeavingMember, group_id: str = GROUP) -> LeaveResponse:
        """Send LeaveGroup."""
        token = self.token()
        self._perform(self.core.leave(token, LeaveRequest(group_id=group_id, members=members), self.now_ms))
        response = self.answers[token]
        assert isinstance(response, LeaveResponse)
        return response

    def ask_commit(
        self,
        offset_next: int,
        joined: JoinResponse | None = None,
        *,
        group_id: str = GROUP,
        topic: str = "t",
        partition: int = 0,
        metadata: str = "",
        retention_ms: int = -1,
        instance: str | None = None,
        api_version: int = 9,
    ) -> int:
        """Send OffsetCommit, as a member or (without one) as a simple consumer."""
        token = self.token()
        request = CommitRequest(
            group_id=group_id,
            generation=-1 if joined is None else joined.generation,
            member_id="" if joined is None else joined.member_id,
            group_instance_id=instance,
            offsets=(
                OffsetToCommit(
                    topic=topic, partition=partition, offset_next=offset_next, leader_epoch=3, metadata=metadata
                ),
            ),
            retention_ms=retention_ms,
            api_version=api_version,
        )
        self._perform(self.core.commit_offsets(token, request, self.now_ms))
        return token

    def ask_txn_commit(
        self,
        offset_next: int,
        producer_id: int,
        joined: JoinResponse | None = None,
        *,
        group_id: str = GROUP,
        topic: str = "t",
        partition: int = 0,
    ) -> int:
        """Send TxnOffsetCommit."""
        token = self.token()
        request = TxnCommitRequest(
            group_id=group_id,
            producer_id=producer_id,
            producer_epoch=0,
            generation=-1 if joined is None else joined.generation,
            member_id="" if joined is None else joined.member_id,
            offsets=(OffsetToCommit(topic=topic, partition=partition, offset_next=offset_next),),
        )
        self._perform(self.core.commit_offsets_in_transaction(token, request, self.now_ms))
        return token

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Write the marker."""
        assert producer_id != NO_PRODUCER_ID
        self.log.append(LoadedMarker(offset=len(self.log), producer_id=producer_id, commit=commit))
        self.core.complete_transaction(producer_id, commit=commit)

    def committed(self, token: int) -> ErrorCode:
        """The answer to a commit of one partition."""
        response = self.answers[token]
        assert isinstance(response, CommitResponse)
        return response.results[0].error_code

    def commit(self, offset_next: int, joined: JoinResponse | None = None, *, topic: str = "t") -> ErrorCode:
        """Commit and give the result."""
        return self.committed(self.ask_commit(offset_next, joined, topic=topic))

    def fetch(
        self, *, topic: str = "t", partition: int = 0, group_id: str = GROUP, require_stable: bool = False
    ) -> FetchedOffset:
        """Read one committed offset."""
        request = FetchOffsetsRequest(
            group_id=group_id, partitions=((topic, partition),), require_stable=require_stable
        )
        return self.core.fetch_offsets(request)[0]

    def ask_delete_group(self, group_id: str = GROUP) -> int:
        """Send DeleteGroups for one group."""
        token = self.token()
        self._perform(self.core.delete_group(token, group_id, self.now_ms))
        return token

    def deleted(self, token: int) -> ErrorCode:
        """The answer to a DeleteGroups."""
        response = self.answers[token]
        assert isinstance(response, DeleteGroupResponse)
        return response.error_code

    def delete_offsets(self, *partitions: tuple[str, int], group_id: str = GROUP) -> DeleteOffsetsResponse:
        """Send OffsetDelete."""
        token = self.token()
        request = DeleteOffsetsRequest(group_id=group_id, partitions=partitions)
        self._perform(self.core.delete_offsets(token, request, self.now_ms))
        response = self.answers[token]
        assert isinstance(response, DeleteOffsetsResponse)
        return response

    def delete_topic(self, topic: str) -> None:
        """Tell of a deleted topic."""
        self._perform(self.core.topic_deleted(topic, self.now_ms))

    def resume(self) -> None:
        """Let the coordinator do the next part of what it left for later."""
        self._perform(self.core.resume(self.later.pop(0), self.now_ms))

    def unload(self) -> None:
        """Lose the partition."""
        self._perform(self.core.unload())
