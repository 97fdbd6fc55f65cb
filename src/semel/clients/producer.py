"""`semel.Producer`: records to Kafka under a declared guarantee.

    with semel.Producer("localhost:9092", guarantee=Guarantee.EXACTLY_ONCE, transactional_id="orders") as producer:
        with producer.transaction() as tx:
            tx.send("orders", b"1")

Threads may share a producer; a transaction belongs to one thread. After a fork the child's copy refuses everything.
Reports are served by `send`, `flush` and `Delivery.result`: there is no thread of ours beside librdkafka's.

Keeps: K1 a setting that contradicts the guarantee is refused before anything is sent; K2 a send has one outcome, and an
       error says whether the record may be there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Generic, Literal, Self, TypeVar, overload

from semel.clients.delivery import Delivery, Failures
from semel.clients.failures import Fate
from semel.clients.library import close_refusal, fork_refusal, make, never_free, tell_of_forks
from semel.clients.sending import SERVE_EVERY, SLICE_S, TIMED_OUT, Headers, Payload, Sender
from semel.clients.setting_names import Role
from semel.clients.settings import RULES_BY_ID, Value, beside_arguments, client_settings, refusal
from semel.clients.steps import OnStep, ignore_step
from semel.clients.transaction import Coordination, Transaction
from semel.clients.unsent import Unsent
from semel.errors import BrokerError, Outcome, SemelError
from semel.guarantee import Guarantee

Exactly = Literal[Guarantee.EXACTLY_ONCE, "exactly_once"]
WAIT_MS_MAX = 60_000


class Plain:
    """A producer without transactions; only the type checker looks at it."""


class Transactional:
    """A producer with a transactional id; only the type checker looks at it."""


Kind = TypeVar("Kind", Plain, Transactional)


class Producer(Sender, Generic[Kind]):
    """Sends records; the guarantee decides what happens when something goes wrong on the way."""

    @overload
    def __init__(
        self: Producer[Transactional],
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
        self: Producer[Plain],
        bootstrap: str,
        *,
        guarantee: Guarantee | str,
        settings: Mapping[str, Value] | None = None,
        wait_ms_max: int = WAIT_MS_MAX,
        on_step: OnStep = ignore_step,
    ) -> None: ...
    def __init__(
        self,
        bootstrap: str,
        *,
        guarantee: Guarantee | str,
        transactional_id: str | None = None,
        settings: Mapping[str, Value] | None = None,
        wait_ms_max: int = WAIT_MS_MAX,
        on_step: OnStep = ignore_step,
    ) -> None:
        """`settings` go to librdkafka; `wait_ms_max` bounds every wait: for room in the queue, for the coordinator.

        With a transactional id this takes the id over: older owners are fenced, what they left open is settled.
        """
        self.guarantee = Guarantee.parse(guarantee)
        arguments = {"bootstrap.servers": ("bootstrap", bootstrap)}
        if transactional_id:
            arguments["transactional.id"] = ("transactional_id", transactional_id)
        given = beside_arguments(Role.PRODUCER, settings, arguments)
        given |= {"transactional.id": transactional_id} if transactional_id else {}
        merged = client_settings(Role.PRODUCER, self.guarantee, bootstrap, given)
        fate, self.failures = Fate(), Failures()
        if merged.get("transactional.id"):
            # A transaction is acknowledged as a whole, so that only failures are worth a report.
            merged |= {"delivery.report.only.error": True, "on_delivery": self.failures.take}
        super().__init__(make("Producer", merged), wait_ms_max / 1000, fate)
        # The deliveries of one producer know it by their class: one thing less to set for each record.
        self._delivery: type[Delivery] = type("Delivery", (Delivery,), {"__slots__": (), "_server": self})
        self._until_serve = SERVE_EVERY
        self._ended: SemelError | None = None
        self._unsent: Unsent | None = None
        self._coordination: Coordination | None = None
        tell_of_forks(self)
        if given.get("transactional.id"):
            self._coordination = Coordination(self._client, self.wait_s_max, on_step, fate, self.failures)
            # librdkafka would refuse such a record as well, but without a word about the way out.
            self._refuse(self._refusal("producer.send(…) outside of a transaction", "tx.send(…)"))
            self._coordination.own()
        else:  # what an open transaction holds is aborted, not lost
            self._unsent = Unsent(self, self._client, fate, self.failures, self.wait_s_max)

    def _refusal(self, you_wrote: str, you_want: str = "") -> SemelError:
        return refusal(RULES_BY_ID["S006"], self.guarantee, you_wrote=you_wrote, you_want=you_want)

    def send(
        self,
        topic: str,
        value: Payload,
        *,
        key: Payload = None,
        headers: Headers | None = None,
        partition: int = -1,
        timestamp_ms: int = 0,
    ) -> Delivery:
        """Hand a record over; the result tells what became of it. When the queue is full, waits up to the limit."""
        delivery = self._delivery()
        try:
            if headers is None and not timestamp_ms:
                self.produce(topic, value, key, partition, delivery)
            else:
                self.produce(topic, value, key, partition, delivery, None, timestamp_ms, headers)
        except Exception as error:  # noqa: BLE001 - told apart there
            self.send_again(error, topic, value, key, partition, delivery, None, timestamp_ms, headers)
        # Reports are served from time to time here, or a program that only sends would fill its memory with them.
        self._until_serve -= 1
        if self._until_serve <= 0:  # below zero when threads race
            self._until_serve = SERVE_EVERY
            self.serve(0)
        return delivery

    def transaction(self: Producer[Transactional]) -> Transaction:
        """Make a transaction: `with` begins it, and commits or aborts at its end."""
        if self._ended is not None:
            raise self._ended
        if self._coordination is None:
            want = 'Producer(…, guarantee=Guarantee.EXACTLY_ONCE, transactional_id="…")'
            raise self._refusal("producer.transaction() without a transactional id", want)
        return Transaction(self._coordination)

    def settle(self: Producer[Transactional]) -> None:
        """Ask again for a commit whose outcome is unknown; returns when it is decided, raises when it is still not."""
        if self._coordination is not None:
            self._coordination.settle()

    def flush(self, wait_s_max: float | None = None) -> None:
        """Wait until everything sent has its result; raises when records failed that nobody has looked at."""
        self.wait_for_reports(wait_s_max)
        self.failures.tell()

    def wait_for_reports(self, wait_s_max: float | None) -> None:
        """Wait until everything sent has its result, whatever that is."""
        if self._ended is not None:
            raise self._ended
        super().flush(wait_s_max)

    def wait_for_last_reports(self) -> None:
        """The same at the end, after which nobody can flush again."""
        try:
            self.wait_for_reports(None)
        except BrokerError as error:
            error.next_command = "look in the topic before you send them again: this producer is closed now"
            raise

    def serve_until(self, delivery: Delivery, wait_s_max: float | None) -> None:
        """Serve reports until this one is there; past the limit its outcome is unknown."""
        limit = self.wait_s_max if wait_s_max is None else wait_s_max
        deadline = time.monotonic() + limit
        while not delivery.done:
            left = deadline - time.monotonic()
            if left <= 0:
                raise BrokerError(
                    f"nothing is known about a record after {limit:g} s",
                    code=TIMED_OUT,
                    outcome=Outcome.UNKNOWN,
                    because="the producer still tries to deliver it",
                    next_command="ask for the result again",
                )
            self.serve(min(left, SLICE_S))

    def note_failure(self, delivery: Delivery) -> None:
        """Keep a failure until somebody looks at it."""
        self.failures.unseen[delivery] = None

    def forget_failure(self, delivery: Delivery) -> None:
        """Somebody has looked at it."""
        self.failures.unseen.pop(delivery, None)

    def forked(self) -> None:
        """Refuse everything: this copy is in a child process, where the library's threads are not."""
        never_free(self._client)
        self._ended = fork_refusal("producer")
        self._refuse(self._ended)
        if self._unsent is not None:
            self._unsent.forget()

    def close(self) -> None:
        """Wait for what is under way, within the limit, and end. Closing twice is fine."""
        if self._ended is not None:
            return
        try:
            self.wait_for_last_reports()
            self.failures.tell()
        except SemelError:
            self.end()
            raise
        except BaseException:
            self.end(is_told=False)
            raise
        self.end()

    def end(self, *, is_told: bool = True) -> None:
        """Refuse everything from now on; what nobody was told of is sent and told when the process ends."""
        self._ended = close_refusal("producer")
        self._refuse(self._ended)
        if is_told and self._unsent is not None:
            self._unsent.forget()

    def __enter__(self) -> Self:
        """Nothing more is needed."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()
