"""K1 a setting that contradicts the declared guarantee is refused, and what it needs is set by the declaration."""

from __future__ import annotations

import pytest

from semel.clients.setting_names import Role
from semel.clients.settings import FETCH_QUEUE_BACKOFF_MS, client_settings, declared, read
from semel.clients.settings_rules import broken_rules
from semel.errors import ConfigError, GuaranteeError
from semel.guarantee import Guarantee

MOST, LEAST, EXACTLY = Guarantee
PRODUCER, CONSUMER = Role.PRODUCER, Role.CONSUMER


@pytest.mark.parametrize("guarantee", Guarantee)
@pytest.mark.parametrize("role", Role)
def test_what_a_guarantee_sets_keeps_every_rule(role: Role, guarantee: Guarantee) -> None:
    transactional = {"transactional.id": "t"} if guarantee is EXACTLY else {}
    own = {"group.id": "g"} if role is CONSUMER else transactional
    merged = client_settings(role, guarantee, "b:1", own)
    assert list(broken_rules(read(role, merged), guarantee)) == []


@pytest.mark.parametrize(
    ("rule", "role", "guarantee", "given"),
    [
        ("S001", PRODUCER, LEAST, {"acks": 1}),
        ("S001", PRODUCER, EXACTLY, {"request.required.acks": "0"}),
        ("S002", PRODUCER, LEAST, {"retries": 0}),
        ("S002", PRODUCER, EXACTLY, {"message.send.max.retries": 0}),
        ("S002", PRODUCER, MOST, {"retries": 3}),
        ("S003", PRODUCER, EXACTLY, {"enable.idempotence": False}),
        ("S004", PRODUCER, EXACTLY, {"max.in.flight": 6}),
        ("S005", PRODUCER, LEAST, {"transactional.id": "t"}),
        ("S005", PRODUCER, MOST, {"transactional.id": "t"}),
        ("S007", CONSUMER, LEAST, {"enable.auto.commit": True}),
        ("S007", CONSUMER, MOST, {"enable.auto.commit": "true"}),
        ("S008", CONSUMER, EXACTLY, {"isolation.level": "read_uncommitted"}),
        ("S009", CONSUMER, LEAST, {"auto.offset.reset": "latest"}),
        ("S009", CONSUMER, EXACTLY, {"auto.offset.reset": "end"}),
        ("S009", CONSUMER, MOST, {"auto.offset.reset": "earliest"}),
        ("S010", PRODUCER, LEAST, {"delivery.timeout.ms": 1000}),
        ("S011", PRODUCER, EXACTLY, {"transactional.id": "t", "message.timeout.ms": 90_000}),
        ("S012", CONSUMER, LEAST, {"group.id": ""}),
    ],
)
def test_a_contradiction_is_refused(rule: str, role: Role, guarantee: Guarantee, given: dict[str, object]) -> None:
    base = {"group.id": "g"} if role is CONSUMER else {}
    with pytest.raises(GuaranteeError) as caught:
        client_settings(role, guarantee, "b:1", base | given)
    error = caught.value
    assert error.rule == rule
    assert all((error.you_wrote, error.you_want, error.because, error.next_command))
    assert guarantee.replace("_", " ") in str(error)


def test_settings_that_contradict_nothing_go_through_under_their_own_names() -> None:
    merged = client_settings(
        PRODUCER, EXACTLY, "b:1", {"max.in.flight": 3, "message.max.bytes": 5, "compression.codec": "lz4"}
    )
    assert (merged["max.in.flight"], merged["message.max.bytes"], merged["compression.codec"]) == (3, 5, "lz4")
    assert "max.in.flight.requests.per.connection" not in merged, "librdkafka would see the setting twice"


@pytest.mark.parametrize("guarantee", Guarantee)
def test_a_consumer_that_is_quick_does_not_wait_for_what_is_there(guarantee: Guarantee) -> None:
    """The library's own pause of a second is longer than such a consumer takes for all that was fetched ahead."""
    own: dict[str, object] = {"group.id": "g"}
    assert client_settings(CONSUMER, guarantee, "b:1", own)["fetch.queue.backoff.ms"] == FETCH_QUEUE_BACKOFF_MS
    chosen = client_settings(CONSUMER, guarantee, "b:1", {**own, "fetch.queue.backoff.ms": 500})
    assert chosen["fetch.queue.backoff.ms"] == 500


def test_a_transaction_timeout_carries_the_delivery_timeout() -> None:
    merged = client_settings(PRODUCER, EXACTLY, "b:1", {"transactional.id": "t", "transaction.timeout.ms": 40_000})
    assert merged["delivery.timeout.ms"] == "40000"


def test_a_password_is_in_no_refusal() -> None:
    with pytest.raises(GuaranteeError) as caught:
        client_settings(PRODUCER, EXACTLY, "b:1", {"sasl.password": "hidden", "acks": "1"})
    assert "hidden" not in f"{caught.value}{caught.value.__dict__}"


def test_an_empty_address_is_refused() -> None:
    with pytest.raises(ConfigError, match="bootstrap"):
        client_settings(PRODUCER, LEAST, " ", {})


def test_at_most_once_waits_for_the_leader_to_learn_of_losses() -> None:
    assert declared(PRODUCER, MOST)["acks"] == "1"


@pytest.mark.parametrize("bootstrap", ["", "  ", {"bootstrap.servers": "127.0.0.1:1"}, None])
def test_a_bootstrap_that_is_no_address_is_refused(bootstrap: object) -> None:
    """Other clients take their settings as the first argument."""
    with pytest.raises(ConfigError, match="bootstrap is"):
        client_settings(Role.PRODUCER, Guarantee.AT_LEAST_ONCE, bootstrap, {})  # type: ignore[arg-type]
