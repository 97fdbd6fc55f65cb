"""`WireSettings`: how to reach a cluster, from the options that Spark's Kafka source takes.

Keeps: a password or key phrase is in no text made from the settings or from an error about them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Self

from semel.errors import ConfigError
from semel.protocol.clear_text import refuse_in_the_clear
from semel.wire.option_names import PREFIX, connection_options
from semel.wire.security import SaslSettings, SecurityProtocol, TlsSettings

_ADDRESS = re.compile(r"(?:\w+://)?(?:\[(?P<ipv6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\s:/\[\]]+)):(?P<port>\d{1,5})")
PORT_MAX = 65535
MS_MAX = 2**31 - 1
# Far above any fetch that is asked for; a larger announcement is no Kafka, or a broken broker.
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

    @property
    def addresses(self) -> str:
        """Where to connect, as a user writes it."""
        return ",".join(f"{host}:{port}" for host, port in self.bootstrap)

    @classmethod
    def from_options(
        cls, options: Mapping[str, object], *, instead: Mapping[str, str] | None = None, others: Collection[str] = ()
    ) -> Self:
        """Read `kafka.*` options that say how to connect; ConfigError for any other, and for what is wrong.

        See `option_names.connection_options` for `instead` and `others`.
        """
        given = connection_options(options, instead=instead or {}, others=others)
        protocol = _protocol(given)
        numbers = {field: _number(given, name) for field, name in _NUMBERS.items() if name in given}
        sasl = SaslSettings.from_options(given, encrypted=protocol.encrypted) if protocol.authenticated else None
        settings = cls(
            bootstrap=_addresses(given),
            protocol=protocol,
            tls=TlsSettings.from_options(given) if protocol.encrypted else None,
            sasl=sasl,
            client_id=given.get("client.id", "semel"),
            **numbers,
        )
        # Before anything connects. Addresses that brokers name later are checked in `Connection.open`.
        for host, _ in settings.bootstrap:
            settings.check_login(host)
        return settings

    def check_login(self, host: str) -> None:
        """ConfigError when logging in at this host would show a password or token to the network."""
        if self.sasl is not None and self.tls is None and not self.sasl.in_the_clear:
            refuse_in_the_clear(self.sasl.mechanism, [host], prefix=PREFIX)


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
    # `int` would take "1_000", "+5" and digits of other scripts, none of which a user means.
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
            chosen = f"with {PREFIX}security.protocol={protocol}"
            raise ConfigError(
                f"option {PREFIX}{stray[0]} has no effect "
                + (chosen if "security.protocol" in given else f"without {PREFIX}security.protocol"),
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
    # Twice the same address would be tried twice before another.
    return tuple(dict.fromkeys(addresses))


def _address(text: str) -> tuple[str, int]:
    match = _ADDRESS.fullmatch(text)
    if match is None or not 1 <= int(match["port"]) <= PORT_MAX:
        raise ConfigError(
            f"option {PREFIX}bootstrap.servers has {text!r}", you_want="host:port, or [address]:port for IPv6"
        )
    return match["ipv6"] or match["host"], int(match["port"])
