"""Stories about work that must go on: what was replaced may not stand in the way for ever, and nobody is forgotten.

Here no record is lost or doubled where a mechanism is switched off: the cluster stands still, for one transactional
id or for all. A new program that cannot do its work within `story.GO_ON_S_MAX` seconds makes the cell BROKEN.
"""

from __future__ import annotations

import threading
from dataclasses import replace

from semel.broker.log.config import LogConfig
from semel.broker.log.partition_log import PartitionLog
from semel.broker.log.types import Origin
from semel.broker.runtime.intercept import Delay, Hook
from semel.broker.transactions.records import decode_key, decode_value, encode_key, encode_value
from semel.broker.transactions.types import PRODUCER_EPOCH_MAX, TransactionEntry
from semel.drill.damage.brokers import others, restart_all
from semel.drill.damage.records import wait_until
from semel.drill.drill_cluster import wait_in_sync
from semel.drill.late_messages import leader
from semel.drill.story import (
    CONTROLLER,
    LONG_MS,
    READ_S_MAX,
    REPLICA_FETCH,
    STATUS,
    Story,
    coordinating_partition,
    insync,
    move,
    wait_at_most,
)
from semel.errors import EnvironmentFailure
from semel.protocol.coordinator_partition import TRANSACTION_TOPIC
from semel.protocol.error_codes import ErrorCode
from semel.protocol.record_batch import DraftRecord, decode_records, encode_batch, iter_headers
from semel.world.clock import RealClock
from semel.world.real_disk import RealDisk

# By then a controller that was stopped has noticed that no broker speaks to it, and has been refused.
OLD_CONTROLLER_S_MAX = 4.0


def demoted_leader(story: Story) -> None:
    """A leader that was replaced has to follow: when another broker dies, two are in sync, which is enough."""
    cluster = story.cluster
    place = leader(cluster, STATUS)
    new, third = others(cluster, place)
    move(story, STATUS, new)
    story.go_on(STATUS, "first")
    wait_at_most(READ_S_MAX, lambda: place in insync(cluster))
    cluster.kill(third)
    story.go_on(STATUS, "second")
    story.read(STATUS)


def moved_coordinator(story: Story) -> None:
    """The place of a coordinator goes to another broker and comes back: each of them has to coordinate in its turn."""
    cluster, name = story.cluster, "shop"
    story.go_on(STATUS, "first", name)
    partition = coordinating_partition(cluster, name)
    place = leader(cluster, TRANSACTION_TOPIC, partition)
    for broker_id, value in ((others(cluster, place)[0], "second"), (place, "third")):
        move(story, TRANSACTION_TOPIC, broker_id, partition)
        story.go_on(STATUS, value, name)
    story.read(STATUS)


def replaced_controller(story: Story) -> None:
    """A controller is stopped, replaced, and goes on: nobody speaks to it, so it believes that every broker is dead."""
    cluster = story.cluster
    story.committed(STATUS, "first")
    cluster.pause(CONTROLLER)
    wait_until(lambda: cluster.core.has_controller, "another one has taken over")
    cluster.resume(CONTROLLER)
    story.fired += 1
    # So long it takes the old one to take every broker for dead, if anybody lets it decide.
    wait_at_most(OLD_CONTROLLER_S_MAX, lambda: leader(cluster, STATUS) == -1)
    story.go_on(STATUS, "second")
    # The next one believes what the log says.
    cluster.kill_controller()
    wait_until(lambda: cluster.core.has_controller, "a third one has taken over")
    wait_in_sync(cluster)
    story.read(STATUS)


