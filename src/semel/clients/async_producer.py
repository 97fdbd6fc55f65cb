"""`semel.AsyncProducer`: the Producer for asyncio, with the same names.

    async with semel.AsyncProducer("localhost:9092", guarantee="exactly_once", transactional_id="o") as producer:
        async with producer.transaction() as tx:
            await tx.send("orders", b"1")

`await send(…)` waits for room in the queue and gives a future; awaiting that gives the delivery. A thread serves the
library's reports and hands them to the loop by the handful. What blocks runs in one thread of the producer's own.
A `send` that is not awaited does nothing: the transaction is not committed then, and `close` tells it.

A task may be cancelled at any `await`: a send that waited for room was not made; a transaction that was open, or was
being opened, is aborted; a commit under way goes on to its end, and the next one waits for that.

Keeps: K2 a send has one outcome: a failure that nobody awaited is raised by the next flush, or by close.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from semel.clients.async_consumer import AsyncConsumer
from semel.clients.delivery import Delivered, Failures, delivered, delivery_failure
from semel.clients.failures import KafkaFailure
from semel.clients.handing_out import batches_in_hand
from semel.clients.library import log, open_refusal
from semel.clients.producer import WAIT_MS_MAX, Exactly, Kind, Plain, Producer, Transactional
from semel.clients.sending import SLICE_S, Headers, Payload, Sender
from semel.clients.settings import Value
from semel.clients.steps import OnStep, ignore_step
from semel.clients.transaction import Transaction
from semel.clients.worker import Worker
from semel.errors import ConfigError, SemelError
from semel.guarantee import Guarantee

if TYPE_CHECKING:
    from confluent_kafka import Message

Result = TypeVar("Result")
SERVE_S = 0.1
UNSEEN_MAX = 1_000  # failures that are kept before somebody looks which of them were awaited


class AsyncDelivery:
    """The library's report of one send, and the future that waits for it on the loop."""

    __slots__ = ("_reports", "failure", "future", "message")

    def __init__(self, future: asyncio.Future[Delivered], reports: Reports) -> None:
        """Nothing is reported yet."""
        self.future = future
        self._reports = reports
        self.failure: SemelError | None = None

    def __call__(self, error: KafkaFailure | None, message: Message) -> None:
        """Take the report, in whatever thread it comes."""
        self.message = message
        if error is not None:
            self.failure = delivery_failure(error, message.topic() or "")
            # Kept until somebody awaits the future. A failure that nobody looks at must not disappear with it (K2).
            self._reports.failures.unseen[self] = None
        self._reports.add(self)

    def settle(self) -> None:
        """Wake the tasks that await the future, on the loop."""
        if self.future.done():
            return  # cancelled: nobody waits for it
        if self.failure is None:
            self.future.set_result(delivered(self.message))
        else:
            self.future.set_exception(self.failure)

    @property
    def is_seen(self) -> bool:
        """Whether somebody has awaited the failure: asyncio keeps a note of that, to warn where nobody has."""
        return self.future.done() and not self.future.cancelled() and not self.future._log_traceback

    def error(self) -> SemelError | None:
        """Why it failed, unless somebody has awaited that; after this somebody has."""
        if self.is_seen:
            return None
        if self.future.done() and not self.future.cancelled():
            self.future.exception()
        return self.failure


