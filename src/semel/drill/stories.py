"""Cells for mechanisms of the cluster that no fault under a well-behaved client reaches: late messages, exact moments.

Each is a short story on a cluster of its own. It says which values readers of committed records must find; all others,
and any of these twice, are anomalies. With one mechanism of the cluster switched off, one of them is BROKEN:
docs/DRILL_MUTATIONS.md names it. Those about work that must go on are in `stories_of_progress`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from semel.broker.runtime.intercept import Delay, DropRequest, DropResponse
from semel.drill.cells import Observed
from semel.drill.damage.brokers import REPLICATED, others, restart_all
from semel.drill.damage.records import wait_until
from semel.drill.drill_cluster import CONFIG, wait_in_sync
from semel.drill.late_messages import ALL, LEADER_ALONE, Owner, Reader, can_be_read, leader
from semel.drill.stories_of_progress import (
    demoted_leader,
    last_epoch,
    moved_coordinator,
    replaced_controller,
    two_newcomers,
)
from semel.drill.story import (
    ACKNOWLEDGED,
    LONE,
    LONG_MS,
    REPLICA_FETCH,
    SEATS,
    SHORT_MS,
    STATUS,
    TOPICS,
    Story,
    cut_off,
    insync,
    move,
    replace_leader,
    wait_at_most,
    write_alone,
)
from semel.engine.embedded import Cluster
from semel.errors import SemelError
from semel.faults import LostSync
from semel.faults.injection import injected
from semel.protocol.error_codes import ErrorCode

# --- owners who are late


def late_write(story: Story) -> None:
    """An owner that was replaced sends into the transaction of its successor."""
    old = story.owner(newer=False)
    old.write(STATUS, "old")
    new = story.owner(newer=False)
    new.write(STATUS, "new")
    for number in (0, 1, 2):
        old.send(STATUS, old.batch(f"late {number}", number))
        story.fired += 1
    story.commit(new, "new")
    story.read(STATUS)


def late_add(story: Story) -> None:
    """An owner that was replaced adds a partition to the transaction of its successor, and writes there."""
    old = story.owner(newer=False)
    new = story.owner(newer=False)
    new.write(STATUS, "new")
    old.add(SEATS)
    old.send(SEATS, old.batch("late", 0))
    story.fired += 1
    story.commit(new, "new")
    story.read(STATUS, SEATS)


def late_end(story: Story) -> None:
    """The commit of the last transaction comes again in the middle of the next one, which is aborted."""
    owner = story.owner()
    late = owner.end_request(commit=True)
    owner.write(STATUS, "first")
    owner.end(late)
    story.wanted.append("first")
    story.read(STATUS)
    owner.write(STATUS, "second")
    owner.end(late)
    story.fired += 1
    story.read(STATUS)


def late_batch(story: Story) -> None:
    """A batch of a transaction that has ended comes again; what others commit behind it must be readable."""
    owner = story.owner(newer=False)
    owner.write(STATUS, "first")
    late = owner.batch("late", 1)
    story.commit(owner, "first")
    story.read(STATUS)
    owner.send(STATUS, late)
    story.fired += 1
    story.committed(STATUS, "second")


def late_marker(story: Story) -> None:
    """A commit marker of an owner that was replaced comes into the open transaction of its successor."""
    old = story.owner(newer=False)
    old.write(STATUS, "old")
    new = story.owner(newer=False)
    story.committed(SEATS, "first")
    new.write(STATUS, "open")
    new.mark(STATUS, epoch=old.epoch, commit=True)
    story.fired += 1
    story.read(SEATS, STATUS)


# --- decisions and markers


def overtaken_marker(story: Story) -> None:
    """The next transaction writes while the abort markers of the last one are on their way."""
    owner = story.owner_elsewhere(STATUS)
    owner.write(STATUS, "first")
    hook = story.cluster.intercept("WriteTxnMarkers", Delay(ms=LONG_MS), times=None)
    owner.abort()
    # As a client with a newer protocol may: the answer to the abort has its next producer epoch.
    early = owner.send(STATUS, owner.batch("second", 0))
    story.cluster.disarm(hook)
    story.fired += hook.fired
    if early != ErrorCode.NONE:
        owner.write(STATUS, "second")
    story.commit(owner, "second")
    story.read(STATUS)


def dead_coordinator(story: Story) -> None:
    """The coordinator dies between its decision and the markers."""
    owner = story.owner_elsewhere(STATUS)
    owner.write(STATUS, "first")
    hook = story.cluster.intercept("WriteTxnMarkers", Delay(ms=LONG_MS), times=None)
    owner.commit()
    coordinator = owner.coordinator()
    story.cluster.kill(coordinator)
    story.cluster.disarm(hook)
    story.fired += 1
    restart_all(story.cluster, coordinator)
    story.wanted.append("first")
    story.read(STATUS)


def second_decision(story: Story) -> None:
    """An abort comes behind a commit whose markers do not arrive, to a coordinator that was started again."""
    owner = story.owner_elsewhere(STATUS)
    owner.write(STATUS, "first")
    hook = story.cluster.intercept("WriteTxnMarkers", DropRequest(), times=None)
    owner.commit()
    coordinator = owner.coordinator()
    story.cluster.kill(coordinator)
    restart_all(story.cluster, coordinator)
    owner.end(owner.end_request(commit=False))
    story.fired += hook.fired
    story.cluster.disarm(hook)
    story.wanted.append("first")
    story.read(STATUS)


def unanswered_commit(story: Story) -> None:
    """The answer to a commit is lost, and its owner aborts instead: an abort that is acknowledged leaves nothing."""
    owner = story.owner(newer=False)
    owner.write(STATUS, "first")
    hook = story.cluster.intercept("EndTxn", DropResponse())
    owner.end(owner.end_request(commit=True))
    story.fired += hook.fired
    told: list[int] = []

    def is_told() -> bool:
        told.append(owner.end(owner.end_request(commit=False)))
        return told[-1] != ErrorCode.CONCURRENT_TRANSACTIONS  # so long as markers are on their way

    wait_until(is_told, "the abort is answered")
    if told[-1] != ACKNOWLEDGED:
        story.wanted.append("first")
    story.read(STATUS)


def lost_marker(story: Story) -> None:
    """The first marker does not arrive."""
    owner = story.owner_elsewhere(STATUS)
    owner.write(STATUS, "first")
    hook = story.cluster.intercept("WriteTxnMarkers", DropRequest())
    owner.commit()
    wait_until(lambda: hook.fired, "the marker is lost")
    story.fired += hook.fired
    story.wanted.append("first")
    story.read(STATUS)


def lonely_decision(story: Story) -> None:
    """A coordinator that nobody else reaches is asked to commit, and dies: an answer must have meant something."""
    cluster = story.cluster
    owner = story.owner_elsewhere(STATUS)
    owner.write(STATUS, "first")
    coordinator = owner.coordinator()
    cut_off(story, coordinator)
    code = owner.end(owner.end_request(commit=True), broker_id=coordinator, ms_max=SHORT_MS)
    cluster.kill(coordinator)
    cluster.heal()
    wait_until(lambda: owner.coordinator() != coordinator, "another broker coordinates")
    restart_all(cluster, coordinator)
    wait_in_sync(cluster)
    Owner(cluster=cluster, id=owner.id).init()  # ends what is open
    if code == ACKNOWLEDGED:
        story.wanted.append("first")
    else:
        story.maybe.add("first")
    story.read(STATUS)


def dead_owner(story: Story) -> None:
    """An owner vanishes in the middle of a transaction; what others commit behind it must be readable."""
    story.owner(timeout_ms=500).write(STATUS, "dead")
    story.fired += 1
    story.committed(STATUS, "first")


def unfinished(story: Story) -> None:
    """A transaction is read while it is open, and again when it is aborted."""
    story.committed(STATUS, "first")
    owner = story.owner()
    owner.write(STATUS, "open")
    story.fired += 1
    story.read(STATUS)
    owner.abort()
    wait_until(lambda: story.owner() is not None, "the abort is over")
    story.committed(STATUS, "last")
    story.read(STATUS)


# --- replicas


def moved_leader(story: Story) -> None:
    """Another replica leads: it must know what was aborted, and which batches it has."""
    owner = story.owner()
    owner.write(STATUS, "aborted")
    owner.abort()
    story.committed(STATUS, "first")
    sender = story.owner(None)
    batch = sender.batch("once", 0)
    assert sender.send(STATUS, batch) == ACKNOWLEDGED
    move(story, STATUS, others(story.cluster, leader(story.cluster, STATUS))[0])
    sender.send(STATUS, batch)
    story.fired += 1
    story.wanted.append("once")
    story.read(STATUS)


def restarted_replica(story: Story) -> None:
    """The only replica is started again, and a batch that it has comes again."""
    sender = story.owner(None)
    batch = sender.batch("once", 0)
    assert sender.send(LONE, batch) == ACKNOWLEDGED
    place = leader(story.cluster, LONE)
    story.cluster.kill(place)
    restart_all(story.cluster, place)
    sender.send(LONE, batch)
    story.fired += 1
    story.wanted.append("once")
    story.read(LONE)


def power_cut(story: Story) -> None:
    """The machine of the only replica stops, and what was not synced is gone."""
    sender = story.owner(None)
    sender.write(LONE, "safe")
    with injected(story.cluster, LostSync(broker=leader(story.cluster, LONE))):
        story.fired += 1  # also where everything was synced, so that the crash took nothing
    wait_in_sync(story.cluster)
    story.wanted.append("safe")
    story.read(LONE)


def lonely_leader(story: Story) -> None:
    """A leader that nobody else reaches takes records and dies: an acknowledgement must have meant something."""
    story.committed(STATUS, "first")
    place = leader(story.cluster, STATUS)
    sender = story.owner(None)
    cut_off(story, place)
    # Several: a leader may look at its followers when it takes the next one.
    for number in range(3):
        batch = sender.batch(f"alone {number}", number)
        if sender.send(STATUS, batch, broker_id=place, acks=ALL, ms_max=SHORT_MS) == ACKNOWLEDGED:
            story.wanted.append(f"alone {number}")
    replace_leader(story, place)
    story.read(STATUS)


def early_read(story: Story) -> None:
    """What a reader sees on a leader that nobody else reaches must still be there when that leader is gone."""
    place = write_alone(story)
    if can_be_read(story.cluster, place, STATUS, "alone"):
        story.wanted.append("alone")
    replace_leader(story, place)
    story.read(STATUS)


def parted_replica(story: Story) -> None:
    """A leader that was cut off has a record that no other has; it comes back, copies on, and leads again."""
    cluster = story.cluster
    place = write_alone(story)
    wait_until(lambda: leader(cluster, STATUS) not in (place, -1), "another replica leads")
    sender = story.owner(None)
    sender.write(STATUS, "later")
    story.wanted.append("later")
    cluster.heal()
    # Whatever it holds instead of the one before, it can copy this one.
    sender.write(STATUS, "last")
    story.wanted.append("last")
    wait_until(lambda: place in insync(cluster), "it follows again")
    # As a leader it would show its own record to readers, had it kept that.
    move(story, STATUS, place)
    story.read(STATUS)


def former_leader(story: Story) -> None:
    """A record comes to a broker that has stopped to lead: taking it would lose it without any crash."""
    cluster = story.cluster
    story.committed(STATUS, "first")
    place = leader(cluster, STATUS)
    move(story, STATUS, others(cluster, place)[0])
    sender = story.owner(None)
    # With acks=1 no other replica is asked, so nothing but the role of this broker refuses it.
    code = sender.send(STATUS, sender.batch("late", 0), broker_id=place, acks=LEADER_ALONE, ms_max=SHORT_MS)
    story.fired += 1
    if code == ACKNOWLEDGED:
        story.wanted.append("late")
    story.read(STATUS)


def reader_ahead(story: Story) -> None:
    """A reader that has heard of a new leader asks the old one, which has not: it must not be told to begin again."""
    cluster = story.cluster
    story.committed(STATUS, "first")
    place = leader(cluster, STATUS)
    cut_off(story, place)
    wait_until(lambda: leader(cluster, STATUS) not in (place, -1), "another replica leads")
    sender = story.owner(None)
    for value in ("second", "third"):
        sender.write(STATUS, value)
        story.wanted.append(value)
    reader = Reader(cluster=cluster, topic=STATUS)
    wait_until(lambda: "third" in reader.read(leader(cluster, STATUS)), "it is at the end")
    # The old leader's log ends before the reader's position.
    reader.read(place)
    cluster.heal()
    wait_in_sync(cluster)
    reader.read(leader(cluster, STATUS))
    story.found |= reader.found
    story.read(STATUS)


def hasty_follower(story: Story) -> None:
    """A follower comes back and has fetched nothing yet when the only replica in sync dies."""
    cluster = story.cluster
    place = leader(cluster, STATUS)
    followers = others(cluster, place)
    for broker_id in followers:
        cluster.kill(broker_id)
    story.owner(None).write(STATUS, "safe")
    story.wanted.append("safe")
    hook = cluster.intercept(REPLICA_FETCH, DropResponse(), times=None)
    cluster.restart(followers[0])
    wait_until(lambda: hook.fired >= 1, "the follower has asked")
    # Long enough for a controller to take it in, if anybody proposes that.
    wait_at_most(2.0, lambda: len(insync(cluster)) > 1)
    cluster.kill(place)
    cluster.disarm(hook)
    story.fired += 1
    wait_at_most(3.0, lambda: leader(cluster, STATUS) == followers[0])
    restart_all(cluster, place, *followers[1:])
    wait_in_sync(cluster)
    story.read(STATUS)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryCell:
    """One of them, and the cluster that it needs."""

    tell: Callable[[Story], None]
    min_insync: int = 2
    flush: str = "os"
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As the matrix has it: `late write`."""
        return self.tell.__name__.replace("_", " ")

    def run(self, folder: Path) -> Observed:
        """Tell it on a cluster of its own; judged as exactly once."""
        config = {**CONFIG, **REPLICATED, "min.insync.replicas": str(self.min_insync), **self.config}
        story: Story | None = None
        try:
            with Cluster(brokers=3, topics=TOPICS, config=config, flush=self.flush, data=folder / "cluster") as cluster:
                wait_in_sync(cluster)
                story = Story(cluster)
                story.begin()
                self.tell(story)
        except SemelError as error:
            return Observed(reason=error.summary, broken=story.stuck if story is not None else "")
        fired = {self.name: story.fired}
        found = story.found - Counter(story.maybe)
        return Observed.count(story.wanted, found, fired=fired, errors=(), reason="", broken=story.stuck)


ON_ONE = (hasty_follower, lonely_leader)
PATIENT = {"replica.lag.time.max.ms": "30000"}  # followers stay in sync while what they ask for is held up
ON_ONE_BROKER = {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"}
STORIES: Sequence[StoryCell] = (
    *(StoryCell(tell=tell) for tell in (late_write, late_add, late_end, late_batch, late_marker)),
    *(StoryCell(tell=tell) for tell in (overtaken_marker, dead_coordinator, second_decision, unanswered_commit)),
    *(StoryCell(tell=tell) for tell in (lost_marker, lonely_decision, dead_owner, unfinished)),
    *(StoryCell(tell=tell) for tell in (moved_leader, restarted_replica, early_read, parted_replica, former_leader)),
    StoryCell(tell=reader_ahead),
    *(StoryCell(tell=tell, min_insync=1) for tell in ON_ONE),
    StoryCell(tell=power_cut, flush="every"),
    *(StoryCell(tell=tell) for tell in (demoted_leader, moved_coordinator, replaced_controller)),
    StoryCell(tell=two_newcomers, config=PATIENT),
    StoryCell(tell=last_epoch, config=ON_ONE_BROKER),
)
STORY_OF = {story.name: story for story in STORIES}
