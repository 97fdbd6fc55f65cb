"""`WireSettings`: how to reach a cluster, from the options that Spark's Kafka source takes.

Keeps: a password or key phrase is in no text made from the settings or from an error about them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from semel.errors import ConfigError
from semel.wire.option_names import PREFIX, kafka_options
from semel.wire.security import SaslSettings, SecurityProtocol, TlsSettings

_ADDRESS = re.compile(r"(?:\w+://)?(?:\[(?P<ipv6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\s:/\[\]]+)):(?P<port>\d{1,5})")
PORT_MAX = 65535
MS_MAX = 2**31 - 1
ANSWER_BYTES_MAX = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class WireSettings:
    """Plain values: hashable, and picklable for Spark's tasks."""

    bootstrap: tuple[tuple[str, int], ...]
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None
    client_id: str = "semel"
    request_timeout_ms: int = 30_000
    api_timeout_ms: int = 60_000
    connect_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_backoff_ms_max: int = 1_000
    answer_bytes_max: int = ANSWER_BYTES_MAX

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """Read the `kafka.*` options; keys without that prefix are not looked at. ConfigError for what is wrong."""
        given = kafka_options(options)
        protocol = _protocol(given)
        numbers = {field: _number(given, name) for field, name in _NUMBERS.items() if name in given}
        return cls(
            bootstrap=_addresses(given),
            protocol=protocol,
            tls=TlsSettings.from_options(given) if protocol.encrypted else None,
            sasl=SaslSettings.from_options(given) if protocol.authenticated else None,
            client_id=given.get("client.id", "semel"),
            **numbers,
        )


_NUMBERS = {
    "request_timeout_ms": "request.timeout.ms",
    "api_timeout_ms": "default.api.timeout.ms",
    "connect_timeout_ms": "socket.connection.setup.timeout.ms",
    "retry_backoff_ms": "retry.backoff.ms",
    "retry_backoff_ms_max": "retry.backoff.max.ms",
    "answer_bytes_max": "receive.message.max.bytes",
}


def _number(given: Mapping[str, str], name: str) -> int:
    text = given[name].strip()
    value = int(text) if text.isascii() and text.isdecimal() else 0
    if not 1 <= value <= MS_MAX:
        raise ConfigError(f"option {PREFIX}{name} is {text!r}", you_want=f"a whole number from 1 to {MS_MAX}")
    return value


def _protocol(given: Mapping[str, str]) -> SecurityProtocol:
    text = given.get("security.protocol", SecurityProtocol.PLAINTEXT).upper()
    try:
        protocol = SecurityProtocol(text)
    except ValueError:
        raise ConfigError(
            f"option {PREFIX}security.protocol is {text!r}", you_want=" | ".join(SecurityProtocol)
        ) from None
    _check_agreement(given, protocol)
    return protocol


def _check_agreement(given: Mapping[str, str], protocol: SecurityProtocol) -> None:
    for prefix, used, wanted in (("sasl.", protocol.authenticated, "SASL_SSL"), ("ssl.", protocol.encrypted, "SSL")):
        stray = sorted(name for name in given if name.startswith(prefix))
        if stray and not used:
            raise ConfigError(
                f"option {PREFIX}{stray[0]} has no effect with kafka.security.protocol={protocol}",
                you_want=f"{PREFIX}security.protocol={wanted}, or leave the option out",
                because="the connection would be less protected than the options say",
            )


def _addresses(given: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    text = given.get("bootstrap.servers", "")
    addresses = [_address(part.strip()) for part in text.split(",") if part.strip()]
    if not addresses:
        raise ConfigError(
            f"option {PREFIX}bootstrap.servers is missing", you_want=f"{PREFIX}bootstrap.servers=host:port,host:port"
        )
    return tuple(dict.fromkeys(addresses))


def _address(text: str) -> tuple[str, int]:
    match = _ADDRESS.fullmatch(text)
    if match is None or not 1 <= int(match["port"]) <= PORT_MAX:
        raise ConfigError(
            f"option {PREFIX}bootstrap.servers has {text!r}", you_want="host:port, or [address]:port for IPv6"
        )
    return match["ipv6"] or match["host"], int(match["port"])
