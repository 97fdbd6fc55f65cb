"""`Membership`: one member of a consumer group, with librdkafka: polling, rebalances, pauses, commits.

Keeps: K5 a partition that was taken away takes its offsets along.
Why:   librdkafka serves rebalances inside a poll, in the thread that polls. Usually that is the user's, who is then
       between two batches. While the user works for long it is the keep-alive thread, and then the rebalance waits for
       the user: a batch is finished before its partitions go, as far as the limit allows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from semel.clients.failures import FENCED_MEMBER, KafkaFailure, failure
from semel.clients.keep_alive import KeepAlive
from semel.clients.library import confluent, log, make
from semel.clients.progress import Offsets, Progress
from semel.clients.records import TopicPartition, first_offsets, next_offsets
from semel.errors import BrokerError, ConfigError, FencedError, Outcome

if TYPE_CHECKING:
    from confluent_kafka import Message

REBALANCE_IN_PROGRESS = 27
PAUSE_S = 0.05
KEEP_ALIVE_POLL_S = 0.1
SERVED_AT_ONCE, SERVE_S_MAX = 10_000, 1.0
# Where a partition without a position begins. The library is not asked: it would use the same setting for a position
# whose records are gone, and skip or repeat without a word.
BEGINNING, END = -2, -1
STARTS = {
    "earliest": BEGINNING,
    "smallest": BEGINNING,
    "beginning": BEGINNING,
    "latest": END,
    "largest": END,
    "end": END,
}
LOUD = {"auto.offset.reset": "error"}

ReadPositions = Callable[[list[TopicPartition], Callable[[TopicPartition], int]], Offsets]


class Membership:
    """The calls of one confluent_kafka.Consumer, one thread at a time, and what rebalances do to the progress."""

    def __init__(
        self,
        settings: dict[str, Any],
        progress: Progress,
        *,
        wait_s_max: float,
        keep_alive_s: float,
        revoke_wait_s: float,
        read_positions: ReadPositions | None,
        commits_on_revoke: bool,
    ) -> None:
        """`read_positions` gives the positions when they are not kept in the group.

        A rebalance waits `revoke_wait_s` for a user who is at work; beyond max.poll.interval.ms it could not.
        """
        self.progress = progress
        self.wait_s_max = wait_s_max
        self.lock = threading.RLock()
        self.commits_refused = 0
        self.revocations = 0
        self.keep_alive = KeepAlive(self._poll_for_user, keep_alive_s)
        self.client: Any = make("Consumer", {"on_commit": self._on_commit, **settings, **LOUD})
        self._revoke_wait_s = revoke_wait_s
        self._read_positions = read_positions
        self._commits_on_revoke = commits_on_revoke
        self._is_static = bool(settings.get("group.instance.id"))
        self._incremental = "cooperative" in str(settings.get("partition.assignment.strategy", ""))
        self._in_flight = False
        self._paused = False
        self._closing = False
        self._early: list[Message] = []
        self._assigned: list[Any] = []  # what `assignment()` says, which asks another thread
        self._moved: set[TopicPartition] = set()
        self._start = STARTS.get(str(settings.get("auto.offset.reset")))

    def subscribe(self, topics: list[str]) -> None:
        """Join the group for these topics."""
        self.client.subscribe(topics, on_assign=self._assign, on_revoke=self._revoke, on_lost=self._lose)

    def poll(self, records_max: int, wait_s: float) -> list[Message]:
        """Whatever is here, or the first that comes; no records when partitions went in between."""
        revocations = self.revocations
        try:
            messages = self._here(records_max, wait_s)
        except confluent().KafkaException as error:
            raise failure(
                error.args[0],
                "this member can read no more",
                outcome=Outcome.DID_NOT_HAPPEN,
                next_command="close this consumer and make another",
            ) from None
        if messages and revocations != self.revocations:
            # Some may be of partitions that went, or went and came back at another offset. Errors are told once only.
            self.read_again(messages)
            return [message for message in messages if message.error() is not None]
        return messages

    def _here(self, records_max: int, wait_s: float) -> list[Message]:
        """The library waits until a batch is full; whoever wants it at once asks for what is here, then for one."""
        messages: list[Message] = self._early + self.client.consume(records_max, 0)
        self._early = []
        if not messages and (first := self.client.poll(wait_s)) is not None:
            messages = [first, *self.client.consume(records_max - 1, 0)] if records_max > 1 else [first]
        return messages

    def read_again(self, messages: list[Message]) -> None:
        """Go back to where their partitions stood, as far as these are ours; an error's place is not read."""
        firsts = first_offsets([message for message in messages if message.error() is None])
        self.seek({place: self.progress.positions.get(place, offset) for place, offset in firsts.items()})

    def places(self, offsets: Mapping[TopicPartition, int]) -> list[Any]:
        """Offsets as the library has them."""
        kind = confluent().TopicPartition
        return [kind(place.topic, place.partition, offset) for place, offset in offsets.items()]

    def standing(self, messages: list[Message]) -> Offsets:
        """Where the partitions of these messages stand behind them."""
        if self._moved:
            # What the library says of a partition that was moved and has read nothing since is not to be relied on.
            found = next_offsets(messages)
            self._moved -= found.keys()
            return found
        places = self.client.position(self._assigned)
        return {TopicPartition(one.topic, one.partition): one.offset for one in places if one.offset >= 0}

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read from there again, where the partition is still ours."""
        if not offsets:
            return
        ours = {TopicPartition(one.topic, one.partition) for one in self._assigned}
        kept = {place: offset for place, offset in offsets.items() if place in ours}
        self._moved |= kept.keys()
        for one in self.places(kept):
            try:
                self.client.seek(one)
            except confluent().KafkaException as error:
                raise failure(error.args[0], f"cannot read {one.topic} again", outcome=Outcome.DID_NOT_HAPPEN) from None

    def commit(self, offsets: Offsets) -> None:
        """Commit and wait. FencedError when the group gave the partitions to another."""
        deadline = time.monotonic() + self.wait_s_max
        while offsets:
            try:
                self.client.commit(offsets=self.places(offsets), asynchronous=False)
            except confluent().KafkaException as error:
                cause: KafkaFailure = error.args[0]
            else:
                return
            if cause.code() in FENCED_MEMBER or cause.code() == REBALANCE_IN_PROGRESS:
                self.commits_refused += 1
                raise FencedError(
                    f"the commit was refused: {cause.name()}",
                    code=cause.code(),
                    because="the group has given the partitions to another member, or is about to",
                    next_command="go on: the records come again to whoever has the partition now",
                )
            if not cause.retriable() or time.monotonic() > deadline:
                raise failure(cause, "the offsets were not committed", outcome=Outcome.UNKNOWN)
            time.sleep(PAUSE_S)

    def commit_soon(self) -> None:
        """Send what is finished, unless a commit is still under way: then the next one carries it."""
        if self.progress.finished and not self._in_flight:
            self._in_flight = True
            offsets, self.progress.finished = self.progress.finished, {}
            self.client.commit(offsets=self.places(offsets), asynchronous=True)

    def _on_commit(self, error: KafkaFailure | None, places: list[Any]) -> None:
        self._in_flight = False
        failed = error or next((one.error for one in places if one.error is not None), None)
        if failed is not None:
            self.commits_refused += 1
            for one in places:
                if (place := TopicPartition(one.topic, one.partition)) in self.progress.positions:
                    self.progress.finished.setdefault(place, one.offset)
            log.warning("offsets were not committed, records may come again: %s", failed.str())

    def _assign(self, client: Any, partitions: list[Any]) -> None:
        if self._closing:
            client.unassign()
            return
        try:
            positions = self._positions(client, partitions)
        except Exception:
            client.unassign()  # or the library would begin to read from positions of its own
            raise
        for one in partitions:
            one.offset = positions.get(TopicPartition(one.topic, one.partition), self._start or one.offset)
            self._moved.add(TopicPartition(one.topic, one.partition))
        (client.incremental_assign if self._incremental else client.assign)(partitions)
        self.progress.assign(positions)
        self._assigned += partitions
        if self._paused:
            client.pause(partitions)

    def _positions(self, client: Any, partitions: list[Any]) -> Offsets:
        if self._read_positions is not None:
            places = [TopicPartition(one.topic, one.partition) for one in partitions]
            return self._read_positions(places, self._beginning)
        found = client.committed(partitions, self.wait_s_max)
        return {TopicPartition(one.topic, one.partition): one.offset for one in found if one.offset >= 0}

    def _beginning(self, place: TopicPartition) -> int:
        """Where a partition begins that the store knows nothing of."""
        if self._start is None:
            raise ConfigError(
                f"the store has no offset for {place}", because="auto.offset.reset says not to choose one"
            )
        one = confluent().TopicPartition(place.topic, place.partition)
        low, high = self.client.get_watermark_offsets(one, self.wait_s_max)
        return int(low if self._start == BEGINNING else high)

    def _revoke(self, _: Any, partitions: list[Any]) -> None:
        places = [TopicPartition(one.topic, one.partition) for one in partitions]
        self._let_user_finish()
        if self._commits_on_revoke:
            self._commit_last(places)
        self._forget(places)

    def _lose(self, _: Any, partitions: list[Any]) -> None:
        log.warning("the group gave partitions away without asking: %s", ", ".join(map(str, partitions)))
        self._forget([TopicPartition(one.topic, one.partition) for one in partitions])

    def _forget(self, places: list[TopicPartition]) -> None:
        gone = set(places)
        self._assigned = [one for one in self._assigned if TopicPartition(one.topic, one.partition) not in gone]
        self.revocations += 1
        self.progress.revoke(places)

    def _let_user_finish(self) -> None:
        if self.keep_alive.is_busy and not self.keep_alive.wait_until_back(self._revoke_wait_s):
            log.warning("partitions are taken away in the middle of a batch that takes too long")

    def _commit_last(self, places: Iterable[TopicPartition]) -> None:
        """The last chance to commit what is finished of partitions that go."""
        self.progress.count_done()
        self.commit_if_possible({at: offset for at, offset in self.progress.finished.items() if at in places})

    def commit_if_possible(self, offsets: Offsets) -> None:
        """Commit and wait; whoever is about to leave can do no more about a refusal than tell."""
        try:
            self.commit(offsets)
        except BrokerError as error:
            log.warning("offsets were not committed, records may come again: %s", error.summary)

    def _poll_for_user(self) -> None:
        """What the keep-alive thread does: keep the membership, fetch nothing."""
        with self.lock:
            if not self.keep_alive.is_busy:
                return
            if not self._paused:
                self.client.pause(self._assigned)
                self._paused = True
            message = self.client.poll(KEEP_ALIVE_POLL_S)
            if message is not None:
                self._early.append(message)

    def resume(self) -> None:
        """The user is back: fetch again."""
        if self._paused:
            self.client.resume(self._assigned)
            self._paused = False

    def close(self) -> None:
        """Leave the group."""
        self._closing = True
        self.keep_alive.back()
        self.keep_alive.stop()
        with self.lock:
            self._serve_rebalances()
            self.client.close()

    def _serve_rebalances(self) -> None:
        """Let no rebalance be left to the library's close, which may end while it serves one, and then waits for ever.

        That wait holds Python's own lock: no thread and no signal could end it (confluentinc/librdkafka#4041).
        Without a subscription no other rebalance begins. A static member keeps its place in the group and so its
        subscription; it would have to be expelled just here.
        """
        deadline = time.monotonic() + SERVE_S_MAX
        try:
            if not self._is_static:
                self.client.unsubscribe()
            while self.client.consume(SERVED_AT_ONCE, 0) and time.monotonic() < deadline:
                pass
        except confluent().KafkaException as error:
            log.warning("the group was left without a last rebalance: %s", error.args[0].str())
