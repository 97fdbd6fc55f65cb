"""K2 under Ctrl-C: an interrupt in a callback of the library is neither lost nor taken for the producer's end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import semel
from semel.clients.delivery import Delivery
from semel.clients.interrupts import interrupts_put_off
from semel.clients.library import confluent, make
from tests.features.clusters import SETTINGS, Kafka

RECORDS = 5


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with semel.Cluster(brokers=1, config=SETTINGS) as started:
        yield Kafka(name="embedded", bootstrap=started.bootstrap)


@pytest.fixture(autouse=True)
def _plain_ctrl_c() -> Iterator[None]:
    """A session of Spark that other tests started in this process has a handler of its own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_first_report(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Ctrl-C comes while the library tells of the first record; the reports that were begun."""
    begun: list[object] = []
    take = Delivery.__call__

    def interrupted(self: Delivery, error: Any, message: Any) -> None:
        begun.append(self)
        if len(begun) == 1:
            signal.raise_signal(signal.SIGINT)
        take(self, error, message)

    monkeypatch.setattr(Delivery, "__call__", interrupted)
    return begun


@pytest.mark.parametrize("asks", ["flush", "result"])
def test_ctrl_c_in_a_report_is_raised_and_the_producer_goes_on(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch, asks: str
) -> None:
    begun = interrupt_first_report(monkeypatch)
    topic = kafka.topic()
    with semel.Producer(kafka.bootstrap, guarantee="at_least_once") as producer:
        sent = [producer.send(topic, str(number)) for number in range(RECORDS)]
        with pytest.raises(KeyboardInterrupt):
            producer.flush() if asks == "flush" else sent[-1].result()
        assert begun
        assert not producer._fate.is_met
        producer.flush()
        assert [one.result().offset for one in sent] == list(range(RECORDS))
    assert kafka.values(topic) == [str(number) for number in range(RECORDS)]


def test_ctrl_c_while_a_client_is_made_is_no_complaint_about_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    library = confluent()
    make_producer = library.Producer

    def interrupted(settings: dict[str, object]) -> Any:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise TypeError("expected configuration property name") from None  # as confluent-kafka does
        return make_producer(settings)

    monkeypatch.setattr(library, "Producer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make("Producer", {"bootstrap.servers": "127.0.0.1:1"})


def test_an_interrupt_waits_for_the_end_and_ignored_ones_stay_ignored() -> None:
    told: list[str] = []
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def block() -> None:
        with interrupts_put_off():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
            told.append("went on")

    try:
        with pytest.raises(KeyboardInterrupt):
            block()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
    assert told == ["went on"]


def test_other_threads_have_no_signals_to_put_off() -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            with interrupts_put_off():
                pass
        except BaseException as error:  # noqa: BLE001 - it is looked at below
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    assert not failures
