"""Options of the Kafka sink: what is accepted is honoured, and every other name says what to write instead."""

import re

import pytest

from semel.errors import ConfigError
from semel.sinks.kafka.options import ALWAYS, INSTEAD, sink_connection
from semel.sinks.kafka.sink import KafkaOutput
from semel.wire.option_names import READING, TUNING, WRITING

SECRET = "top-5ecret"
ADDRESS = {"kafka.bootstrap.servers": "localhost:9092"}
LOGIN = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": SECRET}


def test_the_address_alone() -> None:
    assert sink_connection("localhost:9092") == sink_connection(ADDRESS)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in ALWAYS.items() for value in values])
def test_what_is_done_in_any_case_may_be_said(name: str, value: str) -> None:
    assert sink_connection({**ADDRESS, name: value, "Kafka.Client.Id": "semel"}) == sink_connection(ADDRESS)
    assert sink_connection({**ADDRESS, name.upper(): value.upper()}) == sink_connection(ADDRESS)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("kafka.acks", "1"),
        ("kafka.acks", 0),
        ("kafka.acks", ""),
        ("kafka.enable.idempotence", False),
        ("kafka.max.in.flight.requests.per.connection", "6"),
    ],
)
def test_what_would_weaken_the_guarantee_is_refused(name: str, wrong: object) -> None:
    with pytest.raises(ConfigError, match=f"option {name} cannot be"):
        sink_connection({**ADDRESS, name: wrong})


@pytest.mark.parametrize("name", sorted(INSTEAD))
def test_what_an_argument_says_is_refused_with_that_argument(name: str) -> None:
    with pytest.raises(ConfigError, match=f"option {name} has no place here") as refused:
        sink_connection({**ADDRESS, name.upper(): SECRET})
    assert refused.value.you_want == INSTEAD[name]
    assert SECRET not in str(refused.value)


def test_arguments_that_are_advised_exist() -> None:
    advised = {name for text in INSTEAD.values() for name in re.findall(r"KafkaSink\(…, (\w+)=", text)}
    assert advised - {"pipeline"} <= set(KafkaOutput.__dataclass_fields__)


@pytest.mark.parametrize("name", sorted(READING | TUNING))
def test_what_is_of_readers_or_of_java_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="not supported"):
        sink_connection({**ADDRESS, f"kafka.{name}": "1"})


def test_every_setting_of_writers_has_an_answer() -> None:
    assert {f"kafka.{name}" for name in WRITING} == ALWAYS.keys() | {name for name in INSTEAD if "kafka." in name}


@pytest.mark.parametrize("name", ["security.protocol", "SASL.password", "bootstrap.servers", "acks"])
def test_a_name_without_its_prefix_is_never_dropped(name: str) -> None:
    with pytest.raises(ConfigError, match="needs a prefix") as refused:
        sink_connection({**ADDRESS, name: SECRET})
    assert refused.value.you_want == f"kafka.{name.lower()}"
    assert SECRET not in str(refused.value)


def test_protection_asked_for_without_prefixes_does_not_become_plain_text() -> None:
    with pytest.raises(ConfigError, match="needs a prefix"):
        sink_connection({**ADDRESS, "security.protocol": "SASL_SSL", **LOGIN})


def test_credentials_without_a_protocol_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"no effect without kafka\.security\.protocol") as refused:
        sink_connection({**ADDRESS, **{f"kafka.{name}": value for name, value in LOGIN.items()}})
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(("name", "near"), [("kafka.ack", "kafka.acks"), ("kafka.sasl.pasword", "kafka.sasl.password")])
def test_a_misspelt_name(name: str, near: str) -> None:
    with pytest.raises(ConfigError, match=f"option {name} is unknown") as refused:
        sink_connection({**ADDRESS, name: SECRET})
    assert refused.value.you_want == near
    assert SECRET not in str(refused.value)
