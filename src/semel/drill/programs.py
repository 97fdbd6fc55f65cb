"""Programs that a drill breaks: what users of a guarantee write with semel's clients.

`send_…` brings values to a topic, `consume_…` a topic into a local table, `copy_…` a topic into another one. A program
may end in an error at any time; `ways` says how it is started again, and how its results are counted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from semel.clients.consumer import Consumer
from semel.clients.producer import Producer
from semel.clients.records import Batch
from semel.clients.sqlite_store import SqliteStore
from semel.clients.stores import Store
from semel.errors import BrokerError
from semel.guarantee import Guarantee

IDLE_MS_MAX = 3_000
WAIT_MS_MAX = 5_000
# Small, so that a program is struck between two batches as often as within one.
BATCH_RECORDS = 4
# Steps of a program's own, beside those of its clients.
SENT = "sent"
PROCESSED = "processed"
# A client that is not answered asks again soon, as the cells have seconds and not minutes.
HASTY = {
    "socket.timeout.ms": 1_500,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "log_level": 0,
}
SENDING = HASTY | {"linger.ms": 0, "request.timeout.ms": 1_000}
READING = HASTY | {"fetch.wait.max.ms": 20, "fetch.error.backoff.ms": 20}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramInput:
    """What is to be brought from where to where; `on_step` is called after each step of the work."""

    bootstrap: str
    source: str
    target: str
    values: list[str]
    ends: tuple[int, ...]
    store: Path
    member: str = ""
    """The name of the group's member, for a program that is killed: its successor takes its place at once."""
    idle_ms_max: int = IDLE_MS_MAX
    """When nothing has come for so long, the program ends; it is started again unless it is done."""
    on_step: Callable[[str], None] = lambda _: None

    @property
    def name(self) -> str:
        """The group, and the transactional id."""
        return self.source

    @contextmanager
    def reader(self, guarantee: Guarantee, store: Store | None = None) -> Iterator[Batches]:
        """A member of the group, for one life."""
        # A killed member would hold its partitions until its session ends; a static one is replaced at once.
        static: dict[str, object] = {"group.instance.id": self.member} if self.member else {}
        with Consumer(
            self.bootstrap,
            [self.source],
            group=self.name,
            guarantee=guarantee,
            store=store,
            settings={**READING, **static},
            wait_ms_max=WAIT_MS_MAX,
            on_step=self.on_step,
        ) as consumer:
            yield Batches(consumer, self.ends, self.idle_ms_max)


class Batches:
    """What one consumer hands out, up to the end of the source."""

    def __init__(self, consumer: Consumer, ends: tuple[int, ...], idle_ms_max: int) -> None:
        """Nothing is read yet."""
        self.consumer = consumer
        self._idle_ms_max = idle_ms_max
        self._left = set(enumerate(ends))

    def __iter__(self) -> Iterator[Batch]:
        """Batches until the source is at its end, or nothing comes."""
        for batch in self.consumer.batches(records_max=BATCH_RECORDS, idle_ms_max=self._idle_ms_max):
            yield batch
            self._left -= {(place.partition, offset) for place, offset in batch.offsets.items()}
            if not self._left:
                if self.consumer.guarantee is Guarantee.AT_LEAST_ONCE:
                    self.consumer.commit()  # before the loop is left, which would give the last batch up
                return


# --- what the programs do


def copy_at_most_once(program_input: ProgramInput) -> None:
    """Nobody looks back: what could not be sent is gone."""
    guarantee = Guarantee.AT_MOST_ONCE
    with (
        Producer(program_input.bootstrap, guarantee=guarantee, settings=SENDING) as producer,
        program_input.reader(guarantee) as batches,
    ):
        for batch in batches:
            for record in batch:
                try:
                    producer.send(program_input.target, record.value).result()
                except BrokerError:
                    continue
                finally:
                    program_input.on_step(SENT)


def copy_at_least_once(program_input: ProgramInput) -> None:
    """What could not be sent ends the program; the next one reads it again."""
    guarantee = Guarantee.AT_LEAST_ONCE
    with (
        Producer(program_input.bootstrap, guarantee=guarantee, settings=SENDING) as producer,
        program_input.reader(guarantee) as batches,
    ):
        for batch in batches:
            for record in batch:
                producer.send(program_input.target, record.value).result()
                program_input.on_step(SENT)


def copy_in_transactions(program_input: ProgramInput) -> None:
    """Records and offsets together."""
    with (
        Producer(
            program_input.bootstrap,
            guarantee=Guarantee.EXACTLY_ONCE,
            transactional_id=program_input.name,
            settings=SENDING,
            wait_ms_max=WAIT_MS_MAX,
            on_step=program_input.on_step,
        ) as producer,
        program_input.reader(Guarantee.EXACTLY_ONCE) as batches,
    ):
        for batch in batches:
            with producer.transaction() as tx:
                for record in batch:
                    tx.send(program_input.target, record.value)
                tx.flush()
                tx.commit_offsets(batches.consumer)


def consume_into_table(program_input: ProgramInput, guarantee: Guarantee) -> None:
    """Results in a database, offsets in the group: before the results or after them, as the guarantee says."""
    with (
        closing(sqlite3.connect(program_input.store, isolation_level=None)) as table,
        program_input.reader(guarantee) as batches,
    ):
        table.execute("CREATE TABLE IF NOT EXISTS results (line text)")
        for batch in batches:
            for record in batch:
                table.execute("INSERT INTO results VALUES (?)", [(record.value or b"").decode()])
                program_input.on_step(PROCESSED)


def consume_at_most_once(program_input: ProgramInput) -> None:
    """The offsets first."""
    consume_into_table(program_input, Guarantee.AT_MOST_ONCE)


def consume_at_least_once(program_input: ProgramInput) -> None:
    """The results first."""
    consume_into_table(program_input, Guarantee.AT_LEAST_ONCE)


def consume_into_store(program_input: ProgramInput) -> None:
    """Results and offsets together, in a database."""
    with (
        SqliteStore(program_input.store, on_step=program_input.on_step) as store,
        program_input.reader(Guarantee.EXACTLY_ONCE, store) as batches,
    ):
        store.make("CREATE TABLE IF NOT EXISTS results (line text)")
        for batch in batches:
            with store.transaction(batch) as t:
                for record in batch:
                    t.execute("INSERT INTO results VALUES (?)", [(record.value or b"").decode()])


def send_at_most_once(program_input: ProgramInput) -> None:
    """What could not be sent is gone."""
    with Producer(program_input.bootstrap, guarantee=Guarantee.AT_MOST_ONCE, settings=SENDING) as producer:
        for value in program_input.values:
            try:
                producer.send(program_input.target, value).result()
            except BrokerError:
                continue
            finally:
                program_input.on_step(SENT)


def send_at_least_once(program_input: ProgramInput) -> None:
    """What was not acknowledged is sent again, without a number that would tell the broker so."""
    _send_in_one_session(program_input, Guarantee.AT_LEAST_ONCE)


def send_idempotently(program_input: ProgramInput) -> None:
    """No transaction and one session: it lives through everything, for its successor could not know what arrived."""
    _send_in_one_session(program_input, Guarantee.EXACTLY_ONCE)


def _send_in_one_session(program_input: ProgramInput, guarantee: Guarantee) -> None:
    with Producer(program_input.bootstrap, guarantee=guarantee, settings=SENDING) as producer:
        for value in program_input.values:
            producer.send(program_input.target, value).result()
            program_input.on_step(SENT)
