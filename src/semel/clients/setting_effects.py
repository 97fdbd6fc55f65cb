"""What a library makes of the settings that it was given: defaults filled in, and those that it changes by itself.

Why: libraries correct some settings when a client is made. Java drops idempotence beside acks=1 and makes room for one
     request in delivery.timeout.ms; librdkafka fits delivery.timeout.ms to the transaction. A rule that looked at the
     bare defaults would judge settings that no client ever had.
"""

from __future__ import annotations

from collections.abc import Mapping

from semel.clients.setting_defaults import FOREVER, Library, defaults_of
from semel.clients.setting_values import is_yes

IN_FLIGHT = "max.in.flight.requests.per.connection"
IN_FLIGHT_MAX = 5  # how many batches of a producer a broker remembers

_IDEMPOTENCE = ("acks", "retries", IN_FLIGHT, "transactional.id")
# Settings that a library may change because of others, as long as nobody wrote them.
FOLLOWS = {
    "enable.idempotence": _IDEMPOTENCE,
    IN_FLIGHT: ("enable.idempotence", "transactional.id"),
    "delivery.timeout.ms": ("request.timeout.ms", "linger.ms", "transactional.id", "transaction.timeout.ms"),
}


def in_force(given: Mapping[str, str], library: Library) -> dict[str, str]:
    """Every setting by the Java clients' names with the value that a client works with."""
    values = {**defaults_of(library), **given}
    if "enable.idempotence" not in given:
        values["enable.idempotence"] = _idempotence(values, given)
    if is_yes(values["enable.idempotence"], library) and library.name != "sarama":
        # Who switches idempotence on gets what it needs unless it was written otherwise; sarama wants it all written.
        needed = {"acks": "all", "retries": FOREVER, IN_FLIGHT: str(IN_FLIGHT_MAX)}
        values |= {name: value for name, value in needed.items() if name not in given}
    if "delivery.timeout.ms" not in given:
        values["delivery.timeout.ms"] = _delivery_timeout_ms(values, library)
    return values


def _idempotence(values: Mapping[str, str], given: Mapping[str, str]) -> str:
    """What the library makes of it when nothing was written: Java switches it off where other settings forbid it."""
    if given.get("transactional.id"):
        return "true"
    in_flight = given.get(IN_FLIGHT, "")
    forbidden = (
        given.get("acks", "all") != "all"
        or given.get("retries") == "0"
        or (in_flight.isdecimal() and int(in_flight) > IN_FLIGHT_MAX)
    )
    return "false" if forbidden else values["enable.idempotence"]


def _delivery_timeout_ms(values: Mapping[str, str], library: Library) -> str:
    default = values["delivery.timeout.ms"]
    if library.name == "librdkafka" and values.get("transactional.id"):
        return values["transaction.timeout.ms"]
    one_request = [values["request.timeout.ms"], values["linger.ms"]]
    # Java raises its own default, and refuses a value that somebody wrote and that is too small (KIP-91).
    if library.name == "java" and all(text.isdecimal() for text in one_request):
        return str(max(int(default), sum(map(int, one_request))))
    return default
