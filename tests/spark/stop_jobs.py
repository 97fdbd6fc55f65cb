"""What the tests of stopped queries share: ways to call `stop()`, and a witness of how Spark says they ended."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from semel.sinks.base import CommitStep
from tests.spark.sink_jobs import STREAM_S_MAX
from tests.support.waiting import eventually


class _Uncaught:
    """Hears of every error that ends a thread of the JVM: Spark's log level is OFF in tests."""

    def __init__(self, errors: list[str]) -> None:
        self._errors = errors

    def uncaughtException(self, thread: Any, error: Any) -> None:
        self._errors.append(f"{thread.getName()}: {str(error.toString())[:500]}")

    class Java:
        """What py4j asks for."""

        implements = ("java.lang.Thread$UncaughtExceptionHandler",)


class _Ends(StreamingQueryListener):
    """Keeps what Spark tells of the ends of queries, and may call somebody then."""

    def __init__(self) -> None:
        self.errors: dict[str, str | None] = {}
        self.calls: dict[str, Callable[[], None]] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        pass

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self.errors[str(event.runId)] = event.exception
        if (call := self.calls.get(str(event.runId))) is not None:
            call()


@dataclass(slots=True, kw_only=True)
class Witness:
    """Saw how queries ended."""

    spark: SparkSession
    ends: _Ends
    uncaught: list[str] = field(default_factory=list)

    def check_stopped(self, query: StreamingQuery) -> None:
        """The end of this query is a stop and nothing else, whomever one asks."""
        assert not query.isActive
        error = query.exception()
        assert error is None, str(error)[:3000]
        run_id = str(query.runId)
        eventually(lambda: run_id in self.ends.errors, what="Spark tells its listeners of the end")
        assert self.ends.errors[run_id] is None
        assert self.uncaught == [], self.uncaught

    # --- ways to stop

    def stop_by_thread(self, query: StreamingQuery) -> None:
        """From a thread of its own, as a supervisor does."""
        stopping = threading.Thread(target=query.stop)
        stopping.start()
        stopping.join(STREAM_S_MAX)
        assert not stopping.is_alive()

    def stop_by_listener(self, query: StreamingQuery) -> None:
        """From a listener, when it hears of the end of another query."""
        over = threading.Event()
        numbers = self.spark.readStream.format("rate").load()
        other = numbers.writeStream.format("noop").trigger(availableNow=True).start()

        def stop() -> None:
            query.stop()
            over.set()

        self.ends.calls[str(other.runId)] = stop
        if str(other.runId) in self.ends.errors and not over.is_set():
            stop()
        assert over.wait(STREAM_S_MAX)
        other.stop()

    def stop_by_signal(self, query: StreamingQuery) -> None:
        """From a signal handler in the main thread."""

        def stop(_number: int, _frame: FrameType | None) -> None:
            query.stop()

        before = signal.signal(signal.SIGUSR1, stop)
        try:
            os.kill(os.getpid(), signal.SIGUSR1)
            eventually(lambda: not query.isActive, what="the signal arrives")
        finally:
            signal.signal(signal.SIGUSR1, before)

    def stop_twice(self, query: StreamingQuery) -> None:
        """From two threads at once, and once more."""
        threads = [threading.Thread(target=query.stop) for _ in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(STREAM_S_MAX)
            assert not one.is_alive()
        query.stop()


@contextmanager
def witness(spark: SparkSession) -> Iterator[Witness]:
    """Watch the ends of queries."""
    jvm: Any = spark._jvm
    seen = Witness(spark=spark, ends=_Ends())
    spark.streams.addListener(seen.ends)  # starts the server that calls back
    before = jvm.java.lang.Thread.getDefaultUncaughtExceptionHandler()
    jvm.java.lang.Thread.setDefaultUncaughtExceptionHandler(_Uncaught(seen.uncaught))
    try:
        yield seen
    finally:
        jvm.java.lang.Thread.setDefaultUncaughtExceptionHandler(before)
        spark.streams.removeListener(seen.ends)


def await_interrupt(query: StreamingQuery) -> None:
    """Return when `stop()` has come as far as to interrupt Spark's thread, which is the one that calls the sink."""
    thread: Any = query._jsq.streamingQuery().queryExecutionThread()
    eventually(lambda: bool(thread.isInterrupted()), what="Spark interrupts the query's thread")


class HoldAt:
    """Holds the driver after a step until the query is being stopped."""

    def __init__(self, step: CommitStep, *, nth: int = 1) -> None:
        self.step = step
        self.nth = nth
        self.reached = threading.Event()
        self.query: StreamingQuery | None = None
        self._known = threading.Event()
        self.seen: list[CommitStep] = []

    def hold(self, query: StreamingQuery) -> None:
        """Wait until the driver is held; it is let go by the query's stop."""
        self.query = query
        self._known.set()
        assert self.reached.wait(STREAM_S_MAX)

    def __call__(self, step: CommitStep) -> None:
        self.seen.append(step)
        if step is self.step and self.seen.count(step) == self.nth:
            assert self._known.wait(STREAM_S_MAX)
            assert self.query is not None
            self.reached.set()
            await_interrupt(self.query)
