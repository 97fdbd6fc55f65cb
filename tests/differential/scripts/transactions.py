"""Transactions: every request in every state that can be reached from outside.

PrepareCommit and PrepareAbort last only as long as markers are being written: test_prepared.py holds them, on clusters
of two brokers. The end of a producer id's epochs takes 32,767 steps and is left to tests/unit/broker.
"""

from __future__ import annotations

from collections.abc import Callable

from semel.protocol.message import Message
from semel.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from semel.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from semel.protocol.messages.end_txn import EndTxnResponse
from semel.protocol.messages.init_producer_id import InitProducerIdResponse
from semel.protocol.messages.produce import ProduceResponse
from semel.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from tests.differential.acts import make_topic, transaction_state
from tests.differential.talk import Talk
from tests.differential.transacting import NEW_END, NEW_PRODUCE, OLD_END, OLD_PRODUCE, Actor

SHORT_MS = 150
STRANGER = (1_234_567_890, 0)


def _never(actor: Actor) -> None:
    actor.producer = STRANGER


def _empty(actor: Actor) -> None:
    actor.start()


def _ongoing_old(actor: Actor) -> None:
    actor.start()
    actor.open(OLD_PRODUCE)


def _ongoing_new(actor: Actor) -> None:
    actor.start()
    actor.open(NEW_PRODUCE)


def _complete(version: int, *, commit: bool) -> Callable[[Actor], None]:
    def enter(actor: Actor) -> None:
        actor.start()
        actor.open(NEW_PRODUCE if version >= NEW_END else OLD_PRODUCE)
        actor.finish(version, commit=commit)

    return enter


def _fenced(actor: Actor) -> None:
    actor.start()
    old = actor.producer
    actor.start()
    actor.producer = old


def _fenced_while_open(actor: Actor) -> None:
    actor.start()
    actor.open()
    old = actor.producer
    actor.start()
    actor.producer, actor.sequence = old, 1


def _fenced_by_open(actor: Actor) -> None:
    actor.start()
    old = actor.producer
    actor.start()
    actor.open()
    actor.producer = old


def _behind_new_end(actor: Actor) -> None:
    actor.start()
    actor.open()
    old = actor.producer
    actor.finish(NEW_END, commit=True)
    actor.producer, actor.sequence = old, 1


def _wrong_id(actor: Actor) -> None:
    actor.start()
    actor.producer = STRANGER


def _timed_out(actor: Actor) -> None:
    actor.start(SHORT_MS)
    actor.open()
    actor.talk.until(
        lambda: transaction_state(actor.talk, actor.transactional_id) == "CompleteAbort", "an abort after the timeout"
    )


STATES: dict[str, Callable[[Actor], None]] = {
    "never": _never,
    "empty": _empty,
    "ongoing-version-1": _ongoing_old,
    "ongoing-version-2": _ongoing_new,
    "committed-version-1": _complete(OLD_END, commit=True),
    "aborted-version-1": _complete(OLD_END, commit=False),
    "committed-version-2": _complete(NEW_END, commit=True),
    "aborted-version-2": _complete(NEW_END, commit=False),
    "fenced": _fenced,
    "fenced-while-open": _fenced_while_open,
    "fenced-new-owner-open": _fenced_by_open,
    "committed-old-epoch-version-2": _behind_new_end,
    "wrong-id": _wrong_id,
    "timed-out": _timed_out,
}


def _init_as(actor: Actor, name: str, by: int) -> None:
    actor.init(name, expected=(actor.producer[0], actor.producer[1] + by))
    actor.settle()
    actor.init(f"{name}, again", expected=(actor.producer[0], actor.producer[1] + by))


def _end_twice(actor: Actor, name: str, version: int, *, commit: bool) -> None:
    actor.end(name, version, commit=commit)
    actor.end(f"{name}, again", version, commit=commit)
    actor.end(f"{name}, then the opposite", version, commit=not commit)


def _init_plain(actor: Actor, name: str) -> None:
    actor.init(name)
    actor.settle()
    actor.init(f"{name}, again")