def two_newcomers(story: Story) -> None:
    """Two owners begin at once, and replicas have the record of the first before that of the second: both are heard."""
    cluster = story.cluster
    story.go_on(STATUS, "here already", "somebody else")
    first, *names = (f"shop {number}" for number in range(500))
    partition = coordinating_partition(cluster, first)
    # In one partition, so that both records stand in one log, one behind the other.
    second = next(name for name in names if coordinating_partition(cluster, name) == partition)
    place = leader(cluster, TRANSACTION_TOPIC, partition)
    threads: list[threading.Thread] = []
    held = _hold_replication(story, place)
    for name in (first, second):
        end = _log_end(story, place, partition)
        # In threads: each waits for an answer that comes only when both records are replicated.
        threads.append(threading.Thread(target=story.go_on, args=(STATUS, name, name), daemon=True))
        threads[-1].start()
        wait_until(lambda end=end: _log_end(story, place, partition) > end, f"{name} is in the log")  # type: ignore[misc]
        if name == first:
            # What is held goes on and brings the first record; the next questions, which say that it has arrived, wait.
            held, before = _hold_replication(story, place, before=held), held
            story.fired += before.fired
    cluster.disarm(held)
    for thread in threads:
        thread.join()
    # What a thread was told ends with it: whoever neither wrote nor is stuck has shown nothing.
    if not story.stuck and (silent := {first, second} - set(story.wanted)):
        raise EnvironmentFailure(f"{', '.join(sorted(silent))} ended without an answer")
    story.read(STATUS)


def last_epoch(story: Story) -> None:
    """The producer epochs of a transactional id are used up: its next owner goes on under another producer id."""
    name = "shop"
    owner = story.owner(name)
    place, partition = owner.coordinator(), coordinating_partition(story.cluster, name)
    story.cluster.kill(place)
    # As 32,766 owners would have left it, which takes minutes.
    _write_entry(story, place, partition, name)
    restart_all(story.cluster, place)
    wait_until(lambda: _epoch(story, place, name) == PRODUCER_EPOCH_MAX - 1, "its coordinator knows the last epoch")
    story.fired += 1
    for value in ("first", "second"):
        story.go_on(STATUS, value, name)
    story.read(STATUS)


# --- what they share


def _hold_replication(story: Story, place: int, before: Hook | None = None) -> Hook:
    """Hold what the followers ask this broker next, and let go what an older hook holds; returns when all is held."""
    cluster = story.cluster
    hook = cluster.intercept(REPLICA_FETCH, Delay(ms=LONG_MS), times=None, where=lambda seen: seen.broker_id == place)
    if before is not None:
        cluster.disarm(before)
    wait_until(lambda: hook.fired >= len(others(cluster, place)), "every follower waits")
    return hook


def _log_end(story: Story, place: int, partition: int) -> int:
    return story.cluster.core.brokers[place].partitions[TRANSACTION_TOPIC, partition].log.log_end_offset


def _write_entry(story: Story, place: int, partition: int, name: str) -> None:
    """Give the id the last producer epoch that a client may have, in the log of a coordinator that does not run."""
    folder = story.cluster.data / f"broker-{place}" / f"{TRANSACTION_TOPIC}-{partition}"
    now_ms = RealClock().wall_ms()
    log = PartitionLog.open(RealDisk(), folder, LogConfig(), now_ms=now_ms, clean=False)
    try:
        entry = replace(_newest_entry(log, name), producer_epoch=PRODUCER_EPOCH_MAX - 1)
        draft = DraftRecord(key=encode_key(name), value=encode_value(entry), timestamp_ms=now_ms)
        batch = memoryview(bytearray(encode_batch([draft])))
        log.append_as_leader(batch, leader_epoch=log.epochs.latest, now_ms=now_ms, origin=Origin.COORDINATOR)
    finally:
        log.close()


def _epoch(story: Story, place: int, name: str) -> int:
    """The producer epoch that the coordinator of this id knows; -1 while it is not there."""
    found = story.cluster.core.brokers[place].transactions.find(name)
    entry = found if isinstance(found, ErrorCode) else found.core.describe(name)
    return -1 if isinstance(entry, ErrorCode) else entry.producer_epoch


def _newest_entry(log: PartitionLog, name: str) -> TransactionEntry:
    data = log.read(log.log_start_offset, bytes_max=1 << 20).read()
    found = [
        decode_value(name, record.value)
        for position, header in iter_headers(data)
        for record in decode_records(data, header, position)
        if record.value is not None and decode_key(record.key or b"") == name
    ]
    return found[-1]