class Reports:
    """Delivery reports on their way from the library's thread to the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Nothing is reported yet."""
        self._loop = loop
        self._settled: list[AsyncDelivery] = []
        self._lock = threading.Lock()
        self.failures = Failures()  # replaced by the producer's own
        self._unseen_max = UNSEEN_MAX

    @property
    def is_on_loop(self) -> bool:
        """Whether the caller runs on the producer's loop."""
        return asyncio.get_running_loop() is self._loop

    def future(self) -> asyncio.Future[Delivered]:
        """A future to await a report with; ConfigError on another loop, where nothing would ever wake the task."""
        if asyncio.get_running_loop() is not self._loop:
            raise ConfigError(
                "the producer was opened on another loop",
                you_want="one asyncio.run(…) around all of it; or a producer of its own for each loop",
                because="its reports go to the loop that it was opened on",
            )
        return self._loop.create_future()

    def add(self, delivery: AsyncDelivery) -> None:
        """Take a report, from any thread; the loop is woken once for all reports that wait."""
        with self._lock:
            self._settled.append(delivery)
            is_first = len(self._settled) == 1
        # Reports come by the thousand. One wake-up for all of them costs the loop
        # one callback, not one for each record.
        if is_first and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        with self._lock:
            settled, self._settled = self._settled, []
        for delivery in settled:
            delivery.settle()
        if len(self.failures.unseen) > self._unseen_max:
            self._forget_seen()

    def _forget_seen(self) -> None:
        """Drop failures that were awaited meanwhile: a program that never flushes would keep them all."""
        unseen = self.failures.unseen
        for delivery in list(unseen):  # a copy, taken in one step: reports come in another thread
            if isinstance(delivery, AsyncDelivery) and delivery.is_seen:
                unseen.pop(delivery, None)
        self._unseen_max = max(UNSEEN_MAX, 2 * len(unseen))

    async def tell(self) -> None:
        """Raise the first failure that nobody has awaited; a task that waits for one just now gets it first."""
        if self.is_on_loop:  # on another loop nobody waits
            self._settle()
            # One turn of the loop: tasks that wait for a failed send wake up in it, and their failures count as seen.
            turn = self._loop.create_future()
            self._loop.call_soon(turn.set_result, None)
            await turn
        self.failures.tell()


class ReportServer:
    """The thread that serves the library's reports of one producer, from its opening to its end."""

    def __init__(self, producer: Producer[Any]) -> None:
        """Serve from now on."""
        self.producer = producer
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="semel-reports", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._over.is_set():
            try:
                self.producer.serve(SERVE_S)
            # Of a callback among the settings. Without this thread no send would ever get its result.
            except BaseException:  # noqa: BLE001
                log.exception("a callback of the producer failed; its reports are served on")
                self._over.wait(SERVE_S)  # so that one that always fails does not take all of the processor

    def end(self) -> None:
        """Let all reports come, then end the producer and the thread."""
        try:
            self.producer.wait_for_last_reports()
        finally:
            self.producer.end(is_told=False)
            # Only now: the last reports, and those of the flush above, are served by the thread that this ends.
            self._over.set()
            self._thread.join()


class AsyncSender:
    """What a producer and a transaction share."""

    def __init__(self, worker: Worker, reports: Reports) -> None:
        """`worker` does what blocks."""
        self._worker = worker
        self._reports = reports
        self._asked = self._begun = 0  # sends: one that is not awaited is never begun
        self._waiting = 0

    async def _send(self, sender: Sender, result: Result, *record: object) -> Result:
        """Hand a record over; wait for room when there is none. A task that is cancelled then has sent nothing."""
        self._begun += 1
        try:
            sender.produce(*record)
        except BufferError:
            await self._send_later(sender, *record)
        except Exception as error:  # noqa: BLE001 - told apart there
            raise sender.send_failure(error, str(record[0])) from None
        return result

    async def _send_later(self, sender: Sender, *record: object) -> None:
        deadline = time.monotonic() + sender.wait_s_max
        self._waiting += 1
        try:
            while time.monotonic() < deadline:
                await self._worker.run(sender.serve, SLICE_S)
                try:
                    sender.produce(*record)
                except BufferError:
                    continue
                return
        finally:
            self._waiting -= 1
        raise sender.queue_full(str(record[0]))

    def _not_awaited(self, sends: int, what: str) -> SemelError:
        """What is said of sends that nobody waited for."""
        return ConfigError(
            f"calls of send that nobody awaited: {sends}; {what}",
            you_want="await … .send(…); with many at once: await asyncio.gather(…) before the block ends",
            because="a coroutine that nobody awaits does nothing, and its record would be missing without a word",
        )


