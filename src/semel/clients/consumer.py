"""`semel.Consumer`: records from Kafka under a declared guarantee, which decides when their offsets are committed.

    with semel.Consumer("localhost:9092", ["orders"], group="billing", guarantee=Guarantee.AT_LEAST_ONCE) as consumer:
        for batch in consumer.batches():
            bill(batch)

- at most once: committed, then handed out. A crash loses what was handed out.
- at least once: handed out, then committed when you ask for more. A crash repeats it.
- exactly once: the offsets are part of a producer's transaction or of a store's; nothing else commits them.

A batch counts as finished when you ask for the next one. Leaving the loop by `break` or an exception gives it up: at
least once and exactly once read it again. One thread at a time; after a fork the child's copy refuses everything.

Keeps: K1 a contradicting setting is refused; K4 an unfinished record is neither counted as done nor skipped; K6 under
       exactly once nothing is handed out while the offsets of the last batch are kept nowhere, or nobody knows.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from semel.clients.batch_reader import BatchReader
from semel.clients.handing_out import HandsOut, note
from semel.clients.library import close_refusal, fork_refusal, log, never_free, tell_of_forks
from semel.clients.membership import Membership
from semel.clients.progress import Ending, Offsets
from semel.clients.records import Batch, Life, Record
from semel.clients.setting_names import Role
from semel.clients.settings import Value, beside_arguments, client_settings, read
from semel.clients.steps import ClientStep, OnStep, ignore_step
from semel.clients.topic_lives import TopicLives
from semel.errors import ConfigError, FencedError, SemelError
from semel.guarantee import Guarantee
from semel.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from semel.clients.stores import Store

WAIT_MS_MAX = 60_000
RECORDS_MAX = 1_000
POLL_S, COMMIT_AGAIN_S = 0.5, 0.05
OTHERS_S = 0.001  # a thread that waits for a lock gets it from one that sleeps, and hardly from one that takes it again
POLL_INTERVAL_MS = 300_000


class Consumer(HandsOut):
    """One member of a group."""

    def __init__(
        self,
        bootstrap: str,
        topics: Sequence[str],
        *,
        group: str,
        guarantee: Guarantee | str,
        store: Store | None = None,
        settings: Mapping[str, Value] | None = None,
        wait_ms_max: int = WAIT_MS_MAX,
        keep_alive_ms: int | None = None,
        on_step: OnStep = ignore_step,
    ) -> None:
        """`settings` go to librdkafka. `store` keeps the offsets with the results, for exactly once.

        A batch that takes longer than `keep_alive_ms` (a third of max.poll.interval.ms) is kept ours in the background.
        """
        super().__init__(Guarantee.parse(guarantee), store)
        self.group = group
        arguments = {"bootstrap.servers": ("bootstrap", bootstrap), "group.id": ("group", group)}
        given = {"group.id": group, **beside_arguments(Role.CONSUMER, settings, arguments)}
        merged = client_settings(Role.CONSUMER, self.guarantee, bootstrap, given)
        if isinstance(topics, str) or not topics:
            raise ConfigError(f"topics={topics!r} is no list of topics", you_want='topics=["orders"]')
        if store is not None and self.guarantee is not Guarantee.EXACTLY_ONCE:
            raise self._misuse(f"Consumer(…, guarantee={self.guarantee.name}, store=…)", "guarantee=EXACTLY_ONCE")
        self._on_step = on_step
        self._wait_s_max = wait_ms_max / 1000
        self._closing = threading.RLock()
        interval_ms = read(Role.CONSUMER, merged).number("max.poll.interval.ms") or POLL_INTERVAL_MS
        self._member = Membership(
            merged,
            self._progress,
            TopicLives(merged, wait_ms_max / 1000),
            wait_s_max=wait_ms_max / 1000,
            keep_alive_s=(keep_alive_ms or interval_ms / 3) / 1000,
            revoke_wait_s=interval_ms / 2000,
            read_positions=self._stored_positions if store is not None else None,
            commits_on_revoke=self.guarantee is Guarantee.AT_LEAST_ONCE,
        )
        self._reader = BatchReader(self, self._member, on_step)
        tell_of_forks(self)
        self._member.subscribe(list(topics))

    def _stored_positions(
        self, places: list[TopicPartition], begin: Callable[[TopicPartition], int], lives: Mapping[str, Life]
    ) -> Offsets:
        assert self.store is not None
        return self.store.offsets(self.group, places, begin, lives)

    def batches(self, *, records_max: int = RECORDS_MAX, idle_ms_max: float | None = None) -> Iterator[Batch]:
        """Batches for ever, or until nothing came for `idle_ms_max`."""
        while (batch := self.next_batch(records_max, idle_ms_max)) is not None:
            note(self)
            try:
                yield batch
            # Python tells a generator in this way that its loop is over: by `break`, by an exception, or as garbage.
            except GeneratorExit:
                self.leave_batch(batch)
                raise
            self.finish_batch(batch)

    def __iter__(self) -> Iterator[Record]:
        """Records for ever, one by one."""
        return self.records()

    def records(self, *, records_max: int = RECORDS_MAX, idle_ms_max: float | None = None) -> Iterator[Record]:
        """Records one by one; each is finished when you ask for the next. `records_max` are polled at once."""
        self.refuse_records()
        for batch in self.batches(records_max=records_max, idle_ms_max=idle_ms_max):
            yield from self.each_record(batch)

    def next_batch(self, records_max: int, idle_ms_max: float | None) -> Batch | None:
        """The next batch; None when nothing came in time. One that was not finished is given up: see `batches`."""
        deadline = None if idle_ms_max is None else time.monotonic() + idle_ms_max / 1000
        try:
            while True:
                batch = self._turn(records_max, deadline)
                if self._ended is not None:  # meanwhile, by another thread or a signal's handler
                    raise self._ended
                if batch is not None or (deadline is not None and time.monotonic() >= deadline):
                    return batch
                time.sleep(OTHERS_S)
        finally:
            self._close_if_due()

    def _turn(self, records_max: int, deadline: float | None) -> Batch | None:
        """One look for a batch. Whoever waits for the lock, to close the consumer, gets it between two of these."""
        self._refuse_after_end()
        # Before anything is polled: the last batch may be in a commit whose outcome nobody knows yet (K6).
        self._decide()
        self._member.keep_alive.back()
        with self._member.lock:
            self._refuse_after_end()
            self._member.commits.wait_until_free()
            self._member.resume()
            self._close_batch()
            left_s = POLL_S if deadline is None else min(POLL_S, deadline - time.monotonic())
            if self._commit_what_waits():
                left_s = min(left_s, COMMIT_AGAIN_S)
            batch = self._poll(records_max, max(left_s, 0))
            if batch is not None:
                self._member.keep_alive.busy()
            return batch

    def _commit_what_waits(self) -> bool:
        """Under at least once, commit what is finished; whether some of it has to wait for a little while."""
        if self._progress.finished and self.guarantee is Guarantee.AT_LEAST_ONCE:
            self._member.commits.commit_soon()
        return bool(self._progress.finished)

    def _close_batch(self) -> None:
        """Do what is due for the last batch before the next one is read."""
        batch = self._progress.batch
        if batch is None:
            return
        if self._progress.ending is Ending.OPEN:
            batch.is_taken_over = True
        if self._progress.ending is Ending.FINISHED:
            self._refuse_unfinished(batch)
        if self.guarantee is Guarantee.AT_MOST_ONCE:
            self._progress.end(batch, Ending.FINISHED)  # handed out is done, whatever became of it
        # What was handed out and not finished is read again, from where it began, under all but at most once.
        may_skip, self._member.may_skip = self._member.may_skip, True  # until the library is back where this says
        again = self._progress.take_back()
        match self.guarantee:
            case Guarantee.AT_MOST_ONCE:
                self._progress.finished.clear()
            case Guarantee.AT_LEAST_ONCE:
                self._member.seek(again)
                if self._progress.finished:
                    self._commit_what_waits()
                    self._on_step(ClientStep.COMMITTED_AFTER)
            case Guarantee.EXACTLY_ONCE:
                self._member.seek(again)
                if again and self.store is not None:
                    self._follow_store(again)
        self._member.may_skip = may_skip

    def _refuse_unfinished(self, batch: Batch) -> None:
        """More was asked for; but the loop over the batch was left, or its offsets are kept nowhere."""
        if self.guarantee is Guarantee.EXACTLY_ONCE:
            self._progress.end(batch, Ending.GIVEN_UP)
            raise self._misuse("the next batch, with the last one's offsets kept nowhere", self._exact_way())
        if self.guarantee is Guarantee.AT_LEAST_ONCE:
            self._refuse_left()

    def _follow_store(self, again: Offsets) -> None:
        """Go where the store stands: it may have been restored from a backup, or another member have been quicker.

        An offset that is gone went with its results: that partition begins as it does for a new group.
        """
        self._member.lives.doubt()
        self.confirm_topics()  # or offsets that somebody dropped with the old topic would be made again
        standing = self._stored_positions(list(again), self._member.positions.beginning, self._member.lives.known)
        moved = {place: offset for place, offset in standing.items() if offset != again[place]}
        self._member.seek(moved)

    def _poll(self, records_max: int, wait_s: float) -> Batch | None:
        batch = self._reader.next(records_max, wait_s)
        if batch is None:
            return None
        if self.guarantee is Guarantee.AT_MOST_ONCE and not self._commit_first(batch):
            return None
        self._progress.hand_out(batch)
        self._member.may_skip = False  # not before: these messages are nowhere else any more
        return batch

    def _commit_first(self, batch: Batch) -> bool:
        """At most once: without a commit that surely happened nothing is handed out."""
        try:
            self._member.commits.commit(batch.offsets)
        # The partitions went to another member, whose records these are now: no error of this one.
        except FencedError:
            self._member.seek(batch.starts)
            self._member.may_skip = False
            return False
        except SemelError:
            self._member.stand_at(batch.starts)  # the library may still be in the call: the next poll goes there
            raise
        self._on_step(ClientStep.COMMITTED_BEFORE)
        return True

    def commit(self) -> None:
        """Count the batch in your hands as finished, commit and wait; for at least once, before you leave the loop."""
        self.commit_finished(is_cleaning_up=sys.exception() is not None)

    def commit_finished(self, is_cleaning_up: bool) -> None:
        """As `commit`; a program that cleans up after an error reports that error, and not that its batch was left."""
        if self.guarantee is not Guarantee.AT_LEAST_ONCE:
            raise self._misuse("consumer.commit()", "guarantee=AT_LEAST_ONCE; the others commit by themselves")
        self._refuse_after_end()
        self._member.keep_alive.back()
        try:
            with self._member.lock:
                self._refuse_after_end()
                batch, refused = self._progress.batch, self._why_not_done()
                if batch is not None and refused is None:
                    batch.records_done = batch.records_handed
                self._progress.count_done()
                self._member.commits.commit(self._progress.finished)
                self._progress.finished = {}  # not before: what was not committed goes with the next commit
                if batch is not None and batch.records_done == len(batch):
                    self._progress.end(batch, Ending.SETTLED)
        finally:
            self._close_if_due()
        if refused is not None and not (is_cleaning_up and self._progress.ending is Ending.LEFT):
            raise refused
        if batch is not None and batch.lost:
            self._member.commits.refused += 1
            raise batch.fenced("the commit was refused")

    @property
    def commits_refused(self) -> int:
        """How many commits came too late, or failed."""
        return self._member.commits.refused

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are this member's now."""
        try:
            with self._member.lock:
                self._refuse_after_end()
                self._member.commits.wait_until_free()
                found = self._member.client.assignment()
        finally:
            self._close_if_due()
        return frozenset(TopicPartition(one.topic, one.partition) for one in found)

    def forked(self) -> None:
        """Refuse everything: this copy is in a child process, where the library's threads are not."""
        never_free(self._member.client)
        self._member.lives.forked()
        self._ended, self._is_close_due = fork_refusal("consumer"), False

    def close(self) -> None:
        """Commit what is finished, under at least once, and leave the group. Closing twice is fine.

        Asked for by a signal's handler or a callback in the middle of another call of this consumer, it is done when
        that call ends; a loop then raises that the consumer is closed.
        """
        if self._ended is None:
            self._is_close_due = True
            # First, so that whatever the callbacks of a last rebalance do, nothing is handed out any more.
            self._ended = close_refusal("consumer")
        self._close_if_due()

    def _close_if_due(self) -> None:
        """Leave the group, unless that is done, or another call is under way, which does it at its end."""
        if not self._is_close_due or self._member.is_in_call:
            return
        self._member.keep_alive.back()
        self._close()

    def _close(self) -> None:
        with self._closing:  # a second thread that asks waits for the first
            if not self._is_close_due:
                return
            if not self._member.lock.acquire(timeout=self._wait_s_max):
                log.warning("the group is left later: a call of this consumer in another thread is still under way")
                return
            try:
                self._is_close_due = False
                self._progress.take_back()
                if self.guarantee is Guarantee.AT_LEAST_ONCE:
                    offsets, self._progress.finished = self._progress.finished, {}
                    self._member.commits.commit_if_possible(offsets)
            finally:
                self._member.lock.release()
                self._member.close()

    def __enter__(self) -> Self:
        """Nothing more is needed."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()
