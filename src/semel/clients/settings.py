"""What each guarantee sets in librdkafka, and the refusal of settings that contradict it.

Why: a guarantee is lost by one line of configuration more often than by a bug, and nothing fails when it is. The rules
     themselves are in `settings_rules`, which `semel check` reads as well.
"""

from __future__ import annotations

from collections.abc import Mapping

from semel.clients.accepted_settings import refuse_other_names
from semel.clients.security_settings import checked_security
from semel.clients.setting_defaults import Library
from semel.clients.setting_effects import IN_FLIGHT, IN_FLIGHT_MAX
from semel.clients.setting_names import ClientSettings, Role, read_settings
from semel.clients.setting_values import FRACTIONS, is_number, is_read_whole, whole_number
from semel.clients.settings_rules import CLIENT_RULES, UseRule, broken_rules
from semel.errors import ConfigError, GuaranteeError
from semel.guarantee import Guarantee
from semel.protocol.msk_iam import refuse_msk_iam

DELIVERY_TIMEOUT_MS = 120_000
TRANSACTION_TIMEOUT_MS = 60_000
# A partition with enough fetched ahead rests that long. It is a second in librdkafka: a program that has used all of it
# up earlier waits for the rest of the second.
FETCH_QUEUE_BACKOFF_MS = 10
RULES_BY_ID = {rule.id: rule for rule in CLIENT_RULES}
# Exactly once without a transactional id holds as long as the producer lives; `transaction()` asks for more.
LEFT_TO_THE_CODE = frozenset({"S006"})
LIBRARY = Library.parse("librdkafka")

Value = str | int | float | bool | object


def declared(role: Role, guarantee: Guarantee) -> dict[str, Value]:
    """What a guarantee sets, by librdkafka's names."""
    match role:
        case Role.PRODUCER:
            return _declared_producer(guarantee)
        case Role.CONSUMER:
            return _declared_consumer(guarantee)


def _declared_producer(guarantee: Guarantee) -> dict[str, Value]:
    match guarantee:
        case Guarantee.AT_MOST_ONCE:
            # acks=1 and not 0: without a retry neither duplicates, but with 1 the producer learns of losses.
            return {"acks": "1", "retries": 0, "enable.idempotence": False}
        case Guarantee.AT_LEAST_ONCE:
            return {"acks": "all", "enable.idempotence": False, "delivery.timeout.ms": DELIVERY_TIMEOUT_MS}
        case Guarantee.EXACTLY_ONCE:
            return {
                "acks": "all",
                "enable.idempotence": True,
                IN_FLIGHT: IN_FLIGHT_MAX,
                "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
            }


def _declared_consumer(guarantee: Guarantee) -> dict[str, Value]:
    return {
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "isolation.level": "read_committed",
        # A group without offsets starts where its guarantee may: nothing skipped, or nothing twice.
        "auto.offset.reset": "latest" if guarantee is Guarantee.AT_MOST_ONCE else "earliest",
        "fetch.queue.backoff.ms": FETCH_QUEUE_BACKOFF_MS,
    }


def client_settings(role: Role, guarantee: Guarantee, bootstrap: str, given: Mapping[str, Value]) -> dict[str, Value]:
    """Everything for librdkafka: what the guarantee sets and what was given; GuaranteeError where the two fight."""
    if not isinstance(bootstrap, str):  # other clients take a dict of settings in its place
        raise ConfigError(
            f"bootstrap is a {type(bootstrap).__name__}, not a text",
            you_want='"host:port", and the others as settings={…}',
        )
    if not bootstrap.strip():
        raise ConfigError("bootstrap is empty", you_want='bootstrap="host:port"')
    refuse_msk_iam(given, "oauth_cb")
    refuse_other_names(role, given)
    refuse_values(given)
    named = read(role, given).given  # librdkafka has two names for some settings
    own: dict[str, Value] = {"bootstrap.servers": bootstrap, "client.id": "semel", **declared(role, guarantee)}
    if named.get("transactional.id"):
        own |= _transaction_times(named)
    # What was given goes before what the guarantee sets; where the two fight, the rules below refuse it (K1).
    merged = {name: value for name, value in own.items() if name not in named} | dict(given)
    refuse_contradictions(read(role, merged), guarantee)
    return checked_security(merged)


def refuse_values(given: Mapping[str, Value]) -> None:
    """A number that librdkafka reads in part only would not have the effect that it seems to have."""
    for name, value in given.items():
        is_fraction = isinstance(value, float) and name not in FRACTIONS
        if is_fraction or (is_number(name) and not is_read_whole(str(value))):
            read_as = whole_number(name, str(value), LIBRARY)
            raise ConfigError(
                f"{name}={value} is not a whole number of 32 bits",
                you_want=f"{name}={int(value)}" if isinstance(value, float) and value.is_integer() else f"{name}=…",
                because=f"librdkafka would read {read_as} and say nothing",
            )


def beside_arguments(
    role: Role, settings: Mapping[str, Value] | None, arguments: Mapping[str, tuple[str, str]]
) -> dict[str, Value]:
    """The settings; ConfigError where they contradict an argument of the constructor, named here with its value."""
    given = dict(settings or {})
    named = read(role, given).given
    for name, (argument, value) in arguments.items():
        if named.get(name, value) != value:
            raise ConfigError(
                f"{name} has two values: {argument}={value!r} and another one in settings",
                you_want=f"{argument}=… alone",
                because="only one of them can be in force, and nothing says which",
            )
    return given


def read(role: Role, written: Mapping[str, Value]) -> ClientSettings:
    """Settings by the Java clients' names, most of which librdkafka takes too."""
    return read_settings(written, library=LIBRARY, role=role)


def _transaction_times(given: Mapping[str, str]) -> dict[str, Value]:
    """A transaction timeout that was given alone carries the delivery timeout along: neither outlives the other."""
    limit_ms = given.get("transaction.timeout.ms", str(TRANSACTION_TIMEOUT_MS))
    return {"transaction.timeout.ms": limit_ms, "delivery.timeout.ms": limit_ms}


def refuse_contradictions(settings: ClientSettings, guarantee: Guarantee) -> None:
    """Raise what the first broken rule says."""
    for rule in broken_rules(settings, guarantee):
        if rule.id not in LEFT_TO_THE_CODE:
            wrote = ", ".join(settings.shown(name) for name in rule.settings if name in settings.given)
            raise refusal(rule, guarantee, you_wrote=wrote or settings.shown(rule.settings[0]))


def refusal(rule: UseRule, guarantee: Guarantee, *, you_wrote: str, you_want: str = "") -> GuaranteeError:
    """The error of a rule that was found broken."""
    return GuaranteeError(
        f"the {rule.role} is declared {guarantee.replace('_', ' ')}, but this would not hold: {rule.title}",
        rule=rule.id,
        you_wrote=you_wrote,
        you_want=you_want or rule.requires.get(guarantee, ""),
        because=rule.wrong,
    )
