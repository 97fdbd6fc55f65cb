"""`KafkaOutput`: wrong settings are refused before anything is connected."""

from typing import Any

import pytest

from semel.errors import ConfigError
from semel.protocol.compression import Codec
from semel.sinks.kafka import KafkaOutput, LedgerMissing, Partitioning

ADDRESS = "localhost:9092"


def test_defaults() -> None:
    output = KafkaOutput(ADDRESS, "totals")
    assert output.topics == ("totals",)
    assert output.wire.bootstrap == (("localhost", 9092),)
    assert (output.partitioning, output.ledger_missing) == (Partitioning.KEYED, LedgerMissing.STOP)
    assert output.codec is Codec.NONE


def test_the_first_topic_comes_first() -> None:
    assert KafkaOutput(ADDRESS, "a", topics=["b", "c"]).topics == ("a", "b", "c")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"topic": None}, "needs its output topics"),
        ({"topic": "a", "topics": ["a"]}, "each once"),
        ({"partitioning": "random"}, "partitioning='random' is unknown"),
        ({"codec": "rar"}, "codec='rar' is unknown"),
        ({"transaction_timeout_ms": 0}, "must be above 0"),
        ({"ledger_missing": "guess"}, "ledger_missing='guess' is unknown"),
        ({"options": {"kafka.bootstrap.servers": "nowhere"}}, "bootstrap.servers"),
    ],
)
def test_wrong_settings(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        KafkaOutput(**{"options": ADDRESS, "topic": "totals"} | given)
