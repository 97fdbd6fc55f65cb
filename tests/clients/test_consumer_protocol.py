"""Real clients with `group.protocol=consumer`: sharing, leaving, crashing, fencing, static members, patterns, commits.

Keeps: G6 the late commit of a fenced member is refused; G11 a partition has one owner at a time; T6 offsets of a
       transaction become visible with its commit (M22, with rebalances in between).
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import count

import pytest

import semel
from semel.broker.runtime.intercept import AnswerError, DropRequest, Hook, Seen
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from semel.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from semel.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.clients.drivers.consumer_protocol import (
    LIBRARIES,
    PROGRAM,
    ConfluentMember,
    JavaMember,
    Member,
    Membership,
    ask,
)
from tests.clients.drivers.interface import Refused
from tests.features.reading import committed_offset, visible
from tests.support.java import JavaProgram
from tests.support.topics import create_topic
from tests.support.waiting import eventually
from tests.support.wire import Wire

PARTITIONS = 4
POLL_MS = 50
RECORDS = 60
CONFIG = {"group.consumer.heartbeat.interval.ms": "100", "group.consumer.session.timeout.ms": "1500"}
EACH = pytest.mark.parametrize("library", LIBRARIES)
_numbers = count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    """Three brokers whose members send heartbeats often and are missed soon."""
    with semel.Cluster(brokers=3, config=CONFIG) as started:
        yield started


@pytest.fixture(scope="module")
def program() -> Iterator[JavaProgram]:
    """One JVM with Kafka's newest client."""
    with JavaProgram(PROGRAM) as started:
        yield started


class Crew:
    """The members of one group in one test, polled in turn; what they get is kept."""

    def __init__(self, cluster: semel.Cluster, program: JavaProgram) -> None:
        """Start with a topic and nobody."""
        self.number = next(_numbers)
        self.group, self.topic = f"crew-{self.number}", f"work-{self.number}"
        self.cluster, self._program = cluster, program
        self.members: list[Member] = []
        self.received: list[str] = []
        create_topic(cluster, self.topic, partitions=PARTITIONS)

    def join(self, library: str, *, pattern: str | None = None, instance: str | None = None) -> Member:
        """Add a member."""
        how = Membership(
            bootstrap=self.cluster.bootstrap,
            group=self.group,
            topics=() if pattern else (self.topic,),
            pattern=pattern,
            instance=instance,
        )
        member = JavaMember(self._program, how) if library == "java" else ConfluentMember(how)
        self.members.append(member)
        return member

    def leave(self, member: Member) -> None:
        """Close a member."""
        self.members.remove(member)
        member.close()

    def shares(self, partitions: int = PARTITIONS) -> list[int]:
        """Poll everybody once; how many partitions each has, or nothing while the group is not settled."""
        for member in self.members:
            self.received += member.poll(POLL_MS)
        parts = [member.assignment() for member in self.members]
        settled = len(set().union(*parts)) == sum(map(len, parts)) == partitions
        return sorted(map(len, parts)) if settled else []

    def settle(self, *shares: int) -> None:
        """Wait until the partitions are shared like this."""
        eventually(lambda: self.shares(sum(shares)) == sorted(shares), what=f"shares {shares}")

    def described(self) -> DescribedGroup:
        """The group as its coordinator shows it."""
        with Wire.to_group(self.cluster, self.group) as wire:
            request = ConsumerGroupDescribeRequest(group_ids=[self.group])
            return wire.ask(request, ConsumerGroupDescribeResponse, version=1).groups[0]

    def produce(self, records: int = RECORDS) -> None:
        """Fill the topic."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.cluster.bootstrap})
        for number in range(records):
            producer.produce(self.topic, f"record {number}", partition=number % PARTITIONS)
        assert not producer.flush(30)

    def of(self, member: Member, epoch: int | None = None) -> "Heartbeats":
        """Pick the heartbeats of one member, of all epochs or one."""
        return Heartbeats(self.group, member.member_id(), epoch)


class Heartbeats:
    """Which heartbeats a hook is for."""

    def __init__(self, group: str, member_id: str, epoch: int | None) -> None:
        """An epoch of None means every one."""
        self._wanted = group, member_id, epoch

    def __call__(self, seen: Seen) -> bool:
        """Say whether this is one of them."""
        request = seen.request
        if not isinstance(request, ConsumerGroupHeartbeatRequest):
            return False
        group, member_id, epoch = self._wanted
        return (request.group_id, request.member_id) == (group, member_id) and epoch in (None, request.member_epoch)


@pytest.fixture
def crew(cluster: semel.Cluster, program: JavaProgram) -> Iterator[Crew]:
    made = Crew(cluster, program)
    try:
        yield made
    finally:
        for member in made.members:
            member.close()


def silence(crew: Crew, member: Member) -> Hook:
    """Keep a live member's heartbeats from counting, as a broken network would."""
    refused = AnswerError(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return crew.cluster.intercept("ConsumerGroupHeartbeat", refused, times=None, where=crew.of(member))


def _coordinator(cluster: semel.Cluster, group: str) -> int:
    with Wire.to_broker(cluster) as wire:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        return wire.ask(request, FindCoordinatorResponse, version=4).coordinators[0].node_id


@EACH
def test_members_come_and_go(crew: Crew, library: str) -> None:
    first = crew.join(library)
    crew.settle(4)
    second = crew.join(library)
    crew.settle(2, 2)
    eventually(lambda: crew.shares() and crew.described().group_state == "Stable", what="a stable group")
    described = crew.described()
    assert (len(described.members), described.assignor_name) == (2, "uniform")
    crew.leave(first)
    crew.settle(4)
    assert second.assignment() == {(crew.topic, partition) for partition in range(PARTITIONS)}


@EACH
def test_a_crashed_member_s_partitions_move_when_its_session_ends(
    cluster: semel.Cluster, crew: Crew, library: str
) -> None:
    crew.join(library)
    crashing = crew.join(library)
    crew.settle(2, 2)
    goodbye = cluster.intercept("ConsumerGroupHeartbeat", DropRequest(), times=None, where=crew.of(crashing, -1))
    crew.leave(crashing)
    assert goodbye.fired
    crew.settle(4)


@EACH
def test_the_late_commit_of_a_fenced_member_is_refused(crew: Crew, library: str) -> None:
    crew.produce()
    fenced = crew.join(library)
    eventually(lambda: crew.shares() and len(crew.received) == RECORDS, what="all records")
    silenced = silence(crew, fenced)
    crew.members.remove(fenced)
    crew.join(library)
    crew.settle(4)
    assert silenced.fired
    with pytest.raises(Refused) as refused:
        fenced.commit()
    # The Java client's own exception for it carries no code of Kafka's.
    assert refused.value.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH, -1)
    assert committed_offset(crew.cluster, crew.group, crew.topic) == -1
    crew.cluster.disarm(silenced)
    crew.members.append(fenced)
    crew.settle(2, 2)


