"""Spellings and defaults: the same setting in every library ends up under one name with the value in force."""

import inspect
from collections.abc import Mapping

import aiokafka
import pytest

from semel.clients.setting_defaults import Library, defaults_of
from semel.clients.setting_names import (
    COMPUTED_NAME,
    Computed,
    Role,
    SettingUnread,
    guess_library,
    read_settings,
)
from semel.clients.setting_vocabulary import NAMES
from semel.errors import ConfigError
from tests.support.kafka_python import KafkaConsumer, KafkaProducer


@pytest.mark.parametrize(
    ("library", "written", "name", "value"),
    [
        ("java", {"acks": "-1"}, "acks", "all"),
        ("java", {"kafka.acks": "all"}, "acks", "all"),
        ("librdkafka", {"request.required.acks": -1}, "acks", "all"),
        ("librdkafka", {"message.send.max.retries": 0}, "retries", "0"),
        ("librdkafka", {"max.in.flight": 7}, "max.in.flight.requests.per.connection", "7"),
        ("librdkafka", {"auto.offset.reset": "smallest"}, "auto.offset.reset", "earliest"),
        ("librdkafka", {"auto.offset.reset": "error"}, "auto.offset.reset", "none"),
        ("sarama", {"Producer.RequiredAcks": "sarama.WaitForAll"}, "acks", "all"),
        ("sarama", {"Producer.RequiredAcks": "WaitForLocal"}, "acks", "1"),
        ("sarama", {"Net.MaxOpenRequests": 1}, "max.in.flight.requests.per.connection", "1"),
        ("sarama", {"Consumer.IsolationLevel": "sarama.ReadCommitted"}, "isolation.level", "read_committed"),
        ("sarama", {"Consumer.Offsets.Initial": "-2"}, "auto.offset.reset", "earliest"),
        ("kafka-python", {"enable_auto_commit": False}, "enable.auto.commit", "False"),
        ("aiokafka", {"isolation_level": "read_committed"}, "isolation.level", "read_committed"),
        ("aiokafka", {"acks": -1}, "acks", "all"),
    ],
)
def test_a_spelling(library: str, written: dict[str, object], name: str, value: str) -> None:
    assert read_settings(written, library=Library.parse(library)).text(name) == value


@pytest.mark.parametrize(
    ("library", "name", "value"),
    [
        ("java", "acks", "all"),
        ("java@2.8", "acks", "1"),
        ("java@2.8", "enable.idempotence", "false"),
        ("java@3.0", "enable.idempotence", "true"),
        ("java@2.0", "retries", "0"),
        ("java", "isolation.level", "read_uncommitted"),
        ("librdkafka", "isolation.level", "read_committed"),
        ("librdkafka", "enable.idempotence", "false"),
        ("librdkafka", "acks", "all"),
        ("sarama", "acks", "1"),
        ("sarama", "retries", "3"),
        ("kafka-python", "acks", "all"),
        ("kafka-python@2.2", "acks", "1"),
        ("kafka-python@2.0", "retries", "0"),
        ("aiokafka", "acks", "1"),
    ],
)
def test_a_default(library: str, name: str, value: str) -> None:
    settings = read_settings({}, library=Library.parse(library))
    assert settings.text(name) == value
    assert "default of" in settings.shown(name)


@pytest.mark.parametrize(
    ("written", "library"),
    [
        ({"acks": "all"}, "java"),
        ({"kafka.acks": "all"}, "java"),
        ({"request.required.acks": "all"}, "librdkafka"),
        ({"sasl.username": "u"}, "librdkafka"),
        ({"bootstrap_servers": "a:1"}, "kafka-python"),
        ({"group.id": "g", "error_cb": "f"}, "librdkafka"),
        ({"acks": "1", "socket.timeout.ms": 1}, "librdkafka"),
        ({"Producer.RequiredAcks": "1"}, "sarama"),
    ],
)
def test_a_library_is_told_by_its_spelling(written: dict[str, object], library: str) -> None:
    assert guess_library(written).name == library


@pytest.mark.parametrize(
    ("written", "roles"),
    [
        ({"acks": "all"}, {Role.PRODUCER}),
        ({"group.id": "g"}, {Role.CONSUMER}),
        ({"acks": "all", "group.id": "g"}, set(Role)),
        ({"bootstrap.servers": "a:1"}, set(Role)),
    ],
)
def test_a_role_is_told_by_the_settings(written: dict[str, object], roles: set[Role]) -> None:
    assert read_settings(written).roles == roles


@pytest.mark.parametrize(
    ("written", "idempotent"),
    [
        ({}, True),
        ({"acks": "1"}, False),
        ({"retries": "0"}, False),
        ({"max.in.flight.requests.per.connection": "6"}, False),
        ({"max.in.flight.requests.per.connection": "5"}, True),
        ({"acks": "1", "transactional.id": "t"}, True),
    ],
)
def test_java_drops_idempotence_beside_settings_that_forbid_it(written: dict[str, object], idempotent: bool) -> None:
    assert read_settings(written, library=Library.parse("java")).enabled("enable.idempotence") is idempotent


def test_switching_idempotence_on_brings_what_it_needs() -> None:
    settings = read_settings({"enable.idempotence": True}, library=Library.parse("librdkafka"))
    assert (settings.text("acks"), settings.number("max.in.flight.requests.per.connection")) == ("all", 5)
    assert read_settings({"enable_idempotence": True}, library=Library.parse("aiokafka")).text("acks") == "all"
    assert read_settings({"Producer.Idempotent": True}, library=Library.parse("sarama")).text("acks") == "1"


