"""The lives of a drawn worker, in a thread or a task, each with an act at one record; then peace until all is done."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

import semel
from semel.clients.records import Batch
from semel.errors import SemelError
from tests.features.drawn_programs import (
    BATCH_RECORDS,
    IDLE_MS_MAX,
    LEAST,
    MEMBER,
    PEACE,
    WAIT_S_MAX,
    Life,
    Program,
    Struck,
)
from tests.support.waiting import eventually


@contextmanager
def second_member(program: Program) -> Iterator[None]:
    """Another member that works until it is over; what it is refused comes again."""
    over = threading.Event()

    def work() -> None:
        with program.open() as consumer:
            while not over.is_set():
                with suppress(SemelError):
                    live(program, consumer, PEACE, "two")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60)
        assert not thread.is_alive()


def live(program: Program, consumer: semel.Consumer, life: Life, name: str) -> None:
    """One life, in a thread."""
    with ExitStack() as others:
        for _ in lines(program, consumer, life, name, others):
            return  # the generator is closed


def lines(program: Program, consumer: semel.Consumer, life: Life, name: str, others: ExitStack) -> Iterator[None]:
    """The worker; it yields when somebody may close it."""
    number = 0
    try:
        for batch in consumer.batches(records_max=BATCH_RECORDS, idle_ms_max=IDLE_MS_MAX):
            with program.transaction(consumer, batch, name) as put:
                for record in batch:
                    if number == life.at:
                        program.struck.append(life)
                        match life.act:
                            case "raise" | "commit in finally":
                                raise Struck
                            case "break":
                                break
                            case "return":
                                return
                            case "close the generator":
                                yield
                            case "second member":
                                others.enter_context(second_member(program))
                                eventually(lambda: batch.lost, 30, what="the group took the partition away")  # noqa: B023
                            case act:
                                program.operate(act)
                    put((record.value or b"").decode())
                    number += 1
    finally:
        if life.act == "commit in finally" and program.kind == LEAST:
            consumer.commit()


def run(program: Program, lives: list[Life]) -> None:
    consumer = program.open()
    try:
        for life in [*lives, PEACE]:
            eventually(partial(is_done, program, consumer, life), WAIT_S_MAX, what="it strikes, or all is done")
            program.wait_for_operators()
            is_another = life.act == "recreate" and bool(program.struck)
            program.struck.clear()
            if is_another:
                consumer.close()
                program.take_over()
                consumer = program.open()
            if life.act == "kill":  # nothing is committed any more, and nobody says goodbye but the library
                consumer._member.close()
                consumer = program.open()
    finally:
        consumer.close()


def is_done(program: Program, consumer: semel.Consumer, life: Life) -> bool:
    """A life may find nothing to do while the group is still being joined: then it is lived again.

    SQLite itself refuses to write to a file that has no name any more.
    """
    with suppress(Struck, SemelError, sqlite3.OperationalError):
        live(program, consumer, life, "one")
    return life in program.struck or program.is_over()


async def live_async(program: Program, consumer: semel.AsyncConsumer, life: Life) -> None:
    """One life, in a task; `cancel` comes from outside, at the same record."""
    number, task = 0, asyncio.current_task()
    batches = consumer.batches(records_max=BATCH_RECORDS, idle_ms_max=IDLE_MS_MAX)
    with ExitStack() as others:
        try:
            async for batch in batches:
                async with program.task_transaction(consumer, batch) as put:
                    for record in batch:
                        if number == life.at:
                            program.struck.append(life)
                            match life.act:
                                case "raise" | "commit in finally":
                                    raise Struck
                                case "break":
                                    break
                                case "return":
                                    return
                                case "close the generator":
                                    await batches.aclose()
                                    return
                                case "cancel":
                                    assert task is not None
                                    task.cancel()
                                    await asyncio.Event().wait()
                                case act:
                                    await interfere(program, batch, act, others)
                        await put((record.value or b"").decode())
                        number += 1
        finally:
            if life.act == "commit in finally" and program.kind == LEAST:
                await consumer.commit()


async def interfere(program: Program, batch: Batch, act: str, others: ExitStack) -> None:
    """What comes from outside while a task works."""
    if act == "second member":
        others.enter_context(second_member(program))
        await asyncio.to_thread(eventually, lambda: batch.lost, 30)
    else:
        program.operate(act)


async def run_async(program: Program, lives: list[Life]) -> None:
    consumer = await open_async(program)
    try:
        for life in [*lives, PEACE]:
            deadline = time.monotonic() + WAIT_S_MAX
            while life not in program.struck and not program.is_over():
                task = asyncio.create_task(live_async(program, consumer, life))
                await asyncio.wait([task])
                error = None if task.cancelled() else task.exception()
                assert error is None or isinstance(error, Struck | SemelError | sqlite3.OperationalError), error
                assert time.monotonic() < deadline, "it does not come to its end"
            program.wait_for_operators()
            is_another = life.act == "recreate" and bool(program.struck)
            program.struck.clear()
            if is_another:
                await consumer.close()
                program.take_over()
                consumer = await open_async(program)
            if life.act == "kill":
                consumer.inner._member.close()
                consumer.worker.end()
                consumer = await open_async(program)
    finally:
        await consumer.close()


async def open_async(program: Program) -> semel.AsyncConsumer:
    consumer = semel.AsyncConsumer(
        program.kafka.bootstrap,
        [program.topic],
        group=program.topic,
        guarantee=program.guarantee,
        settings=MEMBER,
        store=program.store(),
        keep_alive_ms=20,
    )
    return await consumer.__aenter__()
