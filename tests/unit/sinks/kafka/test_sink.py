"""`KafkaOutput`: wrong settings are refused before anything is connected."""

from typing import Any

import pytest

from semel.errors import ConfigError
from semel.protocol.compression import Codec
from semel.sinks.kafka.sink import KafkaOutput
from semel.sinks.kafka.stages import Partitioning
from semel.sinks.recovery import LedgerMissing

ADDRESS = "localhost:9092"


def test_defaults() -> None:
    output = KafkaOutput(ADDRESS, "totals")
    assert output.topics == ("totals",)
    assert output.wire.bootstrap == (("localhost", 9092),)
    assert (output.partitioning, output.ledger_missing) == (Partitioning.KEYED, LedgerMissing.STOP)
    assert output.codec is Codec.NONE


def test_the_first_topic_comes_first() -> None:
    assert KafkaOutput(ADDRESS, "a", topics=["b", "c"]).topics == ("a", "b", "c")


def test_one_topic_may_stand_for_several() -> None:
    assert KafkaOutput(ADDRESS, topics="orders").topics == ("orders",)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"topic": None}, "needs its output topics"),
        ({"topic": "a", "topics": ["a"]}, "each once"),
        ({"partitioning": "random"}, "partitioning='random' is unknown"),
        ({"codec": "rar"}, "codec='rar' is unknown"),
        ({"codec": None}, "codec=None is unknown"),
        ({"transaction_timeout_ms": 0}, "transaction_timeout_ms=0 cannot be used"),
        ({"transaction_timeout_ms": "600"}, "transaction_timeout_ms='600' cannot be used"),
        ({"transaction_timeout_ms": 2**31}, "cannot be used"),
        ({"batch_bytes_max": 0}, "batch_bytes_max=0 cannot be used"),
        ({"batch_bytes_max": True}, "batch_bytes_max=True cannot be used"),
        ({"topic": ""}, "needs its output topics"),
        ({"topic": ["a"]}, "needs its output topics"),
        ({"topic": None, "topics": [None]}, "needs its output topics"),
        ({"options": ["localhost:9092"]}, "first argument of a Kafka sink is a list"),
        ({"options": None}, "first argument of a Kafka sink is a NoneType"),
        ({"ledger_missing": "guess"}, "ledger_missing='guess' is unknown"),
        ({"options": {"kafka.bootstrap.servers": "nowhere"}}, "bootstrap.servers"),
    ],
)
def test_wrong_settings(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        KafkaOutput(**{"options": ADDRESS, "topic": "totals"} | given)