@EACH
def test_a_static_member_comes_back_to_its_partitions(crew: Crew, library: str) -> None:
    restarting = crew.join(library, instance="restarting")
    staying = crew.join(library, instance="staying")
    crew.settle(2, 2)
    before = restarting.assignment(), staying.assignment()
    epoch = crew.described().group_epoch
    crew.leave(restarting)
    again = crew.join(library, instance="restarting")
    crew.settle(2, 2)
    assert (again.assignment(), staying.assignment()) == before
    assert crew.described().group_epoch == epoch, "nobody asked for a new assignment"


@EACH
def test_a_pattern_follows_new_topics(cluster: semel.Cluster, crew: Crew, library: str) -> None:
    crew.join(library, pattern=f"work-{crew.number}(-more)?")
    crew.settle(4)
    create_topic(cluster, f"{crew.topic}-more", partitions=2)
    create_topic(cluster, f"{crew.topic}-other", partitions=2)
    crew.settle(6)


@EACH
def test_reading_goes_on_where_the_group_committed(crew: Crew, library: str) -> None:
    crew.produce()
    member = crew.join(library)
    eventually(lambda: crew.shares() and len(crew.received) == RECORDS, what="all records")
    member.commit()
    crew.leave(member)
    crew.produce(8)
    crew.join(library)
    eventually(lambda: crew.shares() and len(crew.received) >= RECORDS + 8, what="the rest")
    assert len(crew.received) == RECORDS + 8


def test_both_libraries_share_a_group_that_its_coordinator_s_restart_does_not_move(
    cluster: semel.Cluster, crew: Crew, program: JavaProgram
) -> None:
    for library in LIBRARIES:
        crew.join(library)
    crew.settle(2, 2)
    before = [member.assignment() for member in crew.members]
    epoch = crew.described().group_epoch
    asked = {"settings": {"bootstrap.servers": cluster.bootstrap}, "group": crew.group}
    assert ask(program, "describe", **asked)["type"] == "Consumer"
    coordinator = _coordinator(cluster, crew.group)
    cluster.kill(coordinator)
    cluster.restart(coordinator)
    eventually(lambda: crew.shares() and not crew.described().error_code, what="a coordinator")
    crew.settle(2, 2)
    assert [member.assignment() for member in crew.members] == before
    assert crew.described().group_epoch == epoch


@pytest.mark.quick(1)
@EACH
def test_consume_process_produce_gives_each_record_once_while_members_come_and_go(
    cluster: semel.Cluster, crew: Crew, library: str
) -> None:
    """M22 under the consumer protocol: one worker dies with its transaction open, one is fenced and finds out."""
    output = f"{crew.topic}-out"
    create_topic(cluster, output)
    dying, fenced, lasting = (crew.join(library) for _ in range(3))
    crew.settle(1, 1, 2)
    for name, member in (("a", dying), ("b", fenced), ("c", lasting)):
        member.own(f"{crew.group}-{name}")
    crew.produce()
    eventually(lambda: dying.work(output, POLL_MS), what="a transaction that stays open")
    goodbye = cluster.intercept("ConsumerGroupHeartbeat", DropRequest(), times=None, where=crew.of(dying, -1))
    crew.leave(dying)
    assert goodbye.fired
    heir = crew.join(library)
    heir.own(f"{crew.group}-a")  # which aborts what the dead one left open
    eventually(lambda: fenced.work(output, POLL_MS), what="a transaction that comes too late")
    _fence_and_finish(crew, fenced)
    eventually(lambda: _copied(crew, output), what="everything copied")
    assert Counter(visible(cluster, output)) == {f"record {number}": 1 for number in range(RECORDS)}


def _fence_and_finish(crew: Crew, member: Member) -> None:
    """A member is silent until it is fenced, and learns of it when it commits."""
    member_id = member.member_id()
    silenced = silence(crew, member)
    eventually(lambda: member_id not in {row.member_id for row in crew.described().members}, what="it is fenced")
    assert silenced.fired
    with pytest.raises(Refused):
        member.finish()
    crew.cluster.disarm(silenced)


def _copied(crew: Crew, output: str) -> bool:
    """Let everybody work once; a commit that is refused is work to be done again."""
    for member in crew.members:
        if member.work(output, POLL_MS):
            with suppress(Refused):
                member.finish()
    return len(visible(crew.cluster, output)) >= RECORDS