class AsyncTransaction(AsyncSender):
    """One transaction; made by `AsyncProducer.transaction()`."""

    def __init__(self, worker: Worker, reports: Reports, inner: Transaction) -> None:
        """Nothing is begun yet."""
        super().__init__(worker, reports)
        self._inner = inner

    # No `async def`: it counts what was asked for, also when nobody awaits it, and a record takes one coroutine less.
    def send(
        self,
        topic: str,
        value: Payload,
        *,
        key: Payload = None,
        headers: Headers | None = None,
        partition: int = -1,
        timestamp_ms: int = 0,
    ) -> Coroutine[Any, Any, None]:
        """As `Transaction.send`."""
        self._asked += 1
        return self._send(self._inner, None, topic, value, key, partition, None, None, timestamp_ms, headers)

    async def commit_offsets(self, consumer: AsyncConsumer) -> None:
        """As `Transaction.commit_offsets`."""
        await self._worker.run(self._inner.commit_offsets, consumer.inner)

    async def __aenter__(self) -> Self:
        """Begin."""
        try:
            await self._worker.run(self._inner.__enter__)
        except asyncio.CancelledError as error:
            self._worker.submit(self._inner.give_up, error)  # it may be open by now, and nobody has it
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, or abort when the work failed or was cancelled, or a send of it was not awaited."""
        missing = self._asked - self._begun + self._waiting
        if error is None and missing:
            refused = self._not_awaited(missing, "the transaction was not committed")
            await self._worker.finish(self._inner.end, refused, ())
            raise refused
        await self._worker.finish(self._inner.end, error, batches_in_hand())


class AsyncProducer(AsyncSender, Generic[Kind]):
    """The Producer for asyncio; use it with `async with`, on one loop."""

    @overload
    def __init__(
        self: AsyncProducer[Transactional],
        bootstrap: str,
        *,
        guarantee: Exactly,
        transactional_id: str,
        settings: Mapping[str, Value] | None = None,
        wait_ms_max: int = WAIT_MS_MAX,
        on_step: OnStep = ignore_step,
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncProducer[Plain],
        bootstrap: str,
        *,
        guarantee: Guarantee | str,
        settings: Mapping[str, Value] | None = None,
        wait_ms_max: int = WAIT_MS_MAX,
        on_step: OnStep = ignore_step,
    ) -> None: ...
    def __init__(self, bootstrap: str, **options: Any) -> None:
        """As `Producer`; nothing is opened before `async with`."""
        self._worker = Worker("producer")
        self._open = lambda: Producer(bootstrap, **options)
        self._inner: Producer[Any] | None = None
        self._server: ReportServer | None = None
        self._is_open = False  # or is being opened

    @property
    def inner(self) -> Producer[Any]:
        """The producer that does the work."""
        if self._inner is None:
            raise ConfigError("the producer is not open", you_want="async with semel.AsyncProducer(…) as producer: …")
        return self._inner

    async def __aenter__(self) -> Self:
        """Open; with a transactional id this takes it over."""
        if self._is_open:
            raise open_refusal("producer")
        self._is_open = True
        try:
            super().__init__(self._worker.usable(), Reports(asyncio.get_running_loop()))
            self._inner = await self._worker.open(self._open)
            self._reports.failures = self._inner.failures
            self._server = ReportServer(self._inner)
        except BaseException:
            self._is_open = False
            raise
        return self

    def send(
        self,
        topic: str,
        value: Payload,
        *,
        key: Payload = None,
        headers: Headers | None = None,
        partition: int = -1,
        timestamp_ms: int = 0,
    ) -> Coroutine[Any, Any, asyncio.Future[Delivered]]:
        """As `Producer.send`: waits for room only; await the result for the delivery."""
        inner = self.inner
        future = self._reports.future()
        report = AsyncDelivery(future, self._reports)
        self._asked += 1
        return self._send(inner, future, topic, value, key, partition, report, None, timestamp_ms, headers)

    def transaction(self: AsyncProducer[Transactional]) -> AsyncTransaction:
        """As `Producer.transaction`, for `async with`."""
        return AsyncTransaction(self._worker, self._reports, self.inner.transaction())

    async def settle(self: AsyncProducer[Transactional]) -> None:
        """As `Producer.settle`."""
        await self._worker.run(self.inner.settle)

    async def flush(self, wait_s_max: float | None = None) -> None:
        """As `Producer.flush`."""
        await self._worker.run(self.inner.wait_for_reports, wait_s_max)
        await self._reports.tell()

    async def close(self) -> None:
        """As `Producer.close`."""
        if self._server is None:
            return
        # Only what was open when this began is ended: a task that is cancelled here may open the producer again while
        # the thread still closes the old one.
        server, self._server = self._server, None
        self._is_open = False
        missing = self._asked - self._begun
        producer, worker, reports = server.producer, self._worker, self._reports
        try:
            await worker.finish(server.end)
            await reports.tell()
        except asyncio.CancelledError:
            raise  # nobody was told what failed: the end of the process does it
        except SemelError:
            producer.end()
            raise
        else:
            producer.end()
        finally:
            worker.end()
        # Whoever cleans up after an error, or was cancelled, has that to tell.
        if missing and sys.exception() is None:
            raise self._not_awaited(missing, "their records were not sent")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()
