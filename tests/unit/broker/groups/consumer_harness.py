"""Members of the consumer protocol on a coordinator with a log and a clock of its own, for tests.

A `Client` does what a real one does: it tells what it owns, gives up what it must, and starts over when it is fenced.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from uuid import UUID, uuid5

from semel.broker.groups.consumer.types import (
    EPOCH_LEAVE,
    EPOCH_LEAVE_STATIC,
    ConsumerHeartbeat,
    HeartbeatAnswer,
    TopicIdPartition,
)
from semel.broker.groups.offsets.types import CommitRequest, OffsetToCommit
from semel.broker.groups.types import GroupSettings, LoadedRecord
from semel.broker.metadata.cluster_state import PartitionState, Topic, TopicRemoved, TopicSet, apply_record
from semel.protocol.error_codes import ErrorCode
from tests.unit.broker.groups.harness import GROUP, Harness

NAMESPACE = UUID(int=848)
SESSION_MS = 45_000
REBALANCE_MS = 60_000
FENCED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)


def topic_id(name: str) -> UUID:
    """The id of a topic in these tests."""
    return uuid5(NAMESPACE, name)


def of(name: str, *indexes: int) -> frozenset[TopicIdPartition]:
    """Partitions of a topic."""
    return frozenset((topic_id(name), index) for index in indexes)


class ConsumerHarness(Harness):
    """A coordinator that knows topics."""

    def __init__(self, settings: GroupSettings | None = None, **topics: int) -> None:
        """Start on an empty log, with topics of so many partitions each."""
        super().__init__(settings)
        for name, count in topics.items():
            self.make_topic(name, count)

    def make_topic(self, name: str, count: int) -> None:
        """Create a topic, or let it grow."""
        partition = PartitionState(leader=1, leader_epoch=0, replicas=(1,), isr=(1,))
        topic = Topic(name=name, id=topic_id(name), partitions=(partition,) * count)
        self.cluster = apply_record(self.cluster, TopicSet(topic=topic))

    def drop_topic(self, name: str) -> None:
        """Delete a topic."""
        self.cluster = apply_record(self.cluster, TopicRemoved(name=name))

    def compact(self) -> None:
        """Keep the last record of each key, and no tombstones."""
        last = {record.key: record for record in self.log if isinstance(record, LoadedRecord)}
        self.log = [record for record in last.values() if record.value is not None]

    def ask_heartbeat(self, request: ConsumerHeartbeat) -> int:
        """Send ConsumerGroupHeartbeat; the answer may come later."""
        token = self.token()
        self._perform(self.core.consumer_heartbeat(token, request, self.now_ms))
        return token

    def heartbeat_answer(self, token: int) -> HeartbeatAnswer:
        """The answer to a heartbeat."""
        response = self.answers[token]
        assert isinstance(response, HeartbeatAnswer)
        return response

    def consumer_heartbeat(self, request: ConsumerHeartbeat) -> HeartbeatAnswer:
        """Send a heartbeat and give the answer."""
        return self.heartbeat_answer(self.ask_heartbeat(request))

    def client(
        self,
        member_id: str,
        *names: str,
        instance: str | None = None,
        regex: str | None = None,
        assignor: str | None = None,
    ) -> "Client":
        """A client that has not joined yet."""
        return Client(self, member_id, frozenset(names), instance=instance, regex=regex, assignor=assignor)

    def settle(self, clients: Iterable["Client"], rounds: int = 10) -> None:
        """Let every client send heartbeats until nothing changes any more."""
        clients = list(clients)
        for _ in range(rounds):
            before = [(client.epoch, client.owned) for client in clients]
            for client in clients:
                client.heartbeat()
            if before == [(client.epoch, client.owned) for client in clients]:
                return
        raise AssertionError("the group did not settle")


@dataclass
class Client:
    """One member and what it knows."""

    harness: ConsumerHarness
    member_id: str
    names: frozenset[str] | None = None
    instance: str | None = None
    regex: str | None = None
    assignor: str | None = None
    group_id: str = GROUP
    epoch: int = 0
    owned: frozenset[TopicIdPartition] = field(default_factory=frozenset)

    def request(self) -> ConsumerHeartbeat:
        """Its next heartbeat, with everything in it."""
        return ConsumerHeartbeat(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_names=self.names,
            subscribed_regex=self.regex,
            server_assignor=self.assignor,
            owned=self.owned if self.epoch else frozenset(),
            client_id="client",
            client_host="/127.0.0.1",
        )

    def heartbeat(self) -> HeartbeatAnswer:
        """Send a heartbeat and act on the answer."""
        return self.heard(self.harness.consumer_heartbeat(self.request()))

    def heard(self, response: HeartbeatAnswer) -> HeartbeatAnswer:
        """Act on an answer."""
        if response.error_code in FENCED:
            self.epoch, self.owned = 0, frozenset()
        elif response.error_code is ErrorCode.NONE:
            self.epoch = response.member_epoch
            self.owned = self.owned if response.assignment is None else response.assignment
        return response

    def send(self, **changes: object) -> HeartbeatAnswer:
        """Send a heartbeat that differs, without acting on the answer."""
        return self.harness.consumer_heartbeat(replace(self.request(), **changes))  # type: ignore[arg-type]

    def leave(self) -> HeartbeatAnswer:
        """Go, for a while if it is a static member."""
        epoch = EPOCH_LEAVE if self.instance is None else EPOCH_LEAVE_STATIC
        response = self.send(member_epoch=epoch)
        self.epoch, self.owned = 0, frozenset()
        return response

    def ask_commit(
        self,
        offset_next: int,
        name: str = "t",
        partition: int = 0,
        *,
        epoch: int | None = None,
        api_version: int = 9,
    ) -> int:
        """Send OffsetCommit."""
        token = self.harness.token()
        request = CommitRequest(
            group_id=self.group_id,
            generation=self.epoch if epoch is None else epoch,
            member_id=self.member_id,
            offsets=(OffsetToCommit(topic=name, partition=partition, offset_next=offset_next),),
            api_version=api_version,
        )
        self.harness._perform(self.harness.core.commit_offsets(token, request, self.harness.now_ms))
        return token

    def commit(self, offset_next: int, name: str = "t", partition: int = 0, *, epoch: int | None = None) -> ErrorCode:
        """Commit and give the result."""
        return self.harness.committed(self.ask_commit(offset_next, name, partition, epoch=epoch))
