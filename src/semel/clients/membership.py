"""`Membership`: one member of a consumer group, with librdkafka: polling, rebalances, pauses.

Keeps: K4 an unfinished record is neither counted as done nor skipped: after an exception in the middle of a poll the
       library reads again from the positions. K5 a partition that was taken away takes its offsets along.
Why:   librdkafka serves rebalances inside a poll, in the thread that polls. Usually that is the user's, who is then
       between two batches. While the user works for long it is the keep-alive thread, and then the rebalance waits for
       the user: a batch is finished before its partitions go, as far as the limit allows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from semel.clients.callbacks import Callbacks
from semel.clients.failures import failure
from semel.clients.fetched import Fetched
from semel.clients.group_commits import GroupCommits
from semel.clients.interrupts import PutOff, interrupts_put_off
from semel.clients.keep_alive import KeepAlive
from semel.clients.library import confluent, log, make, never_free
from semel.clients.limited_calls import LimitPassed
from semel.clients.positions import UNKNOWN, Positions, ReadPositions
from semel.clients.progress import Offsets, Progress
from semel.clients.records import first_offsets, next_offsets
from semel.clients.topic_lives import TopicLives
from semel.errors import BrokerError, Outcome, SemelError
from semel.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Message

KEEP_ALIVE_POLL_S = 0.1
FETCHED_AT_ONCE = 10_000
SERVED_AT_ONCE, SERVE_S_MAX = 10_000, 1.0
CALLED = ("stats_cb", "error_cb", "throttle_cb")  # of the user's, beside on_commit
NOT_TAKEN = -172  # "erroneous state", of the library's own codes
LOUD = {"auto.offset.reset": "error"}  # where a partition begins is for Positions to say


class Membership:
    """The calls of one confluent_kafka.Consumer, one thread at a time, and what rebalances do to the progress."""

    def __init__(
        self,
        settings: dict[str, Any],
        progress: Progress,
        lives: TopicLives,
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
        self.lock = threading.RLock()
        self._owned = threading.Condition(self.lock)
        self.revocations = 0
        self.keep_alive = KeepAlive(self._poll_for_user, keep_alive_s)
        self.lives = lives
        self.commits = GroupCommits(progress, lives, wait_s_max, settings.get("on_commit"))
        self._callbacks = Callbacks()
        called = {name: self._callbacks.keeping(to) for name, to in settings.items() if name in CALLED and callable(to)}
        called["on_commit"] = self._callbacks.keeping(self.commits.answered)
        self.client: Any = make("Consumer", {**settings, **LOUD, **called})
        self.commits.client = self.client
        self.positions = Positions(self.client, settings, wait_s_max, read_positions)
        self._wait_s_max, self._revoke_wait_s = wait_s_max, revoke_wait_s
        self._commits_on_revoke = commits_on_revoke
        self._is_static = bool(settings.get("group.instance.id"))
        is_consumer_protocol = str(settings.get("group.protocol", "")).lower() == "consumer"
        strategy = str(settings.get("partition.assignment.strategy", ""))
        self._incremental = is_consumer_protocol or "cooperative" in strategy
        self._paused = False
        self._closing = False
        # Whether what the library gives next may begin behind the positions: messages are on their way from the library
        # into a batch, or the library is on its way back. An exception in between (Ctrl-C, or one of a callback that
        # the library calls) leaves this set, and the next poll reads again from the positions.
        self.may_skip = False
        self._refusal: SemelError | None = None
        # At least once commits later when it would have to ask too often; the others ask before each batch is kept.
        self._asks_ahead = not commits_on_revoke
        self._fetched = Fetched(self.client, FETCHED_AT_ONCE if self._asks_ahead else 1)
        # What `assignment()` says, which asks another thread. Each is read from its position.
        self._assigned: dict[TopicPartition, Any] = {}
        self._moved: set[TopicPartition] = set()
        self._untaken: list[Any] = []  # ours, but nobody could say where they stand
        self._gone: set[TopicPartition] = set()

    @property
    def is_in_call(self) -> bool:
        """Whether this thread is inside a call: it runs a signal's handler, or a callback of the library."""
        try:
            self._owned.notify(0)  # nobody waits; it refuses a thread that does not have the lock
        except RuntimeError:
            return False
        return True

    def subscribe(self, topics: list[str]) -> None:
        """Join the group for these topics."""
        keeping = self._callbacks.keeping
        self.client.subscribe(
            topics,
            on_assign=keeping(self._assign),
            on_revoke=keeping(self._revoke),
            on_lost=keeping(self._lose),
        )

    def poll(self, records_max: int, wait_s: float) -> list[Message]:
        """Messages that are here, or the first to arrive; only errors when partitions were revoked meanwhile.

        `may_skip` is set until the caller says that none of them is lost.
        """
        if self._refusal is not None:
            raise self._refusal
        # A poll may serve a rebalance inside. What it then gives may be of partitions that are no longer ours.
        revocations = self.revocations
        try:
            if self.may_skip:
                self._read_on_from_positions()
            if self._untaken or self._gone:
                self._try_again()
            self.may_skip = True
            draws = self._fetched.draws
            self._fetched.poll(records_max, wait_s)
            self._callbacks.raise_kept()
            if draws != self._fetched.draws:
                self.lives.doubt()
                if self._asks_ahead:
                    self.lives.ask_ahead()
        except confluent().KafkaException as error:
            raise failure(
                error.args[0],
                "this member can read no more",
                outcome=Outcome.DID_NOT_HAPPEN,
                next_command="close this consumer and make another",
            ) from None
        if revocations != self.revocations:
            # Some may be of partitions that went, or went and came back at another offset. Errors are told once only.
            messages = self._fetched.take_all()
            self.read_again(messages)
            return [message for message in messages if message.error() is not None]
        return self._fetched.take(records_max)

    def read_again(self, messages: list[Message]) -> None:
        """Seek back to where reading stood before these messages, in partitions still ours; errors have no offset."""
        firsts = first_offsets([message for message in messages if message.error() is None])
        self.seek({place: self.progress.positions.get(place, offset) for place, offset in firsts.items()})

    def places(self, offsets: Mapping[TopicPartition, int]) -> list[Any]:
        """Offsets as the library has them."""
        kind = confluent().TopicPartition
        return [kind(place.topic, place.partition, offset) for place, offset in offsets.items()]

    def standing(self, messages: list[Message]) -> Offsets:
        """The next offset of each partition once these messages are handed out."""
        if self._moved or self._fetched:
            # The library stands behind what it has handed over; and what it says of a partition that was moved and
            # has read nothing since is not to be relied on.
            found = next_offsets(messages if len(self._assigned) > 1 else messages[-1:])
            self._refuse_strays(found)
            self._moved -= found.keys()
            return found
        self._refuse_strays([(messages[-1].topic(), messages[-1].partition())])
        places = self.client.position(list(self._assigned.values()))
        return {TopicPartition(one.topic, one.partition): one.offset for one in places if one.offset >= 0}

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read again from these offsets, in the partitions that are still ours."""
        kept = self.stand_at(offsets)
        if not kept:
            return
        self._moved |= kept.keys()
        # What was drawn behind the new position would be handed out twice, once now and once when it is read again.
        self._fetched.drop(kept.keys())
        for one in self.places(kept):
            try:
                self.client.seek(one)
            except confluent().KafkaException as error:
                raise failure(error.args[0], f"cannot read {one.topic} again", outcome=Outcome.DID_NOT_HAPPEN) from None

    def stand_at(self, offsets: Mapping[TopicPartition, int]) -> Offsets:
        """Let the positions be these, in the partitions that are still ours, which are returned."""
        kept = {place: offset for place, offset in offsets.items() if place in self._assigned}
        self.progress.assign(kept)
        return kept

    def _refuse_strays(self, places: Collection[tuple[Any, Any]]) -> None:
        """No batch without its offsets: the library reads what it was never told to read."""
        if all(place in self._assigned for place in places):
            return
        strays = ", ".join(f"{topic}-{number}" for topic, number in places if (topic, number) not in self._assigned)
        self._refusal = BrokerError(
            f"records of {strays} came, which this member has not taken",
            code=NOT_TAKEN,
            outcome=Outcome.DID_NOT_HAPPEN,
            because="a rebalance was cut off in the middle, and nobody knows from where they were read",
            next_command="close this consumer and make another",
        )
        raise self._refusal

    def _assign(self, client: Any, partitions: list[Any]) -> None:
        with interrupts_put_off() as put_off:
            if self._closing:
                self._take_none(client)
                return
            try:
                self._take(client, partitions, put_off)
            except BaseException:  # Ctrl-C as well
                self._leave_untaken(partitions)
                self._take_none(client)  # or the library would begin to read from positions of its own
                raise

    def _leave_untaken(self, partitions: list[Any]) -> None:
        """Partitions that are ours: the next poll takes them."""
        places = {TopicPartition(one.topic, one.partition): one for one in partitions}
        self._assigned = {place: one for place, one in self._assigned.items() if place not in places}
        self._fetched.drop(places.keys())
        self._untaken = list(
            ({TopicPartition(one.topic, one.partition): one for one in self._untaken} | places).values()
        )

    def _take_none(self, client: Any, instead_of: Sequence[Any] = ()) -> None:
        """Let the library read nothing, also of what it took by itself."""
        if not self._incremental:
            client.unassign()
        elif instead_of:
            client.incremental_unassign(instead_of)
        else:
            client.incremental_assign([])

    def _take(self, client: Any, partitions: list[Any], put_off: PutOff) -> None:
        """Read these partitions, from where the group or the store stands."""
        with put_off.let_in():  # this may wait for long
            lives = self.lives.learn({one.topic for one in partitions})
            positions = self.positions.read(partitions, lives)
        for one in partitions:
            one.offset = positions.get(TopicPartition(one.topic, one.partition), self.positions.start or one.offset)
            self._moved.add(TopicPartition(one.topic, one.partition))
        (client.incremental_assign if self._incremental else client.assign)(partitions)
        self.progress.assign(positions)
        self._assigned |= {TopicPartition(one.topic, one.partition): one for one in partitions}
        # The library remembers that a partition was paused when it went, and would never fetch it again.
        (client.pause if self._paused else client.resume)(partitions)

    def _try_again(self) -> None:
        """What could not be read is tried again on every poll, so that it is told again, or goes on once it can."""
        if self._untaken:
            with interrupts_put_off() as put_off:
                self._take(self.client, self._untaken, put_off)
                self._untaken = []
        if self._gone:
            lives = self.lives.learn({place.topic for place in self._gone})
            places = self.places(dict.fromkeys(self._gone, 0))
            self.progress.assign(self.positions.read(places, lives))
            self._assign_again()
            self._gone.clear()

    def _assign_again(self) -> None:
        """Read on everywhere from where the user stands: a partition that the library gave up cannot be moved else."""
        offsets = dict.fromkeys(self._assigned, self.positions.start or UNKNOWN)
        offsets |= {place: offset for place, offset in self.progress.positions.items() if place in offsets}
        places = self.places(offsets)
        with interrupts_put_off():
            self._assigned, self._moved = dict(zip(offsets, places, strict=True)), set(offsets)
            self._fetched.drop(self._moved)
            if self._incremental:
                self.client.incremental_unassign(places)
                self.client.incremental_assign(places)
            else:
                self.client.assign(places)

    def _read_on_from_positions(self) -> None:
        """An exception came in the middle of a poll, or of a way back: nobody knows where the library stands."""
        self.lives.doubt()  # for the same reason
        with interrupts_put_off():
            self._see_what_is_assigned()
            if self._assigned:
                self._assign_again()

    def _see_what_is_assigned(self) -> None:
        """A rebalance whose callback was cut off before its first line was finished by the library alone."""
        found = {TopicPartition(one.topic, one.partition): one for one in self.client.assignment()}
        if gone := self._assigned.keys() - found.keys():
            self._forget(gone)
        if came := [one for place, one in found.items() if place not in self._assigned]:
            self._leave_untaken(came)
            self._take_none(self.client, came)

    def lose_position(self, place: TopicPartition) -> None:
        """The records at its position are gone: the library reads nothing of it until it is moved."""
        if place in self._assigned:  # it may have gone to another member meanwhile
            self._gone.add(place)

    def _revoke(self, _: Any, partitions: list[Any]) -> None:
        places = [TopicPartition(one.topic, one.partition) for one in partitions]
        with interrupts_put_off() as put_off:
            try:
                # The group waits for this callback, so the batch in hand can still be finished and committed by its
                # owner.
                self._let_user_finish()
                if self._commits_on_revoke:
                    self.commits.is_in_callback = True
                    with put_off.let_in():  # this may wait for long
                        self._commit_last(places)
            finally:  # whatever came of that, they are somebody else's now
                self.commits.is_in_callback = False
                self._forget(places)

    def _lose(self, _: Any, partitions: list[Any]) -> None:
        # The session ran out: somebody else may have the partitions already, so nothing is committed for them.
        with interrupts_put_off():
            self._forget([TopicPartition(one.topic, one.partition) for one in partitions])
            log.warning("the group gave partitions away without asking: %s", ", ".join(map(str, partitions)))

    def _forget(self, places: Collection[TopicPartition]) -> None:
        gone = set(places)
        self._assigned = {place: one for place, one in self._assigned.items() if place not in gone}
        self._untaken = [one for one in self._untaken if TopicPartition(one.topic, one.partition) not in gone]
        self._gone -= gone
        self._fetched.drop(gone)
        self.lives.keep({place.topic for place in self._assigned})
        self.revocations += 1
        self.progress.revoke(places)

    def _let_user_finish(self) -> None:
        if self.keep_alive.is_busy and not self.keep_alive.wait_until_back(self._revoke_wait_s):
            log.warning("partitions are taken away in the middle of a batch that takes too long")

    def _commit_last(self, places: Iterable[TopicPartition]) -> None:
        """The last chance to commit what is finished of partitions that go."""
        self.progress.count_done()
        if self._closing:
            self.commits.commit_soon()  # a commit was waited for just now; the library's close waits for this one
            return
        self.commits.commit_if_possible({at: offset for at, offset in self.progress.finished.items() if at in places})

    def _poll_for_user(self) -> None:
        """What the keep-alive thread does: keep the membership, fetch nothing."""
        with self.lock:
            # The user came back while this thread waited for the lock.
            if not self.keep_alive.is_busy:
                return
            if not self._paused:
                self.client.pause(list(self._assigned.values()))
                self._paused = True
            may_skip, self.may_skip = self.may_skip, True
            try:
                self._fetched.serve(KEEP_ALIVE_POLL_S)
                self._callbacks.raise_kept()
                self.may_skip = may_skip
            except Exception as error:  # noqa: BLE001 - the thread must live, and the user's next poll meets it again
                log.warning("a poll for a user at work failed, the next one tries again: %s", error, exc_info=error)

    def resume(self) -> None:
        """The user is back: fetch again."""
        if self._paused:
            self.client.resume(list(self._assigned.values()))
            self._paused = False

    def close(self) -> None:
        """Leave the group."""
        self._closing = True
        self.keep_alive.back()
        self.keep_alive.stop()
        with self.lock:
            try:
                if not self.commits.limited.is_busy:
                    self._serve_rebalances()
            finally:
                self._close_client()
                self.lives.close()
                self._callbacks.log_kept()

    def _close_client(self) -> None:
        """A commit that was left behind ends first; the library has no limit for either."""
        try:
            self.commits.limited.call(self._wait_s_max, self.client.close)
        except LimitPassed:
            never_free(self.client)  # a thread is still in it
            log.warning(
                "the group was not left within %g s, as when its coordinator does not answer: its members get the "
                "partitions when the session of this one is over",
                self._wait_s_max,
            )

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
