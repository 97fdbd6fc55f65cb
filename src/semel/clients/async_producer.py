"""`semel.AsyncProducer`: the Producer for asyncio, with the same names.

    async with semel.AsyncProducer("localhost:9092", guarantee="exactly_once", transactional_id="o") as producer:
        async with producer.transaction() as tx:
            await tx.send("orders", b"1")

`await send(…)` waits for room in the queue and gives a future; awaiting that gives the delivery. A thread serves the
library's reports and hands them to the loop by the handful. What blocks runs in one thread of the producer's own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, overload

from semel.clients.async_consumer import AsyncConsumer
from semel.clients.delivery import Delivered, delivered, delivery_failure
from semel.clients.failures import KafkaFailure
from semel.clients.producer import WAIT_MS_MAX, Exactly, Kind, Plain, Producer, Transactional
from semel.clients.sending import Headers, Payload, Sender
from semel.clients.settings import Value
from semel.clients.steps import OnStep, ignore_step
from semel.clients.transaction import Transaction
from semel.errors import ConfigError
from semel.guarantee import Guarantee

if TYPE_CHECKING:
    from confluent_kafka import Message

SERVE_S = 0.1
P = ParamSpec("P")
T = TypeVar("T")
Settled = tuple["asyncio.Future[Delivered]", KafkaFailure | None, "Message"]


class Reports:
    """Delivery reports on their way from the library's thread to the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Nothing is reported yet."""
        self._loop = loop
        self._settled: list[Settled] = []
        self._lock = threading.Lock()

    def add(self, settled: Settled) -> None:
        """From any thread; the loop is woken once for all that comes before it looks."""
        with self._lock:
            self._settled.append(settled)
            is_first = len(self._settled) == 1
        if is_first and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        with self._lock:
            settled, self._settled = self._settled, []
        for future, error, message in settled:
            if future.done():
                continue  # cancelled: nobody waits for it
            if error is None:
                future.set_result(delivered(message))
            else:
                future.set_exception(delivery_failure(error, message.topic() or ""))
                future.exception()  # a result that nobody asks for is no reason for a warning


class AsyncSender:
    """What a producer and a transaction share."""

    def __init__(self, work: ThreadPoolExecutor, reports: Reports) -> None:
        """`work` runs what blocks."""
        self._work = work
        self._reports = reports

    async def _blocking(self, call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._work, lambda: call(*arguments, **named))

    async def _send(self, sender: Sender, *record: object) -> None:
        """Hand a record over; wait for room when there is none."""
        try:
            sender.produce(*record)
        except Exception as error:  # noqa: BLE001 - told apart there
            await self._blocking(sender.send_again, error, *record)


class AsyncTransaction(AsyncSender):
    """One transaction; made by `AsyncProducer.transaction()`."""

    def __init__(self, work: ThreadPoolExecutor, reports: Reports, inner: Transaction) -> None:
        """Nothing is begun yet."""
        super().__init__(work, reports)
        self._inner = inner

    async def send(
        self,
        topic: str,
        value: Payload,
        *,
        key: Payload = None,
        headers: Headers | None = None,
        partition: int = -1,
        timestamp_ms: int = 0,
    ) -> None:
        """As `Transaction.send`."""
        await self._send(self._inner, topic, value, key, partition, None, None, timestamp_ms, headers)

    async def commit_offsets(self, consumer: AsyncConsumer) -> None:
        """As `Transaction.commit_offsets`."""
        await self._blocking(self._inner.commit_offsets, consumer.inner)

    async def __aenter__(self) -> Self:
        """Begin."""
        await self._blocking(self._inner.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, or abort when the work failed or was cancelled."""
        ending = self._blocking(self._inner.__exit__, kind, error, trace)
        await asyncio.shield(asyncio.ensure_future(ending))


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
        self._open = lambda: Producer(bootstrap, **options)
        self._inner: Producer[Any] | None = None
        self._server: threading.Thread | None = None
        self._over = threading.Event()

    @property
    def inner(self) -> Producer[Any]:
        """The producer that does the work."""
        if self._inner is None:
            raise ConfigError("the producer is not open", you_want="async with semel.AsyncProducer(…) as producer: …")
        return self._inner

    async def __aenter__(self) -> Self:
        """Open; with a transactional id this takes it over."""
        super().__init__(ThreadPoolExecutor(1, "semel-producer"), Reports(asyncio.get_running_loop()))
        self._inner = await self._blocking(self._open)
        self._server = threading.Thread(target=self._serve, name="semel-reports", daemon=True)
        self._server.start()
        return self

    def _serve(self) -> None:
        while not self._over.is_set():
            self.inner.serve(SERVE_S)

    async def send(
        self,
        topic: str,
        value: Payload,
        *,
        key: Payload = None,
        headers: Headers | None = None,
        partition: int = -1,
        timestamp_ms: int = 0,
    ) -> asyncio.Future[Delivered]:
        """As `Producer.send`: waits for room only; await the result for the delivery."""
        inner = self.inner
        future: asyncio.Future[Delivered] = asyncio.get_running_loop().create_future()

        def report(error: KafkaFailure | None, message: Message) -> None:
            self._reports.add((future, error, message))

        await self._send(inner, topic, value, key, partition, report, None, timestamp_ms, headers)
        return future

    def transaction(self: AsyncProducer[Transactional]) -> AsyncTransaction:
        """As `Producer.transaction`, for `async with`."""
        return AsyncTransaction(self._work, self._reports, self.inner.transaction())

    async def settle(self: AsyncProducer[Transactional]) -> None:
        """As `Producer.settle`."""
        await self._blocking(self.inner.settle)

    async def flush(self, wait_s_max: float | None = None) -> None:
        """As `Producer.flush`."""
        await self._blocking(self.inner.flush, wait_s_max)

    async def close(self) -> None:
        """As `Producer.close`."""
        if self._server is None:
            return
        try:
            await self._blocking(self.inner.close)
        finally:
            self._over.set()
            await self._blocking(self._server.join)
            self._server = None
            self._work.shutdown(wait=False)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()
