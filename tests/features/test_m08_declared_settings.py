"""M08 Settings that idempotence needs come with the declaration; a contradiction is refused with what to write instead.

Keeps: K1 a setting that contradicts the declared guarantee is refused before anything runs.
"""

from __future__ import annotations

from typing import Final

import pytest
from confluent_kafka import Producer

import semel
from semel.broker.runtime.intercept import DropResponse
from semel.errors import ConfigError, GuaranteeError
from semel.guarantee import Guarantee
from tests.features.clusters import Kafka, repeated

NOWHERE = "127.0.0.1:1"  # nobody listens there: a refusal must come before anything is asked
EXACTLY: Final = Guarantee.EXACTLY_ONCE


@pytest.mark.parametrize(
    ("rule", "setting", "value"),
    [
        ("S001", "acks", 1),
        ("S002", "retries", 0),
        ("S003", "enable.idempotence", False),
        ("S004", "max.in.flight.requests.per.connection", 6),
    ],
)
def test_a_contradiction_says_what_to_write(rule: str, setting: str, value: object) -> None:
    with pytest.raises(GuaranteeError) as caught:
        semel.Producer(NOWHERE, guarantee=EXACTLY, transactional_id="t", settings={setting: value})
    text = str(caught.value)
    assert caught.value.rule == rule
    assert f"{setting}=" in caught.value.you_wrote
    assert all(label in text for label in ("you wrote", "you want", "because", f"semel explain {rule}"))


def test_transactions_belong_to_exactly_once_with_an_id() -> None:
    for guarantee in (Guarantee.AT_MOST_ONCE, Guarantee.AT_LEAST_ONCE):
        with pytest.raises(GuaranteeError, match="S005"):
            semel.Producer(NOWHERE, guarantee=guarantee, transactional_id="t")  # type: ignore[call-overload]
    plain = semel.Producer(NOWHERE, guarantee=EXACTLY, settings={"log_level": 0})
    with pytest.raises(GuaranteeError, match="S006"):
        plain.transaction()  # type: ignore[misc]
    plain.close()


def test_a_setting_that_nobody_knows_is_named() -> None:
    with pytest.raises(ConfigError, match=r"no\.such\.thing"):
        semel.Producer(NOWHERE, guarantee=EXACTLY, settings={"no.such.thing": 1})


@pytest.mark.parametrize("declared", [True, False])
def test_what_the_refused_setting_would_do(cluster: semel.Cluster, faulty: Kafka, declared: bool) -> None:
    """The library takes enable.idempotence=false without a word, and a lost acknowledgement becomes a duplicate."""
    topic = faulty.topic()
    hook = cluster.intercept("Produce", DropResponse(), times=1)
    if declared:
        with semel.Producer(faulty.bootstrap, guarantee=EXACTLY) as producer:
            producer.send(topic, "x").result()
    else:
        bare = Producer({"bootstrap.servers": faulty.bootstrap, "enable.idempotence": False, "log_level": 0})
        bare.produce(topic, "x")
        assert bare.flush(20) == 0
    assert hook.fired == 1
    assert repeated(faulty.counts(topic)) == (0 if declared else 1)
