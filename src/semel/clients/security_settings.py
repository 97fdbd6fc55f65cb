"""The security settings of `semel.Producer` and `semel.Consumer`, checked before librdkafka sees them.

Keeps: a setting that protects the connection is in force or refused: credentials and certificates that the chosen
       protocol would not use, a password or token that would cross the network unencrypted.
Why:   librdkafka takes all of these without a word. Without `security.protocol` it sends everything in the clear,
       whatever certificates and passwords stand beside it; without `sasl.mechanism` it tries Kerberos.
       Brokers that a bootstrap address on loopback points to elsewhere are librdkafka's affair: it connects by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from semel.errors import ConfigError
from semel.protocol.clear_text import IN_THE_CLEAR, is_allowed, is_loopback, refuse_in_the_clear

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
_OF_SASL = frozenset({"oauth_cb", "enable.sasl.oauthbearer.unsecure.jwt", "https.ca.location", "https.ca.pem"})
_OF_TLS = frozenset({"enable.ssl.certificate.verification"})
# The names that begin so, beside those above, and the mechanisms that read them.
_READ_BY = {
    "sasl.username": frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}),
    "sasl.password": frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}),
    "sasl.oauthbearer.": frozenset({"OAUTHBEARER"}),
    "oauth_cb": frozenset({"OAUTHBEARER"}),
    "enable.sasl.oauthbearer.": frozenset({"OAUTHBEARER"}),
    "https.ca.": frozenset({"OAUTHBEARER"}),
    "sasl.kerberos.": frozenset({"GSSAPI"}),
}
_HALVES = (("ssl.certificate.location", "ssl.certificate.pem"), ("ssl.key.location", "ssl.key.pem"))


def checked_security(settings: Mapping[str, object]) -> dict[str, object]:
    """Return what librdkafka gets: the settings without semel's own; ConfigError for what would not be in force."""
    given = {name: value for name, value in settings.items() if value is not None}
    protocol = _protocol(given)
    by_sasl, by_tls = protocol.startswith("SASL"), protocol.endswith("SSL")
    # A password beside PLAINTEXT means that somebody believes in a login that never takes place.
    _refuse_stray(_named(given, "sasl.", _OF_SASL), by_sasl, protocol, given, "SASL_SSL")
    _refuse_stray(_named(given, "ssl.", _OF_TLS), by_tls, protocol, given, "SSL")
    if by_tls:
        _refuse_half(given)
    if by_sasl:
        mechanism = _mechanism(given)
        _refuse_unread(given, mechanism)
        _refuse_open_endpoint(_text(given, "sasl.oauthbearer.token.endpoint.url") or "")
        allowed = _text(given, IN_THE_CLEAR)
        if not is_allowed(allowed, mechanism=mechanism, encrypted=by_tls) and not by_tls:
            refuse_in_the_clear(mechanism, _hosts(str(given.get("bootstrap.servers", ""))))
    return {name: value for name, value in given.items() if name != IN_THE_CLEAR}


def _text(given: Mapping[str, object], name: str) -> str | None:
    return str(given[name]) if name in given else None


def _named(given: Mapping[str, object], prefix: str, others: Iterable[str]) -> list[str]:
    return sorted(name for name in given if name.startswith(prefix) or name in others)


def _protocol(given: Mapping[str, object]) -> str:
    text = str(given.get("security.protocol", "PLAINTEXT")).strip().upper()
    if text not in PROTOCOLS:
        raise ConfigError(f"security.protocol is {text!r}", you_want=" | ".join(PROTOCOLS))
    return text


def _refuse_stray(names: list[str], used: bool, protocol: str, given: Mapping[str, object], wanted: str) -> None:
    if names and not used:
        chosen = f"with security.protocol={protocol}" if "security.protocol" in given else "without security.protocol"
        raise ConfigError(
            f"{names[0]} has no effect {chosen}",
            you_want=f"security.protocol={wanted}, or leave it out",
            because="the connection would be less protected than the settings say",
        )


def _refuse_half(given: Mapping[str, object]) -> None:
    certificate, key = (next((name for name in half if name in given), "") for half in _HALVES)
    if bool(certificate) != bool(key):
        raise ConfigError(
            f"{certificate or key} has no effect alone",
            you_want="both ssl.certificate.location and ssl.key.location",
            because="a client shows a certificate and proves with the key that it is its own",
        )


def _mechanism(given: Mapping[str, object]) -> str:
    written = {
        name: str(given[name]).strip().upper() for name in ("sasl.mechanism", "sasl.mechanisms") if name in given
    }
    if len(set(written.values())) != 1 or not set(written.values()) <= set(MECHANISMS):
        found = " and ".join(f"{name}={value}" for name, value in written.items())
        raise ConfigError(
            f"{found}: one mechanism is needed" if written else "sasl.mechanism is missing",
            you_want=" | ".join(MECHANISMS),
        )
    return next(iter(written.values()))


def _refuse_unread(given: Mapping[str, object], mechanism: str) -> None:
    for name in sorted(given):
        readers = next((by for start, by in _READ_BY.items() if name.startswith(start)), None)
        if readers is not None and mechanism not in readers:
            raise ConfigError(
                f"{name} has no effect with sasl.mechanism={mechanism}",
                you_want=f"sasl.mechanism={' or '.join(sorted(readers))}, or leave it out",
            )


def _refuse_open_endpoint(url: str) -> None:
    """The client's secret goes to the server that gives out tokens, by librdkafka's own HTTP client."""
    asked = urlsplit(url)
    if asked.scheme == "http" and not is_loopback(asked.hostname or ""):
        raise ConfigError(
            f"the client's secret would be sent to {asked.hostname} unencrypted",
            you_wrote="sasl.oauthbearer.token.endpoint.url=http://…",
            you_want="https://…",
        )


def _hosts(bootstrap: str) -> list[str]:
    """The hosts of `host:port` or `protocol://host:port`; a port may be missing, as librdkafka lets it."""
    plain = [one.strip().rpartition("://")[2] for one in bootstrap.split(",") if one.strip()]
    return [one[: one.index("]") + 1] if one.startswith("[") and "]" in one else one.split(":")[0] for one in plain]
