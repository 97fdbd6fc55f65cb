"""The page with every setting of the clients, held against the code: nothing else is accepted, and all of it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from semel.clients.accepted_settings import ACCEPTED, INSTEAD
from semel.clients.setting_names import Role
from semel.clients.setting_vocabulary import NAMES
from semel.clients.settings import client_settings, read
from semel.errors import ConfigError
from semel.guarantee import Guarantee
from semel.protocol.clear_text import IN_THE_CLEAR

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "client-settings.md"
SECRET = "top-5ecret"
NOWHERE = "127.0.0.1:1"
NEVER = ("is a setting of a", "is not a setting that", "there is no setting")
EVERY_NAME = sorted(NAMES["librdkafka"] | NAMES["java"] | {IN_THE_CLEAR})


def listed(heading: str) -> set[str]:
    (section,) = re.findall(
        rf"^## {heading}$(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row[0])}


ON_THE_PAGE = {
    role: listed("Connection") | listed("Security") | listed("Watching") | listed(f"{str(role).capitalize()}")
    for role in Role
}


def test_the_page_is_what_the_code_says() -> None:
    assert ON_THE_PAGE == ACCEPTED
    assert all(names <= NAMES["librdkafka"] | {IN_THE_CLEAR} for names in ACCEPTED.values())
    assert not INSTEAD.keys() & (ACCEPTED[Role.PRODUCER] | ACCEPTED[Role.CONSUMER])


@pytest.mark.parametrize("role", Role)
def test_a_name_is_accepted_if_it_is_listed_and_only_then(role: Role) -> None:
    """A listed one may still have a value that cannot be used; any other is refused for its name."""
    taken = {name for name in EVERY_NAME if _is_taken(role, name)}
    assert taken == ON_THE_PAGE[role]


def _is_taken(role: Role, name: str) -> bool:
    try:
        client_settings(role, Guarantee.AT_LEAST_ONCE, NOWHERE, {name: SECRET})
    except ConfigError as error:
        return not any(words in str(error) for words in NEVER)
    return True


@pytest.mark.parametrize(
    ("role", "name", "want"),
    [
        (Role.PRODUCER, "group.id", "leave it out"),
        (Role.CONSUMER, "linger.ms", "leave it out"),
        (Role.PRODUCER, "delivery.report.only.error", "Delivery.result"),
        (Role.PRODUCER, "queuing.strategy", ""),
        (Role.PRODUCER, "on_delivery", "producer.send(…).result()"),
        (Role.PRODUCER, "sasl.pasword", "sasl.password"),
        (Role.PRODUCER, "kafka.sasl.password", "sasl.password"),
        (Role.PRODUCER, "SASL.PASSWORD", "sasl.password"),
        (Role.CONSUMER, "ssl.truststore.location", "ssl.ca.location"),
        (Role.CONSUMER, "sasl.jaas.config", "sasl.username and sasl.password"),
    ],
)
def test_a_refusal_says_what_to_write(role: Role, name: str, want: str) -> None:
    with pytest.raises(ConfigError) as refused:
        client_settings(role, Guarantee.AT_LEAST_ONCE, NOWHERE, {name: SECRET})
    assert want in refused.value.you_want
    assert SECRET not in f"{refused.value}{refused.value.__dict__}"


def test_check_knows_the_setting_of_semels_own() -> None:
    assert read(Role.PRODUCER, {IN_THE_CLEAR: "allowed"}).unknown_names == ()
