"""What check believes of client libraries is what they do: real producers are made with the same settings."""

from __future__ import annotations

import ctypes
import inspect
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import aiokafka
import confluent_kafka
import pytest

from semel.clients.setting_defaults import Library
from semel.clients.setting_names import Role, read_settings
from semel.clients.setting_vocabulary import NAMES, is_known
from semel.clients.settings_rules import broken_rules
from semel.errors import EnvironmentFailure
from semel.guarantee import Guarantee
from tests.support.java import JavaProgram
from tests.support.kafka_python import KafkaConsumer, KafkaProducer

IN_FLIGHT = "max.in.flight.requests.per.connection"
TIMES: list[dict[str, str]] = [
    {},
    {"transactional.id": "t"},
    {"transactional.id": "t", "transaction.timeout.ms": "1000"},
    {"transactional.id": "t", "transaction.timeout.ms": "90000"},
    {"transactional.id": "t", "delivery.timeout.ms": "90000"},
    {"transactional.id": "t", "delivery.timeout.ms": "50000"},
    {"delivery.timeout.ms": "1000"},
    {"request.timeout.ms": "200000"},
    {"linger.ms": "100000"},
    {"request.timeout.ms": "200000", "delivery.timeout.ms": "120000"},
]


@pytest.fixture(scope="module")
def java() -> Iterator[JavaProgram]:
    try:
        program = JavaProgram("ClientSettings")
    except EnvironmentFailure as failure:
        pytest.skip(f"Java cannot be started here: {failure}")
    with program as started:
        yield started


def broken_for(library: str, settings: dict[str, str]) -> set[str]:
    read = read_settings(settings, library=Library.parse(library), role=Role.PRODUCER)
    return {rule.id for rule in broken_rules(read, Guarantee.EXACTLY_ONCE)}


@pytest.mark.parametrize("settings", TIMES, ids=str)
def test_java_times(java: JavaProgram, settings: dict[str, str]) -> None:
    answer = java.ask("make", settings=settings)
    assert bool(answer.get("refused")) is ("S010" in broken_for("java", settings))
    assert "S011" not in broken_for("java", settings), "Java compares the two with each other never"
    if "refused" not in answer:
        ours = read_settings(settings, library=Library.parse("java"))
        for name in ("delivery.timeout.ms", "transaction.timeout.ms", "enable.idempotence"):
            assert ours.text(name) == answer[name], name


def refusal_of(settings: Mapping[str, object]) -> str:
    """What librdkafka says instead of making a producer; empty when it makes one."""
    try:
        confluent_kafka.Producer(dict(settings))
    except confluent_kafka.KafkaException as refusal:
        return str(refusal)
    return ""


@pytest.mark.parametrize("settings", TIMES, ids=str)
def test_librdkafka_times(settings: dict[str, str]) -> None:
    refused = refusal_of({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, **settings})
    assert ("transaction.timeout.ms" in refused) is ("S011" in broken_for("librdkafka", settings)), refused


def test_names_of_the_java_clients(java: JavaProgram) -> None:
    names = {name for name in java.ask("names") if not name.startswith("internal.")}
    assert names - NAMES["java"] == set()


def test_names_of_librdkafka(tmp_path: Path) -> None:
    (path,) = (Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs").glob("librdkafka*")
    library, system = ctypes.CDLL(str(path)), ctypes.CDLL(None)
    system.fopen.restype = ctypes.c_void_p
    listed = system.fopen(os.fsencode(tmp_path / "listed"), b"w")
    library.rd_kafka_conf_properties_show(ctypes.c_void_p(listed))
    system.fclose(ctypes.c_void_p(listed))
    found = re.findall(r"(?m)^([a-z][a-z_.]+) +\|", (tmp_path / "listed").read_text())
    assert len(found) > 150
    assert {name for name in found if not name.startswith("test.")} - NAMES["librdkafka"] == set()


def test_names_of_the_python_libraries() -> None:
    assert {*KafkaProducer.DEFAULT_CONFIG, *KafkaConsumer.DEFAULT_CONFIG} - NAMES["kafka-python"] == set()
    taken = [inspect.signature(each).parameters for each in (aiokafka.AIOKafkaProducer, aiokafka.AIOKafkaConsumer)]
    assert {name for each in taken for name in each} - {"topics"} - NAMES["aiokafka"] == set()


@pytest.mark.parametrize(
    "name", ["acks", "ack", "enable.idempotance", "ACKS", "message.timeout.ms", "bootstrap_servers"]
)
def test_librdkafka_refuses_the_names_that_we_call_unknown(name: str) -> None:
    known = is_known(name, Library.parse("librdkafka"))
    assert ("No such configuration property" in refusal_of({name: "1"})) is not known
