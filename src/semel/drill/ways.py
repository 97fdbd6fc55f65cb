"""Every way to bring records from here to there: a program, its guarantee, when it is struck, and how it is judged.

A supervisor starts the program again whenever it ends in an error, until its work is done. What came out is counted by
a reader that shares nothing with the program.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from semel.clients.library import confluent, make
from semel.clients.steps import ClientStep
from semel.drill.damage.records import read_all, wait_until
from semel.drill.programs import (
    HASTY,
    PROCESSED,
    SENT,
    ProgramInput,
    consume_at_least_once,
    consume_at_most_once,
    consume_into_store,
    copy_at_least_once,
    copy_at_most_once,
    copy_in_transactions,
    send_at_least_once,
    send_at_most_once,
    send_idempotently,
)
from semel.errors import EnvironmentFailure, SemelError
from semel.guarantee import Anomaly, Guarantee

# A program that never gets done is a finding, not a wait without end.
LIVES_MAX = 12
ASK_S_MAX = 3.0

# --- whether they are done, and what came out


def is_committed(program_input: ProgramInput) -> bool:
    """Whether the group has come to the end of the source; its coordinator may be on the move."""
    told: list[tuple[int, ...]] = []

    def is_told() -> bool:
        told.extend(_standing(program_input))
        return bool(told)

    wait_until(is_told, "the group's offsets are told")
    return told[-1] == program_input.ends


def _standing(program_input: ProgramInput) -> list[tuple[int, ...]]:
    """Where the group stands in each partition; empty where the broker does not say."""
    library = confluent()
    member = make("Consumer", {"bootstrap.servers": program_input.bootstrap, "group.id": program_input.name, **HASTY})
    try:
        places = [library.TopicPartition(program_input.source, number) for number in range(len(program_input.ends))]
        return [tuple(one.offset for one in member.committed(places, ASK_S_MAX))]
    except library.KafkaException:
        return []
    finally:
        member.close()


def is_stored(program_input: ProgramInput) -> bool:
    """Whether the store's offsets have; a program that came to nothing has not even made the table."""
    tables = _select(program_input, "SELECT name FROM sqlite_master WHERE name = 'semel_offsets'")
    rows = _select(program_input, "SELECT partition_id, offset_next FROM semel_offsets") if tables else []
    return dict(rows) == dict(enumerate(program_input.ends))


def is_sent(_: ProgramInput) -> bool:
    """A producer that has ended is done."""
    return True


def in_target(program_input: ProgramInput) -> Counter[str]:
    """How often each value stands in the target, for a reader of committed records."""
    return Counter(read_all(program_input, program_input.target))


def in_table(program_input: ProgramInput) -> Counter[str]:
    """How often each value stands in the local table."""
    tables = _select(program_input, "SELECT name FROM sqlite_master WHERE name = 'results'")
    return Counter(str(line) for (line,) in _select(program_input, "SELECT line FROM results")) if tables else Counter()


def _select(program_input: ProgramInput, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(program_input.store)) as connection:
        return connection.execute(query).fetchall()


# --- all of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One program: its path and guarantee, when it is struck, and how it is judged."""

    name: str
    path: str
    guarantee: Guarantee
    life: Callable[[ProgramInput], None]
    moment: str  # the step at which faults strike: something has been done, and nothing is finished
    apis: frozenset[str]  # what its clients ask the cluster
    is_done: Callable[[ProgramInput], bool] = is_committed
    found: Callable[[ProgramInput], Counter[str]] = in_target
    kills: tuple[tuple[str, Anomaly | None], ...] = ()
    """The steps at which its process is killed, each with the damage that is certain to be done."""

    def __str__(self) -> str:
        """Write as reports do."""
        return self.name

    def survive(self, program_input: ProgramInput) -> list[SemelError]:
        """Start the work again and again until it is done; the errors on the way."""
        errors: list[SemelError] = []
        for _ in range(LIVES_MAX):
            try:
                self.life(program_input)
            except SemelError as error:
                errors.append(error)
            if self.is_done(program_input):
                return errors
        raise EnvironmentFailure(
            f"{self} was started {LIVES_MAX} times and is not done",
            because="; ".join(error.summary for error in errors[-3:]) or "no error was reported",
        )


GROUP = frozenset({"Metadata", "FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch", "OffsetCommit", "Fetch"})
TRANSACTION = frozenset({"InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"})
SEND = frozenset({"Metadata", "Produce"})
UNHARMED = tuple(
    (step, None) for step in (ClientStep.BEGUN, ClientStep.OFFSETS_SENT, ClientStep.COMMITTING, ClientStep.COMMITTED)
)
MOST = Way(
    name="at most once",
    path="copy",
    guarantee=Guarantee.AT_MOST_ONCE,
    life=copy_at_most_once,
    moment=SENT,
    apis=GROUP | SEND,
    kills=((ClientStep.COMMITTED_BEFORE, Anomaly.LOST),),
)
LEAST = Way(
    name="at least once",
    path="copy",
    guarantee=Guarantee.AT_LEAST_ONCE,
    life=copy_at_least_once,
    moment=SENT,
    apis=GROUP | SEND,
    kills=((SENT, Anomaly.DUPLICATED),),
)
TRANSACTIONS = Way(
    name="exactly once, transactions",
    path="copy",
    guarantee=Guarantee.EXACTLY_ONCE,
    life=copy_in_transactions,
    moment=ClientStep.OFFSETS_SENT,
    apis=GROUP - {"OffsetCommit"} | SEND | TRANSACTION,
    kills=UNHARMED,
)
CONSUME_MOST = Way(
    name="at most once, into a table",
    path="consume",
    guarantee=Guarantee.AT_MOST_ONCE,
    life=consume_at_most_once,
    moment=PROCESSED,
    apis=GROUP,
    found=in_table,
    kills=((ClientStep.COMMITTED_BEFORE, Anomaly.LOST),),
)
CONSUME_LEAST = Way(
    name="at least once, into a table",
    path="consume",
    guarantee=Guarantee.AT_LEAST_ONCE,
    life=consume_at_least_once,
    moment=PROCESSED,
    apis=GROUP,
    found=in_table,
    kills=((PROCESSED, Anomaly.DUPLICATED),),
)
STORE = Way(
    name="exactly once, store",
    path="consume",
    guarantee=Guarantee.EXACTLY_ONCE,
    life=consume_into_store,
    moment=ClientStep.BEGUN,
    apis=GROUP - {"OffsetCommit", "OffsetFetch"},
    is_done=is_stored,
    found=in_table,
    kills=UNHARMED,
)
SEND_MOST = Way(
    name="at most once, sending",
    path="produce",
    guarantee=Guarantee.AT_MOST_ONCE,
    life=send_at_most_once,
    moment=SENT,
    apis=SEND,
    is_done=is_sent,
)
SEND_LEAST = Way(
    name="at least once, sending",
    path="produce",
    guarantee=Guarantee.AT_LEAST_ONCE,
    life=send_at_least_once,
    moment=SENT,
    apis=SEND,
    is_done=is_sent,
)
SESSION = Way(
    name="exactly once, one session",
    path="produce",
    guarantee=Guarantee.EXACTLY_ONCE,
    life=send_idempotently,
    moment=SENT,
    apis=SEND | {"InitProducerId"},
    is_done=is_sent,
)
WAYS = (SEND_MOST, SEND_LEAST, SESSION, CONSUME_MOST, CONSUME_LEAST, STORE, MOST, LEAST, TRANSACTIONS)
