"""Consumer groups with real clients: sharing, joining, leaving, crashing, static members, committed offsets."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate, count, repeat

import pytest

import semel
from semel.broker.runtime.intercept import Delay, DropRequest, Hook, Seen
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.join_group import JoinGroupRequest
from semel.protocol.messages.leave_group import LeaveGroupRequest
from tests.clients.choice import NAMES, Drivers, each
from tests.clients.drivers.interface import Driver, Member, Received, Refused, Sent
from tests.clients.fixtures import MakeTopic
from tests.support.waiting import eventually

PARTITIONS = 4
POLL_MS = 50
SHORT_SESSION_MS = 1_000
_numbers = count()


class Crew:
    """The members of one group in one test, polled in turn; what they get is kept."""

    def __init__(self, topic: str) -> None:
        """Start with nobody."""
        self.group = f"group-{next(_numbers)}"
        self.topic = topic
        self.members: list[Member] = []
        self.received: list[Received] = []

    def join(self, driver: Driver, **options: object) -> Member:
        """Add a member."""
        member = driver.member(self.group, [self.topic], **options)  # type: ignore[arg-type]
        self.members.append(member)
        return member

    def leave(self, member: Member) -> None:
        """Close a member."""
        self.members.remove(member)
        member.close()

    def shares(self, poll_ms: int = POLL_MS) -> list[int]:
        """Poll everybody once; how many partitions each has, or nothing while the group is not settled."""
        for member in self.members:
            self.received += member.poll(poll_ms)
        parts = [member.assignment() for member in self.members]
        settled = len(set().union(*parts)) == sum(map(len, parts)) == PARTITIONS
        return sorted(map(len, parts)) if settled else []

    def settle(self, *shares: int) -> None:
        """Wait until the partitions are shared like this.

        Polls get longer on a machine that is slow: kafka-python joins again when a join was done between two polls, and
        where that happens to the leader each time, the group never comes to rest.
        """
        waits_ms = accumulate(repeat(POLL_MS))
        eventually(lambda: self.shares(next(waits_ms)) == sorted(shares), 60, what=f"shares {shares}")

    def read(self, wanted: int) -> None:
        """Wait until this many records have been received by all members together."""
        eventually(lambda: self.shares() and len(self.received) >= wanted, what=f"{wanted} records")


@contextmanager
def _crew(topic: str) -> Iterator[Crew]:
    crew = Crew(topic)
    try:
        yield crew
    finally:
        for member in crew.members:
            member.close()


@pytest.fixture
def crew(make_topic: MakeTopic) -> Iterator[Crew]:
    with _crew(make_topic(partitions=PARTITIONS)) as made:
        yield made


def _crash(cluster: semel.Cluster, crew: Crew, member: Member) -> Hook:
    """Close a member whose goodbye gets lost: to the broker this is a crash."""

    def is_goodbye(seen: Seen) -> bool:
        return isinstance(seen.request, LeaveGroupRequest) and seen.request.group_id == crew.group

    hook = cluster.intercept("LeaveGroup", DropRequest(), times=None, where=is_goodbye)
    crew.leave(member)
    return hook


def _watch_joins(cluster: semel.Cluster, crew: Crew) -> Hook:
    """Count who asks to join from now on."""

    def is_join(seen: Seen) -> bool:
        return isinstance(seen.request, JoinGroupRequest) and seen.request.group_id == crew.group

    return cluster.intercept("JoinGroup", Delay(ms=0), times=None, where=is_join)


@each(old_java=True)
def test_members_come_and_go(crew: Crew, driver: Driver) -> None:
    first = crew.join(driver)
    crew.settle(4)
    second = crew.join(driver)
    crew.settle(2, 2)
    crew.leave(first)
    crew.settle(4)
    assert second.assignment() == {(crew.topic, partition) for partition in range(PARTITIONS)}


@each()
def test_a_crashed_member_s_partitions_move_when_its_session_ends(
    cluster: semel.Cluster, crew: Crew, driver: Driver
) -> None:
    crew.join(driver, session_ms=SHORT_SESSION_MS)
    crashing = crew.join(driver, session_ms=SHORT_SESSION_MS)
    crew.settle(2, 2)
    goodbye = _crash(cluster, crew, crashing)
    crew.settle(4)
    assert goodbye.fired


@each()
def test_a_static_member_comes_back_without_a_rebalance(cluster: semel.Cluster, crew: Crew, driver: Driver) -> None:
    restarting = crew.join(driver, instance_id="restarting")
    staying = crew.join(driver, instance_id="staying")
    crew.settle(2, 2)
    before = restarting.assignment(), staying.assignment()
    joins = _watch_joins(cluster, crew)
    instances: list[str | None] = []
    joins.on_fire.append(lambda seen: instances.append(getattr(seen.request, "group_instance_id", None)))
    crew.leave(restarting)
    again = crew.join(driver, instance_id="restarting")
    crew.settle(2, 2)
    assert (again.assignment(), staying.assignment()) == before
    assert set(instances) == {"restarting"}


@each(old_java=True)
def test_reading_goes_on_where_the_group_committed(crew: Crew, driver: Driver) -> None:
    first = [Sent(key=b"first %d" % number, partition=number % PARTITIONS) for number in range(20)]
    second = [Sent(key=b"second %d" % number, partition=number % PARTITIONS) for number in range(12)]
    driver.produce(crew.topic, first)
    member = crew.join(driver)
    crew.read(len(first))
    member.commit()
    crew.leave(member)
    assert [driver.committed(crew.group, crew.topic, partition) for partition in range(PARTITIONS)] == [5] * PARTITIONS
    driver.produce(crew.topic, second)
    crew.join(driver)
    crew.read(len(first) + len(second))
    assert sorted(one.key or b"" for one in crew.received) == sorted(one.key or b"" for one in first + second)


@each()
def test_what_was_not_committed_is_read_again(crew: Crew, driver: Driver) -> None:
    driver.produce(crew.topic, [Sent(key=b"k")])
    crew.leave(_after(crew, crew.join(driver), 1))
    assert driver.committed(crew.group, crew.topic, 0) is None
    _after(crew, crew.join(driver), 2)
    assert [one.offset for one in crew.received] == [0, 0]


def _after(crew: Crew, member: Member, received: int) -> Member:
    crew.read(received)
    return member


@each("delete_group")
def test_a_group_is_listed_described_and_deleted(crew: Crew, driver: Driver) -> None:
    member = crew.join(driver)
    crew.settle(4)
    assert crew.group in driver.groups()
    assert driver.group_size(crew.group) == 1
    with pytest.raises(Refused) as refused:
        driver.delete_group(crew.group)
    assert refused.value.code == ErrorCode.NON_EMPTY_GROUP
    crew.leave(member)
    driver.delete_group(crew.group)
    assert crew.group not in driver.groups()
    with pytest.raises(Refused) as refused:
        driver.delete_group(crew.group)
    assert refused.value.code == ErrorCode.GROUP_ID_NOT_FOUND


def test_all_libraries_share_one_group(crew: Crew, drivers: Drivers) -> None:
    """One member of each: they read each other's subscriptions and assignments."""
    for name in NAMES:
        crew.join(drivers.get(name))
    crew.settle(1, 1, 1, 1)
    records = [Sent(key=b"%d" % number, partition=number % PARTITIONS) for number in range(40)]
    drivers.get("confluent").produce(crew.topic, records)
    crew.read(len(records))
    assert sorted((one.partition, one.offset) for one in crew.received) == [
        (partition, offset) for partition in range(PARTITIONS) for offset in range(10)
    ]
