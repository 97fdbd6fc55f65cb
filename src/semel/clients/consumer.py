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

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from semel.clients.failures import failure
from semel.clients.library import close_refusal, confluent, fork_refusal, never_free, tell_of_forks
from semel.clients.membership import Membership
from semel.clients.progress import Ending, Offsets, Progress
from semel.clients.records import Batch, Record, TopicPartition, first_offsets
from semel.clients.setting_names import Role
from semel.clients.settings import Value, client_settings, read, refusal
from semel.clients.settings_rules import OFFSETS_RULE
from semel.clients.steps import ClientStep, OnStep, ignore_step
from semel.errors import ConfigError, FencedError, Outcome, SemelError
from semel.guarantee import Guarantee

if TYPE_CHECKING:
    from confluent_kafka import Message

    from semel.clients.stores import Store

WAIT_MS_MAX = 60_000
RECORDS_MAX = 1_000
POLL_S = 0.5
POLL_INTERVAL_MS = 300_000
END_OF_PARTITION, POLLED_LATE = -191, -147


class Consumer:
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
        self.guarantee = Guarantee.parse(guarantee)
        self.group, self.store = group, store
        given = {"group.id": group, **(settings or {})}
        merged = client_settings(Role.CONSUMER, self.guarantee, bootstrap, given)
        if isinstance(topics, str) or not topics:
            raise ConfigError(f"topics={topics!r} is no list of topics", you_want='topics=["orders"]')
        if store is not None and self.guarantee is not Guarantee.EXACTLY_ONCE:
            raise self._misuse(f"Consumer(…, guarantee={self.guarantee.name}, store=…)", "guarantee=EXACTLY_ONCE")
        self._on_step = on_step
        self._ended: SemelError | None = None
        self._ask_commit: Callable[[], None] = lambda: None
        self._progress = Progress()
        interval_ms = read(Role.CONSUMER, merged).number("max.poll.interval.ms") or POLL_INTERVAL_MS
        self._member = Membership(
            merged,
            self._progress,
            wait_s_max=wait_ms_max / 1000,
            keep_alive_s=(keep_alive_ms or interval_ms / 3) / 1000,
            revoke_wait_s=interval_ms / 2000,
            read_positions=self._stored_positions if store is not None else None,
            commits_on_revoke=self.guarantee is Guarantee.AT_LEAST_ONCE,
        )
        tell_of_forks(self)
        self._member.subscribe(list(topics))

    def _stored_positions(self, places: list[TopicPartition], begin: Callable[[TopicPartition], int]) -> Offsets:
        assert self.store is not None
        return self.store.offsets(self.group, places, begin)

    def _misuse(self, you_wrote: str, you_want: str) -> SemelError:
        return refusal(OFFSETS_RULE, self.guarantee, you_wrote=you_wrote, you_want=you_want)

    def batches(self, *, records_max: int = RECORDS_MAX, idle_ms_max: float | None = None) -> Iterator[Batch]:
        """Batches for ever, or until nothing came for `idle_ms_max`."""
        while (batch := self.next_batch(records_max, idle_ms_max)) is not None:
            yield batch
            self.finish_batch()

    def finish_batch(self) -> None:
        """The batch in the user's hands is done, unless a transaction or store has said how it ended."""
        if self._progress.ending is Ending.OPEN:
            self._progress.end(Ending.FINISHED)

    def __iter__(self) -> Iterator[Record]:
        """Records for ever, one by one."""
        return self.records()

    def records(self, *, records_max: int = RECORDS_MAX, idle_ms_max: float | None = None) -> Iterator[Record]:
        """Records one by one; each is finished when you ask for the next. `records_max` are polled at once."""
        self.refuse_records()
        for batch in self.batches(records_max=records_max, idle_ms_max=idle_ms_max):
            yield from self.each_record(batch)

    def refuse_records(self) -> None:
        """Exactly once has offsets of whole batches only."""
        if self.guarantee is Guarantee.EXACTLY_ONCE:
            raise self._misuse("for record in consumer", "for batch in consumer.batches()")

    def each_record(self, batch: Batch) -> Iterator[Record]:
        """The records of the batch in hand, each counted as done when the next is asked for."""
        for number, record in enumerate(batch, start=1):
            self._progress.records_handed = number
            yield record
            self._progress.records_done = number

    def next_batch(self, records_max: int, idle_ms_max: float | None) -> Batch | None:
        """The next batch; None when nothing came in time. One that was not finished is given up: see `batches`."""
        if self._ended is not None:
            raise self._ended
        self._decide()
        self._member.keep_alive.back()
        deadline = None if idle_ms_max is None else time.monotonic() + idle_ms_max / 1000
        with self._member.lock:
            self._member.resume()
            self._close_batch()
            while True:
                left_s = POLL_S if deadline is None else min(POLL_S, deadline - time.monotonic())
                batch = self._poll(records_max, max(left_s, 0))
                if batch is not None:
                    self._member.keep_alive.busy()
                    return batch
                if deadline is not None and time.monotonic() >= deadline:
                    return None

    def _decide(self) -> None:
        """Ask for the commit that the last batch is in, if nobody knows what became of it; raise while that is so."""
        if self._progress.ending is Ending.UNDECIDED:
            try:
                self._ask_commit()
            except SemelError:
                if self._progress.ending is Ending.UNDECIDED:
                    raise

    def _close_batch(self) -> None:
        """Do what is due for the last batch before the next one is read."""
        is_exact = self.guarantee is Guarantee.EXACTLY_ONCE
        if is_exact and self._progress.batch is not None and self._progress.ending is Ending.FINISHED:
            self._progress.end(Ending.GIVEN_UP)
            raise self._misuse("the next batch, with the last one's offsets kept nowhere", self._exact_way())
        if self.guarantee is Guarantee.AT_MOST_ONCE:
            self._progress.end(Ending.FINISHED)  # handed out is done, whatever became of it
        again = self._progress.take_back()
        match self.guarantee:
            case Guarantee.AT_MOST_ONCE:
                self._progress.finished.clear()
            case Guarantee.AT_LEAST_ONCE:
                self._member.seek(again)
                if self._progress.finished:
                    self._member.commit_soon()
                    self._on_step(ClientStep.COMMITTED_AFTER)
            case Guarantee.EXACTLY_ONCE:
                self._member.seek(again)

    def _exact_way(self) -> str:
        if self.store is not None:
            return "with store.transaction(batch) as t: …"
        return "with producer.transaction() as tx: … tx.commit_offsets(consumer)"

    def _poll(self, records_max: int, wait_s: float) -> Batch | None:
        messages = self._without_errors(self._member.poll(records_max, wait_s))
        if not messages:
            return None
        self._on_step(ClientStep.POLLED)
        batch = self._batch_of(messages)
        if self.guarantee is Guarantee.AT_MOST_ONCE and not self._commit_first(batch):
            return None
        self._progress.hand_out(batch)
        return batch

    def _without_errors(self, messages: list[Message]) -> list[Message]:
        if not any(map(confluent().Message.error, messages)):  # in the library's own code, for it is done for all
            return messages
        for message in messages:
            error = message.error()
            if error is not None and error.code() not in (END_OF_PARTITION, POLLED_LATE):
                self._member.read_again(messages)
                raise failure(error, f"{message.topic() or 'the group'} cannot be read", outcome=Outcome.DID_NOT_HAPPEN)
        return [message for message in messages if message.error() is None]

    def _batch_of(self, messages: list[Message]) -> Batch:
        known = self._progress.positions
        offsets = {place: at for place, at in self._member.standing(messages).items() if at != known.get(place)}
        starts = {} if offsets.keys() <= known.keys() else first_offsets(messages)
        starts |= {place: known[place] for place in offsets if place in known}
        exact_in_kafka = self.guarantee is Guarantee.EXACTLY_ONCE and self.store is None
        metadata = self._member.client.consumer_group_metadata() if exact_in_kafka else None
        return Batch(messages, starts, offsets, group=self.group, group_metadata=metadata, owner=self)

    def _commit_first(self, batch: Batch) -> bool:
        """At most once: without a commit that surely happened nothing is handed out."""
        try:
            self._member.commit(batch.offsets)
        except FencedError:
            self._member.seek(batch.starts)
            return False
        except SemelError:
            self._member.seek(batch.starts)
            raise
        self._on_step(ClientStep.COMMITTED_BEFORE)
        return True

    def commit(self) -> None:
        """Count the batch in your hands as finished, commit and wait; for at least once, before you leave the loop."""
        if self.guarantee is not Guarantee.AT_LEAST_ONCE:
            raise self._misuse("consumer.commit()", "guarantee=AT_LEAST_ONCE; the others commit by themselves")
        self._progress.records_done = self._progress.records_handed
        self._member.keep_alive.back()
        with self._member.lock:
            self._progress.count_done()
            offsets, self._progress.finished = self._progress.finished, {}
            self._member.commit(offsets)

    def offsets_for_transaction(self) -> tuple[list[Any], object]:
        """What a transaction commits for the last batch: offsets and who asks; a late one is refused by the group."""
        batch = self._progress.batch
        if self.guarantee is not Guarantee.EXACTLY_ONCE or self.store is not None:
            want = 'Consumer(…, guarantee=EXACTLY_ONCE) without store, beside Producer(…, transactional_id="…")'
            raise self._misuse("tx.commit_offsets(consumer)", want)
        if batch is None:
            return [], None
        return self._member.places(batch.offsets), batch.group_metadata

    def undecided(self, ask: Callable[[], None]) -> None:
        """The offsets of the last batch are in a commit under way; `ask` decides it, or raises."""
        self._ask_commit = ask
        self._progress.end(Ending.UNDECIDED)

    def settled(self) -> None:
        """The offsets of the last batch are kept with its results."""
        self._progress.end(Ending.SETTLED)

    def rewind(self) -> None:
        """The work on the last batch was undone: it is handed out again."""
        self._progress.end(Ending.GIVEN_UP)

    @property
    def commits_refused(self) -> int:
        """How many commits came too late, or failed."""
        return self._member.commits_refused

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are this member's now."""
        with self._member.lock:
            found = self._member.client.assignment()
        return frozenset(TopicPartition(one.topic, one.partition) for one in found)

    def forked(self) -> None:
        """Refuse everything: this copy is in a child process, where the library's threads are not."""
        never_free(self._member.client)
        self._ended = fork_refusal("consumer")

    def close(self) -> None:
        """Commit what is finished, under at least once, and leave the group. Closing twice is fine."""
        if self._ended is not None:
            return
        self._ended = close_refusal("consumer")
        self._member.keep_alive.back()
        try:
            with self._member.lock:
                self._progress.take_back()
                if self.guarantee is Guarantee.AT_LEAST_ONCE:
                    offsets, self._progress.finished = self._progress.finished, {}
                    self._member.commit_if_possible(offsets)
        finally:
            self._member.close()

    def __enter__(self) -> Self:
        """Nothing more is needed."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()