def test_librdkafka_fits_the_delivery_timeout_to_the_transaction() -> None:
    library = Library.parse("librdkafka")
    settings = read_settings({"transactional.id": "t"}, library=library)
    assert settings.shown("delivery.timeout.ms") == "delivery.timeout.ms=60000 (follows from the others)"
    assert read_settings({"acks": "all"}, library=library).text("delivery.timeout.ms") == "300000"


def test_java_makes_room_for_one_request() -> None:
    settings = read_settings({"request.timeout.ms": "200000"}, library=Library.parse("java@3.9"))
    assert settings.shown("delivery.timeout.ms") == "delivery.timeout.ms=200000 (follows from the others)"


@pytest.mark.parametrize(
    ("library", "name", "near"),
    [
        ("java", "ack", "acks"),
        ("java", "ACKS", "acks"),
        ("java", "enable.idempotance", "enable.idempotence"),
        ("java", "message.timeout.ms", "delivery.timeout.ms"),
        ("java", "bootstrap_servers", "bootstrap.servers"),
        ("java", "schema.registry.url", ""),
        ("librdkafka", "idempotence", "enable.idempotence"),
        ("kafka-python", "group.id", "group_id"),
        ("aiokafka", "retries", ""),
        ("sarama", "Producer.RequiredAck", "producer.requiredacks"),
    ],
)
def test_a_name_that_the_library_does_not_know(library: str, name: str, near: str) -> None:
    settings = read_settings({name: "1"}, library=Library.parse(library))
    (unknown,) = settings.unknown_names
    assert (unknown.name, unknown.near) == (name, near)


@pytest.mark.parametrize("library", NAMES)
def test_names_that_the_library_knows(library: str) -> None:
    written = dict.fromkeys(NAMES[library], "1")
    assert read_settings(written, library=Library.parse(library)).unknown_names == ()
    assert read_settings({"kafka.acks": "1"}, library=Library.parse("java")).unknown_names == ()


def test_a_line_of_a_key_is_no_name_to_show() -> None:
    line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
    assert "MII" not in read_settings({line: ""}).unknown_names[0].name
    assert "9A" not in read_settings({"Qk3x9A": "="}).unknown_names[0].name


COMPUTED = Computed("computed at line 3")


@pytest.mark.parametrize("name", ["acks", "enable.idempotence", "retries"])
def test_a_computed_value_is_not_guessed(name: str) -> None:
    settings = read_settings({"acks": COMPUTED}, library=Library.parse("java"))
    if name == "retries":
        assert settings.text(name)
        return
    with pytest.raises(SettingUnread, match="line 3"):
        settings.text(name)
    assert "line 3" in settings.shown(name)


def test_settings_that_may_come_from_elsewhere() -> None:
    settings = read_settings({"acks": "all"}, library=Library.parse("java"), elsewhere="** at line 4 is not readable")
    assert settings.text("acks") == "all"
    with pytest.raises(SettingUnread, match="line 4"):
        settings.text("retries")


def test_a_computed_name_that_cannot_be_empty_is_set() -> None:
    filled = Computed("computed at line 3", filled=True)
    settings = read_settings({"transactional.id": filled, "acks": filled}, library=Library.parse("java"))
    assert settings.text("transactional.id") == COMPUTED_NAME
    with pytest.raises(SettingUnread):
        settings.text("acks")


@pytest.mark.parametrize("text", ["rust", "java@", "java@x", ""])
def test_a_library_that_is_not_known(text: str) -> None:
    with pytest.raises(ConfigError, match="no client library"):
        Library.parse(text)


def test_a_nested_value_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        read_settings({"sasl": {"password": "hush"}})
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("written", "name", "shown"),
    [
        ({"acks": "1"}, "acks", "acks=1"),
        ({}, "acks", "acks=all (default of java 4.0)"),
        ({"acks": "1"}, "enable.idempotence", "enable.idempotence=false (follows from the others)"),
        ({}, "transactional.id", "transactional.id is not set"),
    ],
)
def test_a_value_is_shown_with_its_origin(written: dict[str, object], name: str, shown: str) -> None:
    assert read_settings(written, library=Library.parse("java")).shown(name) == shown


SAME = {("acks", "-1"): "all", ("retries", "inf"): str(2**31 - 1)}


def differing(defaults: Mapping[str, str], told: Mapping[str, object]) -> set[str]:
    """The defaults that a library has under the same name with another value."""
    texts = {name: str(told[name.replace(".", "_")]).lower() for name in defaults if name.replace(".", "_") in told}
    assert len(texts) > 8
    return {name for name, text in texts.items() if SAME.get((name, text), text) != defaults[name]}


def test_defaults_are_those_of_the_installed_libraries() -> None:
    told = {**KafkaConsumer.DEFAULT_CONFIG, **KafkaProducer.DEFAULT_CONFIG}
    assert differing(defaults_of(Library.parse("kafka-python")), told) == set()
    taken = [inspect.signature(each).parameters for each in (aiokafka.AIOKafkaProducer, aiokafka.AIOKafkaConsumer)]
    told = {name: one.default for parameters in taken for name, one in parameters.items()}
    told.pop("acks")  # a placeholder: 1, or all with idempotence
    assert differing(defaults_of(Library.parse("aiokafka")), told) == set()
