"""K1 needs that a setting is read as the library reads it: compared with librdkafka's own functions."""

from __future__ import annotations

import asyncio
import ctypes
from pathlib import Path

import confluent_kafka
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import semel
from semel.clients.setting_names import Role
from semel.clients.setting_values import is_read_whole, is_yes, whole_number
from semel.clients.settings import LIBRARY, Value, client_settings
from semel.errors import ConfigError, GuaranteeError
from semel.guarantee import Guarantee

NOWHERE = "127.0.0.1:1"
WORDS = ["true", "false", "t", "f", "1", "0", "yes", "no", "on", "TRUE", "T", "F", "y"]


class Conf:
    """librdkafka's own settings, without a client."""

    def __init__(self) -> None:
        folder = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
        found = sorted(folder.glob("librdkafka*"))
        if not found:
            pytest.skip("confluent-kafka was built with a librdkafka of the system")
        self.library = ctypes.CDLL(str(found[0]))
        self.library.rd_kafka_conf_new.restype = ctypes.c_void_p

    def read(self, name: str, text: str) -> str | None:
        """What the library makes of it; None when it refuses."""
        conf, out, size = ctypes.c_void_p(self.library.rd_kafka_conf_new()), ctypes.create_string_buffer(512), 512
        try:
            if self.library.rd_kafka_conf_set(conf, name.encode(), text.encode(), out, ctypes.c_size_t(size)) != 0:
                return None
            length = ctypes.c_size_t(size)
            assert self.library.rd_kafka_conf_get(conf, name.encode(), out, ctypes.byref(length)) == 0
            return out.value.decode()
        finally:
            self.library.rd_kafka_conf_destroy(conf)


@pytest.fixture(scope="module")
def conf() -> Conf:
    return Conf()


# Whatever somebody may write for a number, and what is near it.
numbers = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.integers(0, 2**40).map(hex),
    st.floats(allow_nan=False).map(str),
    st.from_regex(r"\A[ \t]{0,2}[+-]?(0[xX]?)?[0-9a-fA-F]{0,12}[ .ems]{0,2}[0-9]{0,2}\Z"),
)


@given(text=numbers)
@example(text="+0")
@example(text="0.0")
@example(text="010")
@example(text="4294967296")
@example(text="08")
def test_numbers_are_what_librdkafka_reads(conf: Conf, text: str) -> None:
    found = conf.read("retries", text)
    own = whole_number("retries", text, LIBRARY)
    if found is not None:
        assert own == int(found)
    elif own is not None:
        assert not 0 <= own <= 2**31 - 1, "the library refuses what is out of its range"


@given(
    text=st.one_of(
        st.sampled_from(["true", "false", "t", "f", "1", "0", "yes", "no", "on", "TRUE", "T", "F", "y"]),
        st.text(max_size=3),
    )
)
def test_yes_and_no_are_what_librdkafka_reads(conf: Conf, text: str) -> None:
    if "\0" not in text and text == text.strip() and (found := conf.read("enable.auto.commit", text)) is not None:
        assert is_yes(text, LIBRARY) == (found == "true")


@given(st.integers(1 - 2**31, 2**31 - 1))
def test_whole_numbers_are_read_whole(number: int) -> None:
    assert all(is_read_whole(text) for text in (str(number), f"+{abs(number)}", f" {number} "))


@pytest.mark.parametrize("value", [0.0, "0.0", "5s", "1e4", 5000.0, "08", 2**32, "2 000"])
@pytest.mark.parametrize("name", ["retries", "delivery.timeout.ms", "message.timeout.ms"])
def test_a_number_that_would_be_read_in_part_is_refused(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match="not a whole number") as caught:
        client_settings(Role.PRODUCER, Guarantee.AT_LEAST_ONCE, "b:1", {name: value})
    assert "librdkafka would read" in caught.value.because


@pytest.mark.parametrize(
    ("rule", "role", "guarantee", "given"),
    [
        ("S007", Role.CONSUMER, Guarantee.AT_LEAST_ONCE, {"enable.auto.commit": "t", "enable.auto.offset.store": True}),
        ("S009", Role.CONSUMER, Guarantee.AT_LEAST_ONCE, {"auto.offset.reset": "LATEST"}),
        ("S002", Role.PRODUCER, Guarantee.AT_LEAST_ONCE, {"retries": "+0"}),
        ("S002", Role.PRODUCER, Guarantee.AT_LEAST_ONCE, {"retries": "0x0"}),
        ("S003", Role.PRODUCER, Guarantee.EXACTLY_ONCE, {"enable.idempotence": "f"}),
        ("S004", Role.PRODUCER, Guarantee.EXACTLY_ONCE, {"max.in.flight": "0x6"}),
    ],
)
def test_a_contradiction_in_other_words_is_refused(
    rule: str, role: Role, guarantee: Guarantee, given: dict[str, object]
) -> None:
    with pytest.raises(GuaranteeError) as caught:
        client_settings(role, guarantee, "b:1", {"group.id": "g"} | given if role is Role.CONSUMER else given)
    assert caught.value.rule == rule


@pytest.mark.parametrize("given", [{"enable.idempotence": "t"}, {"linger.ms": 2.5}, {"retries": "+5"}])
def test_what_contradicts_nothing_goes_through(given: dict[str, object]) -> None:
    merged = client_settings(Role.PRODUCER, Guarantee.EXACTLY_ONCE, "b:1", given)
    assert merged.items() >= given.items()


@pytest.mark.parametrize(
    ("name", "value"),
    [("group.id", "other"), ("bootstrap.servers", "other:1"), ("metadata.broker.list", "other:1")],
)
def test_a_setting_beside_an_argument_that_says_otherwise_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match="has two values"):
        semel.Consumer(NOWHERE, ["t"], group="g", guarantee="at_least_once", settings={name: value})


def test_two_transactional_ids_are_refused() -> None:
    with pytest.raises(ConfigError, match="has two values"):
        semel.Producer(NOWHERE, guarantee="exactly_once", transactional_id="a", settings={"transactional.id": "b"})


@pytest.mark.parametrize(
    ("role", "settings"),
    [
        ("consumer", {"enable.auto.commit": "t", "enable.auto.offset.store": True}),
        ("consumer", {"group.id": "another"}),
        ("consumer", {"max.poll.interval.ms": 5000.0}),
        ("producer", {"retries": 0.0}),
        ("producer", {"retries": "+0"}),
    ],
)
def test_the_clients_for_asyncio_refuse_the_same(role: str, settings: dict[str, Value]) -> None:
    """When they are opened, before anybody is asked."""

    async def open_it() -> None:
        if role == "consumer":
            consumer = semel.AsyncConsumer("b:1", ["t"], group="g", guarantee="at_least_once", settings=settings)
            await consumer.__aenter__()
        else:
            await semel.AsyncProducer("b:1", guarantee="at_least_once", settings=settings).__aenter__()

    with pytest.raises((ConfigError, GuaranteeError)):
        asyncio.run(open_it())
