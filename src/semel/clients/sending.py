"""`Sender`: the half that a producer and a transaction share: hand records over, wait for room and for reports.

Why: the way of one record through here is the cost of semel over the bare library, so `send` is one call of the
     library, and everything that is rare is in another function.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from semel.clients.delivery import Delivery
from semel.clients.failures import Fate, failure, failure_in
from semel.errors import BrokerError, ConfigError, Outcome, SemelError

Headers = Sequence[tuple[str, bytes | str | None]]
Payload = bytes | str | None

SERVE_EVERY = 1_000  # sends between two looks at the reports
SLICE_S = 0.02  # another thread may have served our report: look again that often
QUEUE_FULL = -184


class Sender:
    """Hands records to librdkafka."""

    def __init__(self, client: Any, wait_s_max: float, fate: Fate, delivery: type[Delivery] | None = None) -> None:
        """`client` is a confluent_kafka.Producer; `delivery` is given when another sender serves the reports."""
        self._client = client
        self.produce: Callable[..., None] = client.produce  # replaced by a refusal when the time to send is over
        self._wait_s_max = wait_s_max
        self._sent = 0
        self._fate = fate
        self._unseen: dict[Delivery, None] = {}
        # The deliveries of one sender know it by their class: an attribute less for each record.
        self.delivery: type[Delivery] = delivery or type("Delivery", (Delivery,), {"__slots__": (), "_server": self})

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
        delivery = self.delivery()
        delivery.topic = topic
        try:
            self.produce(topic, value, key, partition, delivery, None, timestamp_ms, headers)
        except BufferError:
            self.wait_for_room(topic, value, key, partition, delivery, None, timestamp_ms, headers)
        except SemelError:
            raise
        except Exception as error:  # noqa: BLE001 - the library's own class is not imported before it is needed
            raise self.send_failure(error, topic) from None
        self._sent += 1
        if not self._sent % SERVE_EVERY:
            self._fate.serve(self._client.poll, 0)
        return delivery

    def _refuse(self, error: SemelError) -> None:
        """Let every send from now on raise this."""

        def refuse(*_: object) -> None:
            raise error

        self.produce = refuse

    def wait_for_room(self, *record: object) -> None:
        """The queue is full: serve reports until there is room."""
        deadline = time.monotonic() + self._wait_s_max
        while time.monotonic() < deadline:
            self._fate.serve(self._client.poll, SLICE_S)
            try:
                self.produce(*record)
            except BufferError:
                continue
            return
        raise BrokerError(
            f"the queue was full for {self._wait_s_max:g} s, so a record for {record[0]} was not taken",
            code=QUEUE_FULL,
            outcome=Outcome.DID_NOT_HAPPEN,
            because="records are sent faster than the cluster takes them, or it cannot be reached",
            next_command="send slower, or raise wait_ms_max or queue.buffering.max.messages",
        )

    def send_failure(self, error: Exception, topic: str) -> SemelError:
        """What an exception of the library means for a record."""
        found = failure_in(error)
        if found is not None:
            return failure(
                self._fate.error or found, f"a record for {topic} was not taken", outcome=Outcome.DID_NOT_HAPPEN
            )
        return ConfigError(
            f"a record for {topic!r} cannot be sent: {error}",
            you_want="topic: str, value and key: bytes | str | None, headers: [(str, bytes), …]",
        )

    def serve_until(self, delivery: Delivery, wait_s_max: float | None) -> None:
        """Serve reports until this one is there; past the limit its outcome is unknown."""
        limit = self._wait_s_max if wait_s_max is None else wait_s_max
        deadline = time.monotonic() + limit
        while not delivery.done:
            left = deadline - time.monotonic()
            if left <= 0:
                raise BrokerError(
                    f"nothing is known about a record after {limit:g} s",
                    code=-185,
                    outcome=Outcome.UNKNOWN,
                    because="the producer still tries to deliver it",
                    next_command="ask for the result again",
                )
            self._fate.serve(self._client.poll, min(left, SLICE_S))

    def note_failure(self, delivery: Delivery) -> None:
        """Keep a failure until somebody looks at it."""
        self._unseen[delivery] = None

    def forget_failure(self, delivery: Delivery) -> None:
        """Somebody has looked at it."""
        self._unseen.pop(delivery, None)

    def forget_failures(self) -> None:
        """They were told in another way."""
        self._unseen.clear()

    def flush(self, wait_s_max: float | None = None) -> None:
        """Wait until everything sent has its result; raises when records failed that nobody has looked at."""
        limit = self._wait_s_max if wait_s_max is None else wait_s_max
        left = self._fate.serve(self._client.flush, limit)
        if left:
            raise BrokerError(
                f"{left} records have no result after {limit:g} s",
                code=-185,
                outcome=Outcome.UNKNOWN,
                next_command="flush again, or look at the cluster",
            )
        self._tell_failures()

    def _tell_failures(self) -> None:
        unseen, self._unseen = self._unseen, {}
        errors = [error for error in (delivery.error() for delivery in unseen) if error is not None]
        if errors:
            errors[0].add_note(f"{len(errors)} records failed; this is the first that nobody had looked at")
            raise errors[0]