REQUESTS: dict[str, Callable[[Actor, str], None]] = {
    "init": _init_plain,
    "init as the owner": lambda actor, name: _init_as(actor, name, 0),
    "init an epoch behind": lambda actor, name: _init_as(actor, name, -1),
    "init an epoch ahead": lambda actor, name: _init_as(actor, name, 1),
    "init as a stranger": lambda actor, name: (actor.init(name, expected=STRANGER), None)[1],
    "init, no time": lambda actor, name: (actor.init(name, timeout_ms=0), None)[1],
    "init, too much time": lambda actor, name: (actor.init(name, timeout_ms=2**31 - 1), None)[1],
    "init v1": lambda actor, name: (actor.init(name, version=1), None)[1],
    "init v3": lambda actor, name: (actor.init(name, version=3, expected=actor.producer), None)[1],
    "add v0": lambda actor, name: actor.add(name, 0),
    "add v3": lambda actor, name: actor.add(name, 3),
    "add another v3": lambda actor, name: actor.add(name, 3, partition=1),
    "add unknown v3": lambda actor, name: actor.add(name, 3, partition=9),
    "add v5": lambda actor, name: actor.add(name, 5),
    "verify v4": lambda actor, name: actor.add(name, 4, verify=True),
    "verify another v5": lambda actor, name: actor.add(name, 5, partition=1, verify=True),
    "add offsets v0": lambda actor, name: actor.add_offsets(name, 0),
    "add offsets v4": lambda actor, name: actor.add_offsets(name, 4),
    "commit offsets v2": lambda actor, name: actor.commit_offsets(name, 2),
    "commit offsets v3": lambda actor, name: actor.commit_offsets(name, 3),
    "commit offsets v4": lambda actor, name: actor.commit_offsets(name, 4),
    "commit offsets v5": lambda actor, name: actor.commit_offsets(name, 5),
    "commit offsets as a stranger v5": lambda actor, name: actor.commit_offsets(name, 5, ("stranger", 3)),
    "end v0, commit": lambda actor, name: _end_twice(actor, name, 0, commit=True),
    "end v4, commit": lambda actor, name: _end_twice(actor, name, 4, commit=True),
    "end v4, abort": lambda actor, name: _end_twice(actor, name, 4, commit=False),
    "end v5, commit": lambda actor, name: _end_twice(actor, name, 5, commit=True),
    "end v5, abort": lambda actor, name: _end_twice(actor, name, 5, commit=False),
    "write v3": lambda actor, name: (actor.write(name, 3), None)[1],
    "write v11": lambda actor, name: (actor.write(name, 11), None)[1],
    "write v12": lambda actor, name: (actor.write(name, 12), None)[1],
    "write elsewhere v11": lambda actor, name: (actor.write(name, 11, partition=1), None)[1],
    "write elsewhere v12": lambda actor, name: (actor.write(name, 12, partition=1), None)[1],
}


def _matrix(state: str) -> Callable[[Talk], None]:
    def script(talk: Talk) -> None:
        topic = make_topic(talk, "topic", 2)
        for number, (request, send) in enumerate(REQUESTS.items()):
            actor = Actor(talk, talk.name(f"id-{number}"), topic, talk.name(f"group-{number}"))
            STATES[state](actor)
            send(actor, request)
            actor.settle()
            actor.describe(f"{request}: described")
            actor.start()
            actor.describe(f"{request}: after a new owner")

    return script


def versions(talk: Talk) -> None:
    """Every version of every request, from the owner, from a fenced producer and from one that nobody knows."""
    topic = make_topic(talk, "topic", 2)
    send: dict[type[Message], Callable[[Actor, str, int], object]] = {
        InitProducerIdResponse: lambda actor, name, version: actor.init(name, version=version),
        AddPartitionsToTxnResponse: lambda actor, name, version: actor.add(name, version),
        AddOffsetsToTxnResponse: lambda actor, name, version: actor.add_offsets(name, version),
        TxnOffsetCommitResponse: lambda actor, name, version: actor.commit_offsets(name, version),
        ProduceResponse: lambda actor, name, version: actor.write(name, version),
        EndTxnResponse: lambda actor, name, version: actor.end(name, version, commit=True),
    }
    for api, act in send.items():
        for version in talk.common(api):
            for state in ("empty", "ongoing-version-2", "fenced", "wrong-id"):
                name = f"{api.__name__.removesuffix('Response')}-{version}-{state}"
                actor = Actor(talk, talk.name(name), topic, talk.name(f"{name}-group"))
                STATES[state](actor)
                act(actor, state, version)


SCRIPTS = {**{f"transactions-{state}": _matrix(state) for state in STATES}, "transaction-versions": versions}
