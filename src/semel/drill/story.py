"""What the stories of the drill are told with: owners, readers, what must be found, and what is done to the cluster.

Why: a committed value that nobody can read after `READ_S_MAX` seconds, with every broker up, counts as lost.
     Otherwise a transaction that hangs for ever would only be UNKNOWN. So does work that does not go on within
     `GO_ON_S_MAX` seconds, where the cluster is mended or has enough brokers: a cluster that stands still for ever
     has broken its promise as well.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from semel.drill.damage.brokers import others, restart_all
from semel.drill.damage.records import read_all, wait_until
from semel.drill.drill_cluster import wait_in_sync
from semel.drill.late_messages import LEADER_ALONE, Owner, leader
from semel.engine.embedded import Cluster
from semel.errors import EnvironmentFailure, SemelError
from semel.protocol.coordinator_partition import TRANSACTION_TOPIC, coordinator_partition
from semel.protocol.error_codes import ErrorCode

STATUS, SEATS, PLAIN, LONE = "status", "seats", "plain", "lone"  # the last one has one replica
TOPICS = (f"{STATUS}:1:3", f"{SEATS}:1:3", f"{PLAIN}:1:3", f"{LONE}:1:1")
CONTROLLER = 0
REPLICA_FETCH = 1001  # a follower's Fetch, which hooks tell from a consumer's
READ_S_MAX, GO_ON_S_MAX = 8.0, 15.0
SHORT_MS = 2_000
LONG_MS = 600_000
ACKNOWLEDGED = ErrorCode.NONE


@dataclass(slots=True)
class Story:
    """What a cell tells while it runs: what readers must find, what they found, how often something was done to it."""

    cluster: Cluster
    wanted: list[str] = field(default_factory=list)
    maybe: set[str] = field(default_factory=set)
    """Values whose commit was not answered: both outcomes are right."""
    found: Counter[str] = field(default_factory=Counter)
    fired: int = 0
    stuck: str = ""
    """Why work did not go on where it must."""
    _read: set[str] = field(default_factory=set)

    def begin(self) -> None:
        """A record without a transaction: whatever else happens, readers find something."""
        self.owner(None).write(PLAIN, "here")
        self.wanted.append("here")

    def owner(self, name: str | None = "shop", *, newer: bool = True, timeout_ms: int = 60_000) -> Owner:
        """A new owner of this transactional id."""
        made = Owner(cluster=self.cluster, id=name, newer=newer)
        made.init(timeout_ms)
        return made

    def owner_elsewhere(self, topic: str, *, newer: bool = True) -> Owner:
        """An owner whose coordinator is another broker than the leader of this topic."""
        # A name decides its coordinator, so one has to be found by trying.
        for number in range(50):
            made = Owner(cluster=self.cluster, id=f"shop {number}", newer=newer)
            if made.coordinator() != leader(self.cluster, topic):
                made.init()
                return made
        raise AssertionError("fifty names of one coordinator")

    def committed(self, topic: str, *values: str) -> None:
        """Somebody else commits these, and they are there from now on."""
        other = self.owner("somebody else", newer=False)
        other.write(topic, *values)
        other.commit()
        self.wanted += values
        self.read(topic)

    def commit(self, owner: Owner, *values: str) -> None:
        """Commit these: the owner has done everything right, so that they must be there whatever it is told."""
        self.wanted += values
        with suppress(EnvironmentFailure):
            owner.commit(READ_S_MAX)

    def go_on(self, topic: str, value: str, name: str | None = None) -> None:
        """Somebody new writes this, in a transaction if the owner has a name: work must go on from here."""
        if self.stuck:
            return
        owner = Owner(cluster=self.cluster, id=name, patience_s=GO_ON_S_MAX)
        try:
            owner.init()
            owner.write(topic, value)
            if name is not None:
                owner.commit()
        except SemelError as error:
            self.maybe.add(value)
            self.stuck = f"work did not go on: {error.summary}"
        else:
            self.wanted.append(value)

    def read(self, *topics: str) -> None:
        """Look until all that is wanted of these topics is there, or for as long as a reader is asked to wait."""
        deadline = time.monotonic() + READ_S_MAX
        self._read.update(topics)
        while True:
            seen: Counter[str] = Counter()
            for topic in sorted({PLAIN, *self._read}):
                seen.update(read_all(self.cluster, topic))
            # What was seen at any time was seen: a record that goes away later was no committed one.
            self.found |= seen
            if all(seen[value] for value in self.wanted) or time.monotonic() > deadline:
                for value in self.wanted:
                    if not seen[value]:
                        del self.found[value]
                return
            time.sleep(0.1)


# --- what they share


def cut_off(story: Story, place: int) -> None:
    """Nothing passes any more between this broker and the others, or the controller."""
    for other in (CONTROLLER, *others(story.cluster, place)):
        story.cluster.split(place, other)
    story.fired += 1


def write_alone(story: Story) -> int:
    """A record that only a leader has which nobody else reaches; who that is."""
    story.committed(STATUS, "first")
    place = leader(story.cluster, STATUS)
    sender = story.owner(None)
    cut_off(story, place)
    sender.send(STATUS, sender.batch("alone", 0), broker_id=place, acks=LEADER_ALONE, ms_max=SHORT_MS)
    return place


def replace_leader(story: Story, place: int) -> None:
    """It dies, another one leads, and it comes back."""
    story.cluster.kill(place)
    story.cluster.heal()
    wait_until(lambda: leader(story.cluster, STATUS) not in (place, -1), "another replica leads")
    restart_all(story.cluster, place)
    wait_in_sync(story.cluster)


def move(story: Story, topic: str, broker_id: int, partition: int = 0) -> None:
    """Another replica leads."""
    story.cluster.move_leader(topic, partition, broker_id)
    wait_until(lambda: leader(story.cluster, topic, partition) == broker_id, "it leads")
    story.fired += 1


def coordinating_partition(cluster: Cluster, name: str) -> int:
    """Which partition of `__transaction_state` has this transactional id."""
    return coordinator_partition(name, len(cluster.core.state.topics[TRANSACTION_TOPIC].partitions))


def wait_at_most(seconds_max: float, condition: Callable[[], object]) -> None:
    """Wait until it is so, or for as long as it is given: what must not happen is not told when it does not."""
    with suppress(EnvironmentFailure):
        wait_until(condition, "it is so", seconds_max)


def insync(cluster: Cluster, topic: str = STATUS) -> tuple[int, ...]:
    """The in-sync replicas of its only partition, as the controller has them."""
    return cluster.core.state.topics[topic].partitions[0].isr
